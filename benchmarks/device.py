"""Draws a device beside a recording that has none: each op that calls no other gets a launch, a flow and a kernel.

The traces that come with the project were recorded without a GPU, and the peers measure little but GPUs. What is drawn
has the structure of the real thing (queueing, two streams, copies, collectives, links), not its numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.layout import microseconds
from benchmarks.marking import Number, nanoseconds

_MAIN, _COLLECTIVE = 7, 20
_TRANSIT = 4_000  # ns from the end of a launch to the begin of its kernel on an idle stream
_COLLECTIVE_EVERY = 40  # ops
_PROPERTIES = {"id": 0, "name": "a device that was drawn", "totalGlobalMem": 85_018_279_936, "numSms": 132}


def with_device(document: Mapping[str, Any]) -> dict[str, Any]:
    """`document`, a trace as `template.read` gives it, with a device; its own events are all kept and stay in order."""
    drawn: list[dict[str, Any]] = []
    free = dict.fromkeys((_MAIN, _COLLECTIVE), 0)
    for number, op in enumerate(_leaves(document["traceEvents"]), start=1):
        drawn.extend(_work(op, number, free))
    steps = [_on_device(event) for event in document["traceEvents"] if _is_step(event)]
    events = [*document["traceEvents"], *drawn, *steps]
    return {**document, "deviceProperties": [_PROPERTIES], "traceEvents": events}


def _leaves(events: list[Any]) -> list[dict[str, Any]]:
    """Ops inside which no other op of their thread begins, by start."""
    ops = [event for event in events if isinstance(event, dict) and event.get("cat") == "cpu_op"]
    ops.sort(key=lambda op: (str(op["tid"]), nanoseconds(op["ts"]), -nanoseconds(op["dur"])))
    leaves = []
    for op, following in zip(ops, [*ops[1:], None], strict=True):
        end = nanoseconds(op["ts"]) + nanoseconds(op["dur"])
        if following is None or following["tid"] != op["tid"] or nanoseconds(following["ts"]) >= end:
            leaves.append(op)
    return sorted(leaves, key=lambda op: nanoseconds(op["ts"]))


def _work(op: Mapping[str, Any], number: int, free: dict[int, int]) -> Iterator[dict[str, Any]]:
    """The launch in `op`, what it launches, and the flow between; `free` says when each stream is, and is moved on."""
    length = nanoseconds(op["dur"])
    launch = nanoseconds(op["ts"]) + length // 4
    stream = _MAIN if number % _COLLECTIVE_EVERY else _COLLECTIVE
    start = max(free[stream], launch + length // 2 + _TRANSIT)
    lasts = max(length * (2 if stream == _COLLECTIVE else 3) // 4, 900)
    free[stream] = start + lasts
    links = {"External id": op["args"].get("External id", 0), "correlation": number}
    host, device = (op["pid"], op["tid"]), (0, stream)
    yield _span("cuda_runtime", "cudaLaunchKernel", host, launch, length // 2, {**links, "cbid": 211})
    yield _flow("s", number, host, launch)
    category, name, about = _device_work(str(op["name"]), stream, number)
    yield _span(category, name, device, start, lasts, {**links, "device": 0, "context": 1, "stream": stream, **about})
    yield {**_flow("f", number, device, start), "bp": "e"}


def _device_work(op: str, stream: int, number: int) -> tuple[str, str, dict[str, Any]]:
    """Category, name and arguments of what an op has done on the device."""
    grid = {"queued": 0, "registers per thread": 32, "shared memory": 0, "grid": [number % 997 + 1, 1, 1]}
    about = {**grid, "block": [128, 1, 1], "est. achieved occupancy %": number % 100}
    if stream == _COLLECTIVE:
        return "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)", about
    if op in {"aten::copy_", "aten::_to_copy"}:
        return "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", {"bytes": 4096 * (number % 64 + 1)}
    if op in {"aten::zero_", "aten::zeros"}:
        return "gpu_memset", "Memset (Device)", {"bytes": 512}
    if any(word in op for word in ("mm", "conv", "linear")):
        return "kernel", f"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x{64 << number % 3}x32_cublas", about
    functor = op.removeprefix("aten::").title().replace("_", "")
    name = f"void at::native::vectorized_elementwise_kernel<4, at::native::{functor}Functor<float> >(int, float)"
    return "kernel", name, about


def _span(
    category: str, name: str, track: tuple[Any, Any], start: int, length: int, args: dict[str, Any]
) -> dict[str, Any]:
    times = {"ts": Number(microseconds(start)), "dur": Number(microseconds(length))}
    return {"ph": "X", "cat": category, "name": name, "pid": track[0], "tid": track[1], **times, "args": args}


def _flow(phase: str, number: int, track: tuple[Any, Any], at: int) -> dict[str, Any]:
    where = {"id": number, "pid": track[0], "tid": track[1], "ts": Number(microseconds(at))}
    return {"ph": phase, **where, "cat": "ac2g", "name": "ac2g"}


def _is_step(event: Any) -> bool:
    return isinstance(event, dict) and str(event.get("name", "")).startswith("ProfilerStep#") and "dur" in event


def _on_device(step: Mapping[str, Any]) -> dict[str, Any]:
    """The range of a step as the device repeats it, a little later."""
    start, links = nanoseconds(step["ts"]) + 10_000, {"External id": step.get("args", {}).get("External id", 0)}
    return _span("gpu_user_annotation", step["name"], (0, _MAIN), start, nanoseconds(step["dur"]), links)
