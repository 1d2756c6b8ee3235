"""What a profiler would have written of a program: one file of Kineto's JSON."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.faults.host import AUTOGRAD, MAIN, Event

_BASE: Final = 1_790_857_026_000_000_000
"""`baseTimeNanoseconds`: whole quarters since 1970."""

_SHIFT: Final = 4_203_669_603_018_000
"""Where the program's clock begins after it, ns."""

_AMD: Final = {
    "cudaLaunchKernel": "hipLaunchKernel",
    "cudaLaunchKernelExC": "hipExtModuleLaunchKernel",
    "cuLaunchKernel": "hipModuleLaunchKernel",
}


def write(path: Path, events: Sequence[Event], top: Mapping[str, Any], *, amd: bool = False) -> None:
    """Write the file; compressed if its name says so."""
    head = json.dumps({"schemaVersion": 1, **top, "displayTimeUnit": "ms", "baseTimeNanoseconds": _BASE})
    lines = json.dumps([_timed(_of_amd(event) if amd else event) for event in [*_names(events), *events]])
    text = f'{head[:-1]}, "traceEvents": {lines}, "traceName": "{path.name}"}}'
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode(), 1))
    else:
        path.write_text(text)


def write_clocks(path: Path, clocks: Sequence[tuple[int, float]], usual: int, limit: str, every: int) -> None:
    """Write a log as `nvidia-smi --query-gpu … --format=csv` does: the clock at each so many ns, and what limits it.

    Args:
        clocks: the clock from a time on, as a share of `usual` MHz.
        limit: a bit of `clocks_event_reasons.active`, where it is lower.
    """
    lines, place = ["timestamp, index, clocks.current.sm [MHz], clocks_event_reasons.active"], 0
    for at in range(clocks[0][0], clocks[-1][0], every):
        while place + 1 < len(clocks) and clocks[place + 1][0] <= at:
            place += 1
        when, share = datetime.fromtimestamp((_BASE + _SHIFT + at) / 1e9, UTC), clocks[place][1]
        reason = limit if share < 1 else "0x0000000000000000"
        lines.append(f"{when:%Y/%m/%d %H:%M:%S.%f}"[:-3] + f", 0, {usual * share:.0f} MHz, {reason}")
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines))


def _timed(event: Event) -> Event:
    """With its times in microseconds."""
    timed = {**event, "ts": (event["ts"] + _SHIFT) / 1000}
    if "dur" in event:
        timed["dur"] = event["dur"] / 1000
    return timed


def _names(events: Sequence[Event]) -> list[Event]:
    """Names of processes and threads."""
    first = min((event["ts"] for event in events), default=0)
    found: list[Event] = []

    def tell(kind: str, pid: int, tid: int, name: str) -> None:
        key = {"process_labels": "labels"}.get(kind, "name")
        found.append({"ph": "M", "name": kind, "ts": first, "pid": pid, "tid": tid, "args": {key: name}})

    tell("process_name", MAIN, 0, "python3")
    tell("process_labels", MAIN, 0, "CPU")
    for pid, tid in sorted({(event["pid"], event["tid"]) for event in events if event["ph"] == "X"}):
        if pid != MAIN:
            tell("process_labels", pid, 0, f"GPU {pid}")
        is_thread = tid in (MAIN, AUTOGRAD) and pid == MAIN
        tell("thread_name", pid, tid, f"thread {tid} (python3)" if is_thread else f"stream {tid} ")
    return found


def _of_amd(event: Event) -> Event:
    """As ROCm's profiler says it."""
    category, name, args = event.get("cat", ""), event["name"], event.get("args", {})
    if category in ("cuda_runtime", "cuda_driver"):
        name = _AMD.get(name, name.replace("cuda", "hip"))
        args = {("cid" if key == "cbid" else key): value for key, value in args.items()}
        return {**event, "cat": "cuda_runtime", "name": name, "args": args}
    if category == "kernel":
        kept = ("External id", "device", "stream", "correlation", "grid", "block")
        args = {"kind": "Dispatch Kernel", **{key: args[key] for key in kept if key in args}}
        return {**event, "args": args}
    if category == "gpu_memcpy":
        direction = name.split()[1]
        name = {"HtoD": "Memcpy HtoD (Host -> Device)", "DtoH": "Memcpy DtoH (Device -> Host)"}.get(direction, name)
        return {**event, "name": name, "args": {**args, "kind": direction}}
    return event
