"""Holds floors against hardware: operators run on this machine's device, else on its host, and none may beat its floor.

    python -m benchmarks.floors              on the first device that torch sees, else on the host
    python -m benchmarks.floors --small      with small tensors: a test that it runs; caches make the numbers moot

First `kinetoscope calibrate` measures what products and copies attain. Then each operator is recorded alone; its floor
follows from the recorded arguments and these peaks, its time from the kernels, on the host from the operators. The exit
code is 1 if an operator ran faster than its floor allows. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinetoscope import read
from kinetoscope.model.device.own_peaks import ATTAINABLE, FILE_VARIABLE
from kinetoscope.model.roofline.charged_work import has_host_floors
from kinetoscope.model.roofline.floors import floors
from kinetoscope.record.selftest import first_device

CALLS = 5
TOLERANCE = 1.1
"""Times that a floor may be longer than the time: what attainable peaks vary by from run to run."""

Case = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Attained:
    """An operator's time and floor of all calls, ns, and the share of its time that has a floor."""

    name: str
    time: float
    floor: float
    covered: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="small tensors: tests that it runs")
    parser.add_argument("--filter", default="", metavar="TEXT", help="only operators with this in their name")
    args = parser.parse_args()
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    import torch

    device = first_device(torch)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FILE_VARIABLE] = str(Path(folder) / "peaks.toml")
        seconds = "0.02" if args.small else "0.5"
        command = [sys.executable, "-m", "kinetoscope", "calibrate", "--device", device, "--seconds", seconds]
        subprocess.run(command, check=True)
        beaten = []
        sys.stdout.write(f"\n  {'operator':<28}{'time':>12}{'floor':>12}{'attained':>10}{'covered':>10}\n")
        for name, case in cases(torch, device, small=args.small):
            if args.filter in name:
                each = attained(torch, device, name, case, Path(folder))
                row = f"{each.time / 1e6:>9.3f} ms{each.floor / 1e6:>9.3f} ms{each.floor / max(each.time, 1.0):>10.0%}"
                sys.stdout.write(f"  {name:<28}{row}{each.covered:>10.0%}\n")
                beaten += [name] if each.floor > TOLERANCE * each.time else []
    if beaten:
        sys.stdout.write(f"Faster than their floors: {', '.join(beaten)}\n")
    sys.exit(bool(beaten) and not args.small)


def cases(torch: Any, device: str, *, small: bool) -> Iterator[tuple[str, Case]]:
    """Operators on tensors that no cache holds."""
    functional, side = torch.nn.functional, 256 if small else 2048 if device == "cpu" else 8192
    rows, width = (256, 512) if small else (65536, 1024)

    def tensor(*shape: int, grad: bool = False) -> Any:
        return torch.randn(*shape, device=device, requires_grad=grad)

    a, b, bias = tensor(side, side), tensor(side, side), tensor(side)
    yield "mm", lambda: a @ b
    yield "mm, transposed", lambda: a.t() @ b
    yield "addmm", lambda: torch.addmm(bias, a, b)
    low, high = a.bfloat16(), b.bfloat16()
    yield "mm, bfloat16", lambda: low @ high
    heads = tensor(16, side // 4, 64)
    yield "bmm", lambda: torch.bmm(heads, heads.transpose(1, 2))
    image, kernel = tensor(8, 64, 112, 112), tensor(64, 64, 3, 3)
    yield "conv2d", lambda: functional.conv2d(image, kernel, padding=1)
    query = tensor(4, 8, side // 2, 64)
    yield "attention", lambda: functional.scaled_dot_product_attention(query, query, query)
    yield "attention, causal", lambda: functional.scaled_dot_product_attention(query, query, query, is_causal=True)
    x, y, z, target = tensor(rows, width), tensor(rows, width), tensor(width), tensor(rows, width)
    yield "copy", lambda: target.copy_(x)
    yield "copy, transposed", lambda: x.t().contiguous()
    yield "add", lambda: torch.add(x, y, out=target)
    yield "add, broadcast", lambda: torch.add(x, z, out=target)
    yield "fill", lambda: target.fill_(1.0)
    yield "sum", x.sum
    yield "softmax", lambda: torch.softmax(x, -1)
    yield "layer_norm", lambda: functional.layer_norm(x, (width,), z, z)
    yield "gelu", lambda: functional.gelu(x)
    yield "cat", lambda: torch.cat([x, y])
    indices = torch.randint(rows, (rows,), device=device)
    yield "embedding", lambda: functional.embedding(indices, x)
    classes = torch.randint(width, (rows,), device=device)
    yield "cross_entropy", lambda: functional.cross_entropy(x, classes)
    inputs = tensor(rows, width, grad=True)
    normed = functional.layer_norm(inputs, (width,), z, z)
    yield "layer_norm, backward", lambda: normed.backward(y, retain_graph=True)
    weights = [tensor(side, side, grad=True) for _ in range(4)]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    for how in ("fused", "foreach"):
        optimizer = torch.optim.AdamW(weights, fused=how == "fused", foreach=how == "foreach")
        yield f"AdamW, {how}", optimizer.step


def attained(torch: Any, device: str, name: str, case: Case, folder: Path) -> Attained:
    """Record some calls of an operator, after one that is not recorded, and read its time and floor."""
    wait = (lambda: None) if device == "cpu" else getattr(torch, device).synchronize
    case()
    wait()
    activity = torch.profiler.ProfilerActivity
    activities = [activity.CPU] if device == "cpu" else [activity.CPU, getattr(activity, device.upper())]
    with torch.profiler.profile(activities=activities, record_shapes=True) as recording:
        for _ in range(CALLS):
            case()
        wait()
    file = folder / "trace.json"
    recording.export_chrome_trace(str(file))
    trace = read(file, peak=ATTAINABLE).trace()
    limits = floors(trace, on_host=has_host_floors(trace))
    covered = float(limits.time[limits.is_covered].sum())
    return Attained(name, covered, float(np.nansum(limits.floor)), covered / max(float(limits.time.sum()), 1.0))


if __name__ == "__main__":
    main()
