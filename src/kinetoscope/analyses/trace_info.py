"""What was recorded, and on what."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.hardware import Device, device_of, devices, ordinal_of
from kinetoscope.model.device.names import device_name
from kinetoscope.model.device.peaks import known_peaks
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.program import optimizations_used, program_kind
from kinetoscope.model.graphs.lost_work import damage_of
from kinetoscope.model.health.check import examine
from kinetoscope.model.health.recording_kinds import recording_kinds
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import steps, throughput
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.recording import has_timeline, recorded_options
from kinetoscope.model.trace.text import listed
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("topic", pl.String, "What it is about: file, run, options, device, peaks, time, events, health."),
    Column("item", pl.String, "Name of the fact."),
    Column("value", pl.String, "What it is; numbers in full, units named."),
)

Row = tuple[str, str, str]

_FIRST_EPOCH_NS = 1_200_000_000_000_000_000
"""The year 2008, as nanoseconds since 1970: no trace is older."""

_LAST_EPOCH_NS = 4_100_000_000_000_000_000
"""The year 2099."""

OPTIONS: Final = ("record_shapes", "profile_memory", "with_stack", "with_modules", "with_flops")
"""Options of torch.profiler that it writes into the file: 1 or absent."""

_VERSIONS = (
    "cuda_runtime_version",
    "cuda_driver_version",
    "cupti_version",
    "hip_runtime_version",
    "hip_driver_version",
    "roctracer_version",
)


def trace_info(trace: Trace, select: Selection) -> Partial:
    """What was recorded, on what, and is anything wrong with it?

    Method. Facts that the file states (options, devices, versions, distributed set-up) and counts of its events by what
    they are. The program is training if a backward pass or an optimizer is seen, serving if steps or functions of a
    serving engine are (vLLM, SGLang, TensorRT-LLM), inference if operators of torch are, else unknown. Health lists
    what was repaired, lost or odd; see `kinetoscope doctor` for the sentences alone.

    How to read it. Read health first: a number taken from a trace is as good as the trace. An option that is not on
    means that some questions have no answer: memory, shapes, stacks.

    Limits. The whole file is described, whatever is selected. What the file does not state is left out.
    """
    what = (_file(trace), _run(trace), _recorded(trace), _options(trace), _devices(trace))
    when = (_time(trace), _steps(trace, select.steps_by), _events(trace), _health(trace))
    rows = [tuple(map(_text, row)) for topic in (*what, *when) for row in topic]
    return Partial(pl.DataFrame(rows, schema=["topic", "item", "value"], orient="row"))


ANALYSIS = Analysis(
    "Trace info", trace_info, RESULT, of_device_work=False, of_calls=False, selection_notes="never", of_sums=()
)


def _file(trace: Trace) -> Iterator[Row]:
    yield "file", "name", trace.source.name
    yield "file", "text", f"{trace.text_bytes} bytes"
    yield "file", "events", str(trace.recorded)
    yield "file", "memory", f"{trace.nbytes} bytes"
    if damage := damage_of(trace):
        yield "file", "damage", damage


def _run(trace: Trace) -> Iterator[Row]:
    facts = trace.metadata
    yield "run", "program", program_kind(trace)
    if uses := optimizations_used(trace):
        yield "run", "uses", ", ".join(sorted(uses))
    for key in ("host_name", "trace_id", *_VERSIONS):
        if key in facts:
            yield "run", key, str(facts[key])
    distributed = facts.get("distributedInfo")
    if isinstance(distributed, dict):
        for key in ("rank", "world_size", "backend", "nccl_version", "pg_count"):
            if key in distributed:
                yield "run", key, str(distributed[key])


def _recorded(trace: Trace) -> Iterator[Row]:
    """What our own recorder knew of the run, which it writes into the trace as well as beside it."""
    facts = trace.metadata.get("kinetoscope")
    if not isinstance(facts, dict):
        return
    for key in _KNOWN_OF_RUN:
        value = facts.get(key)
        if isinstance(value, list):
            yield "run", key, " ".join(str(word) for word in value[:_SHOWN_VALUES])
        elif isinstance(value, dict):
            yield from (("run", f"{key}.{name}", str(each)) for name, each in list(value.items())[:_SHOWN_VALUES])
        elif value not in (None, ""):
            yield "run", key, str(value)


_KNOWN_OF_RUN = ("run", "truncated", "reason", "first_step", "last_step", "command", "git", "versions", "about")
_SHOWN_VALUES = 50


def _options(trace: Trace) -> Iterator[Row]:
    seen: frozenset[str] = recorded_options(trace)
    for key in OPTIONS:
        stated = trace.metadata.get(key) == 1
        yield "options", key, "on" if stated else "not stated, but recorded" if key in seen else "not stated"


def _devices(trace: Trace) -> Iterator[Row]:
    used_devices = set(np.unique(device_work(trace).device).tolist())
    used = {ordinal_of(trace, number) for number in used_devices}
    known = {number: device for number in sorted(used_devices) if (device := device_of(trace, number)) is not None}
    if len(devices(trace)) == 1 and any(each.kind == "lost device work" for each in recording_kinds(trace)):
        known = {device.number: device for device in devices(trace)}
        used = set(known)
    for device in devices(trace):
        yield "device", str(device.number), _description(device, is_used=device.number in used)
    for number, device in known.items():
        yield "used device", str(number), device_name(device) or "unnamed"
    for number in sorted(used_devices):
        yield "peaks", str(number), str(known_peaks(trace, number).note)


def _description(device: Device, *, is_used: bool) -> str:
    """`NVIDIA H100, 85899345920 bytes, 132 SMs, compute capability 9.0, used`, as far as it is known."""
    parts = [
        device_name(device) or "unnamed",
        "" if device.memory is None else f"{device.memory} bytes",
        "" if device.multiprocessors is None else f"{device.multiprocessors} SMs",
        "" if device.capability is None else f"compute capability {device.capability[0]}.{device.capability[1]}",
        "used" if is_used else "",
    ]
    return ", ".join(filter(None, parts))


def _time(trace: Trace) -> Iterator[Row]:
    if not has_timeline(trace):
        yield "time", "timeline", "none: sums were recorded, not when anything ran"
        return
    timed = ~np.isin(trace.kind, (EventKind.METADATA, EventKind.SPAN, EventKind.OTHER))
    if not timed.any():
        return
    first, last = origin_of_time(trace), int(trace.end[timed].max())
    start = trace.base + first
    if _FIRST_EPOCH_NS < start < _LAST_EPOCH_NS:  # else the file counts from an instant that it does not tell
        moment = datetime.fromtimestamp(start // 1_000_000 / 1000, UTC)
        yield "time", "start", moment.isoformat(timespec="milliseconds")
    yield "time", "window", f"{last - first} ns"


def _steps(trace: Trace, steps_by: str | None) -> Iterator[Row]:
    if not has_timeline(trace):
        return
    every_step = steps(trace, steps_by)
    numbered = f" ({listed(every_step.number.tolist())})" if every_step.origin == "profiler" else ""
    yield "time", "steps", f"{len(every_step)}{numbered}, {_ORIGINS[every_step.origin]}"
    known = throughput(trace)
    if known is not None:
        yield "time", "samples", f"{known.samples} in {known.steps} {'steps' if known.steps != 1 else 'step'}"
        yield "time", "throughput", f"{known.rate:.3f} samples/s"


_ORIGINS = {
    "profiler": "marked by the profiler",
    "annotation": "marked by an annotation",
    "engine": "named by the engine",
    "repetition": "proposed from what repeats",
    "window": "none marked: the whole window",
}

_COUNTED: dict[EventKind, str] = {
    EventKind.HOST_OP: "operators",
    EventKind.ANNOTATION: "annotations",
    EventKind.PYTHON: "Python calls",
    EventKind.RUNTIME: "runtime and driver calls",
    EventKind.MEMORY: "memory events",
    EventKind.DEVICE_SYNC: "waits on streams",
    EventKind.COUNTER: "counter samples",
}


def _events(trace: Trace) -> Iterator[Row]:
    for kind, words in _COUNTED.items():
        count = int((trace.kind == kind).sum())
        if count:
            yield "events", words, str(count)
    work = device_work(trace)
    for work_kind in WorkKind:
        count = int((work.kind == work_kind).sum())
        if count:
            yield "events", f"{work_kind.name.lower()} on devices", str(count)
    if len(work):
        yield "events", "streams used", str(len(np.unique(np.stack([work.device, work.stream]), axis=1).T))
    host = np.isin(trace.kind, (EventKind.HOST_OP, EventKind.RUNTIME))
    yield "events", "host threads", str(len(np.unique(trace.track[host])))


def _health(trace: Trace) -> Iterator[Row]:
    for symptom in examine(trace):
        yield "health", f"{symptom.severity} {symptom.code}", str(symptom)


def _text(text: str) -> str:
    """Text as frames can hold it: lone surrogates, as in some names of files, replaced."""
    return text.encode("utf-8", "replace").decode()
