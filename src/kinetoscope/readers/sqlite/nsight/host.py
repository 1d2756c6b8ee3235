"""Events of the host: calls of CUDA, time of the profiler, ranges of NVTX, names of threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.trace.build import Coded, TraceBuilder, part
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.readers.byte_ranges import Texts
from kinetoscope.readers.sqlite import nvtx
from kinetoscope.readers.sqlite.nsight.tables import (
    CALLS,
    OVERHEAD,
    RANGES,
    THREADS,
    ProcessRows,
    Rows,
    at,
    named,
    pids,
    tids,
)

_OVERHEAD_KINDS: Final = (
    *("Undefined", "Unknown", "Driver Compiler", "Buffer Flush", "Instrumentation", "Resource"),
    *("Runtime Triggered Module Loading", "Lazy Function Loading", "Command Buffer Full"),
)
"""Kineto's names of the numbers of CUPTI's enumeration."""

_PUSH_POP, _START_END, _MARK, _PUSH, _START = 59, 60, 34, 35, 37
"""Types of events of NVTX that are ranges, or instants."""


@dataclass(frozen=True)
class NvtxRows:
    """Ranges of NVTX.

    Attributes:
        rows: their columns.
        place: int64 [ranges], which row of the table each is.
        text: [ranges], their texts.
    """

    rows: Rows
    place: Int64s
    text: Texts


def nvtx_rows(process: ProcessRows) -> NvtxRows:
    """The ranges of a process; those that never ended, and instants, are counted as left out."""
    export, chosen = process.export, process.chosen(RANGES)
    rows = process.rows(RANGES, timed=False)
    is_range = np.isin(rows["eventType"], (_PUSH_POP, _START_END, _PUSH, _START)) & (rows["end"] >= rows["start"])
    is_range &= rows["start"] >= 0
    process.left_out += int((np.isin(rows["eventType"], (_PUSH_POP, _START_END, _MARK)) & ~is_range).sum())
    rows = at(rows, is_range)
    written = export.content.texts(RANGES, "text")
    place = np.arange(len(written))[chosen][is_range]
    return NvtxRows(rows, place, written.at(place).or_else(export.strings.of(rows["textId"])))


def add_calls(process: ProcessRows, built: TraceBuilder) -> Rows:
    """Calls of CUDA and the time of the profiler, given to a builder; the rows of the calls."""
    calls = process.rows(CALLS)
    _add(built, EventKind.RUNTIME, process.export.called(calls["nameId"]), calls, correlation=calls["correlationId"])
    own = process.rows(OVERHEAD)
    names = Coded.of(own["overheadType"], lambda kind: named(_OVERHEAD_KINDS, kind))
    _add(built, EventKind.OVERHEAD, names, own)
    return calls


def add_ranges(ranges: NvtxRows, built: TraceBuilder) -> None:
    """Ranges, given to a builder: operators of torch as such, the others as annotations."""
    said = nvtx.ranges(ranges.text)
    sized = np.array([len(value) for value in said.sizes.values], np.int64)[said.sizes.codes] > 0
    for chosen, has_sizes in ((said.is_operator & ~sized, False), (said.is_operator & sized, True)):
        _add(
            built,
            EventKind.HOST_OP,
            part(said.name, chosen),
            at(ranges.rows, chosen),
            external_id=said.operator_id[chosen],
            sequence=said.sequence[chosen],
            **({"input_dims": part(said.sizes, chosen)} if has_sizes else {}),
        )
    named_only = ~said.is_operator
    _add(built, EventKind.ANNOTATION, part(said.name, named_only), at(ranges.rows, named_only))


def add_names(process: ProcessRows, built: TraceBuilder) -> None:
    """Names of the threads that have an event, given to a builder."""
    rows = process.rows(THREADS, timed=False)
    names = process.export.strings.coded(rows["nameId"])
    used = {*built.places}
    places = zip(pids(rows["globalTid"]).tolist(), tids(rows["globalTid"]).tolist(), strict=True)
    for code, place in zip(names.codes.tolist(), places, strict=True):
        if place in used:
            built.name_thread(names.values[code], process=place[0], thread=place[1])


def _add(built: TraceBuilder, kind: EventKind, names: Any, rows: Rows, **arguments: Any) -> None:
    if len(rows["start"]):
        identities = rows["globalTid"]
        place = {"process": pids(identities), "thread": tids(identities)}
        built.add(kind, names, rows["start"], rows["end"], **place, **arguments)
