"""Traces drawn in code: events by functions, written as the JSON that Kineto writes. Times are whole nanoseconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kinetoscope.model.job import Job
from kinetoscope.reading import read

Event = dict[str, Any]


def event(category: str, name: str, start: int, duration: int, *, pid: int = 1, tid: int = 1, **args: Any) -> Event:
    """A complete event of any category."""
    times = {"ts": start / 1000, "dur": duration / 1000}
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, **times, "args": args}


def op(name: str, start: int, duration: int, *, tid: int = 1, **args: Any) -> Event:
    """An operator, on a thread of the host."""
    return event("cpu_op", name, start, duration, tid=tid, **args)


def annotation(name: str, start: int, duration: int, *, tid: int = 1, **args: Any) -> Event:
    """A range that somebody named; `ProfilerStep#3` is a step."""
    return event("user_annotation", name, start, duration, tid=tid, **args)


def python(name: str, start: int, duration: int, *, tid: int = 1, **args: Any) -> Event:
    """A Python call."""
    return event("python_function", name, start, duration, tid=tid, **args)


def launch(start: int, duration: int, correlation: int, *, name: str = "cudaLaunchKernel", tid: int = 1) -> Event:
    """A call of the runtime; device work of the same correlation is what it launched."""
    return event("cuda_runtime", name, start, duration, tid=tid, correlation=correlation)


def kernel(
    name: str,
    start: int,
    duration: int,
    correlation: int,
    *,
    stream: int = 7,
    device: int = 0,
    category: str = "kernel",
    **args: Any,
) -> Event:
    """Device work: a kernel, or with a `category` of theirs a copy or a set."""
    work = {"device": device, "stream": stream, "correlation": correlation, **args}
    return event(category, name, start, duration, pid=device, tid=stream, **work)


def memory(time: int, size: int, *, device: int | None = None, tid: int = 1, **more: Any) -> Event:
    """Memory allocated (or, of negative size, freed): the host's, or that of a device."""
    whose = {"Device Type": int(device is not None), "Device Id": -1 if device is None else device}
    args = {**whose, "Bytes": size, **more}
    place = {"pid": 1, "tid": tid, "ts": time / 1000, "s": "t"}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", **place, "args": args}


def written(file: Path, *events: Event, **top: Any) -> Path:
    """The file, with these events and these values at the top level."""
    file.write_text(json.dumps({"schemaVersion": 1, **top, "traceEvents": events}))
    return file


def job(folder: Path, *events: Event, **top: Any) -> Job:
    """A job of one rank with these events; a later one in the same folder replaces it."""
    return read(written(folder / "drawn.pt.trace.json", *events, **top), jobs=1)
