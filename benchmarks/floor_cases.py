"""Operators that are recorded one by one, to be held against their floors: `benchmarks.floors`. Needs torch alone.

python -m benchmarks.floor_cases OUT --device cuda      a trace of each in OUT, and `cases.json` with their names
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

CALLS: Final = 5
NAMES: Final = "cases.json"
"""The file of the operators' names, by the names of their traces."""

Case = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--small", action="store_true", help="small tensors: tests that it runs")
    args = parser.parse_args()
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    import torch

    args.out.mkdir(parents=True, exist_ok=True)
    names: dict[str, str] = {}
    for name, file in recorded(torch, args.device, args.out, small=args.small):
        names[file.name] = name
        (args.out / NAMES).write_text(json.dumps(names), "utf-8")  # at once: the next may end the process


def recorded(torch: Any, device: str, folder: Path, *, small: bool, having: str = "") -> Iterator[tuple[str, Path]]:
    """Record each operator that has this in its name, after a call that is not recorded; the name, and its trace."""
    wait = (lambda: None) if device == "cpu" else getattr(torch, device).synchronize
    activity = torch.profiler.ProfilerActivity
    activities = [activity.CPU] if device == "cpu" else [activity.CPU, getattr(activity, device.upper())]
    for number, (name, case) in enumerate(cases(torch, device, small=small)):
        if having not in name:
            continue
        case()
        wait()
        with torch.profiler.profile(activities=activities, record_shapes=True) as recording:
            for _ in range(CALLS):
                case()
            wait()
        file = folder / f"{number:02}.pt.trace.json.gz"
        recording.export_chrome_trace(str(file))
        yield name, file


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


if __name__ == "__main__":
    main()
