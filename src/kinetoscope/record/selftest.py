"""A test of what this machine can record: three steps of a tiny model, recorded with everything on, and checked.

It also measures what recording costs a step of the model. Run as a program of its own, so that what breaks in it breaks
nothing else; prints JSON: a list of capabilities.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

_STEP_COUNT: Final = 3

_TIMED_STEP_COUNT: Final = 50
"""Steps of which the median counts."""

Capability = tuple[str, str, str]
"""Its name; "yes", "no", or "absent" where there is nothing to record; and a sentence."""


def main() -> None:
    """Record, check, print."""
    with tempfile.TemporaryDirectory() as folder:
        results = list(capabilities(Path(folder)))
    sys.stdout.write(json.dumps([{"what": what, "can": can, "message": message} for what, can, message in results]))


def capabilities(folder: Path) -> Iterator[Capability]:
    """Each thing that can be recorded, and whether it was."""
    import torch

    yield "torch", "yes", f"torch {torch.__version__}, Python {sys.version.split()[0]}"
    device = first_device(torch)
    problem = _record(torch, folder / "all", device, with_stack=True, all_threads=False)
    trace = _read(folder / "all")
    if trace is None:
        yield "trace", "no", problem or "No trace was written."
        return
    yield "trace", "yes", "The trace is complete, valid JSON."
    yield from _host(trace)
    yield from _on_device(trace, device)
    _record(torch, folder / "threads", device, with_stack=False, all_threads=True)
    events = (_read(folder / "threads") or {}).get("traceEvents", ())
    threads = {event.get("tid") for event in events if event.get("cat") == "cpu_op"}
    yield "threads", *_answer(len(threads) > 1, "Threads that Python started are recorded with all_threads=True.")
    plain, recorded = _step_seconds(torch, folder / "overhead", device)
    cost = f"A step of a tiny model takes {plain * 1e3:.2f} ms, and {recorded * 1e3:.2f} ms while it is recorded."
    yield "overhead", "yes", cost


def first_device(torch: Any) -> str:
    """The kind of device that torch sees first."""
    for name in ("cuda", "xpu"):
        if hasattr(torch, name) and getattr(torch, name).is_available():
            return name
    return "cpu"


def _record(torch: Any, folder: Path, device: str, *, with_stack: bool, all_threads: bool) -> str:
    """Record three steps; "" or why there is no trace."""
    from kinetoscope.record.session.options import RecordOptions
    from kinetoscope.record.session.recorder import Recorder

    problems: list[str] = []
    options = RecordOptions(with_stack=with_stack, all_threads=all_threads)
    recorder = Recorder(folder, options, say=problems.append, signals=False)
    train = _training(torch, device)
    recorder.start_window(1, _STEP_COUNT, lambda written: problems.append(written.problem))
    for _ in range(_STEP_COUNT + 1):
        train()
        thread = threading.Thread(target=lambda: torch.ones(4).add(1))
        thread.start()
        thread.join()
        recorder.step()
    recorder.close()
    return next(filter(None, problems), "")


def _training(torch: Any, device: str) -> Callable[[], None]:
    """A step of a tiny model, which waits for the device."""
    model = torch.nn.Linear(64, 64).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(8, 64, device=device)).sum().backward()
        optimizer.step()
        if device != "cpu":
            getattr(torch, device).synchronize()

    return step


def _step_seconds(torch: Any, folder: Path, device: str) -> tuple[float, float]:
    """The median step, without a recorder and while one records."""
    from kinetoscope.record.session.recorder import Recorder

    train = _training(torch, device)
    plain = _median_seconds(train, lambda: None)
    recorder = Recorder(folder, say=lambda _: None, signals=False)
    recorder.start_window(0, _TIMED_STEP_COUNT + 2)
    recorded = _median_seconds(train, recorder.step)
    recorder.discard()
    recorder.close()
    return plain, recorded


def _median_seconds(step: Callable[[], object], end: Callable[[], object]) -> float:
    seconds = []
    for _ in range(_TIMED_STEP_COUNT):
        began = time.perf_counter()
        step()
        end()
        seconds.append(time.perf_counter() - began)
    return sorted(seconds)[_TIMED_STEP_COUNT // 2]


def _read(folder: Path) -> dict[str, Any] | None:
    for file in folder.glob("*.pt.trace.json.gz"):
        trace = json.loads(gzip.decompress(file.read_bytes()))
        return trace if isinstance(trace, dict) else None
    return None


def _host(trace: Mapping[str, Any]) -> Iterator[Capability]:
    events = trace["traceEvents"]
    ops = [event for event in events if event.get("cat") == "cpu_op"]
    steps = {event["name"] for event in events if str(event.get("name")).startswith("ProfilerStep#")}
    yield "steps", *_answer(len(steps) == _STEP_COUNT, f"{len(steps)} of {_STEP_COUNT} steps are marked.")
    yield "operators", *_answer(bool(ops), f"{len(ops)} operators of the host.")
    shapes = any("Input Dims" in event.get("args", {}) for event in ops)
    yield "shapes", *_answer(shapes, "Shapes of their inputs (record_shapes).")
    memory = any(event.get("name") == "[memory]" for event in events)
    yield "memory", *_answer(memory, "Allocations (profile_memory).")
    stacks = any(event.get("cat") == "python_function" for event in events)
    yield "stacks", *_answer(stacks, "Calls of Python (with_stack).")


def _on_device(trace: Mapping[str, Any], device: str) -> Iterator[Capability]:
    if device == "cpu":
        yield "device", "absent", "Torch sees no device here: the host alone is recorded."
        return
    events = trace["traceEvents"]
    kernels = sum(event.get("cat") == "kernel" for event in events)
    launches = sum(event.get("cat") in ("cuda_runtime", "cuda_driver", "xpu_runtime") for event in events)
    hint = "" if kernels else " Is another profiler attached, or is the driver closed to it (NVreg_RestrictProfiling)?"
    yield "launches", *_answer(bool(launches), f"{launches} calls of the runtime.")
    yield "kernels", *_answer(bool(kernels), f"{kernels} kernels of the device.{hint}")
    kind = {"cuda": 1, "xpu": 12}[device]
    memory = any(
        event.get("args", {}).get("Device Type") == kind for event in events if event.get("name") == "[memory]"
    )
    yield "device memory", *_answer(memory, "Allocations on the device.")


def _answer(true: bool, message: str) -> tuple[str, str]:
    return ("yes" if true else "no"), message


if __name__ == "__main__":
    main()
