"""When one operator or kernel ran, and how long each time: the picture of the one that its reader chose.

What is drawn of a call is what the bars of the page sum over all calls.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.model.answer import Partial
from kinetoscope.model.execution.calls import call_names, calls, launching_calls, names_of_calls, past_runtime
from kinetoscope.model.job import Job
from kinetoscope.model.steps.scope import Scope, origin_of_time, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.timeline.replays import drawn_events
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.pages.blocks import ChartBlock, Link, NoteBlock
from kinetoscope.pages.pictures.charts import POINTS, Axis, Dot, points
from kinetoscope.schema import Column, Schema
from kinetoscope.views.sentences import cell, code, constant, count, say
from kinetoscope.views.text import brief, printable

_NAME_CELLS: Final = 80  # cells of a name in a title
_MARGIN_LENGTHS: Final = 2  # lengths of the event, in which it is shown on the timeline

_SCHEMA = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("row", pl.Int64, "Place of the event in its file."),
    Column("start", pl.Int64, "Start, from the first event of the trace on.", "ns", instant=True),
    Column("length", pl.Int64, "From start to end.", "ns"),
    Column("time", pl.Int64, "What is measured of it.", "ns"),
)

Measure = Literal["duration", "host_self", "device_self"]
"""Of a kernel its duration; of an operator a column of `operators`."""

_WORDS: Final[dict[Measure, str]] = {
    "duration": "duration",
    "host_self": "host time of its own",
    "device_self": "device time of its own",
}


def occurrences(job: Job, select: Selection, name: str, measure: Measure, *, kind: str) -> ChartBlock | NoteBlock:
    """A dot for each time that `name` ran: when, and how long; a line of words where there is one such time."""
    result = job.map(_of_trace, _SCHEMA, select, name=name, measure=measure)
    frame = result.frame
    frame = frame.select(*_SCHEMA.names, "cycle" if "cycle" in frame.columns else pl.lit(None).alias("cycle"))
    frame = frame.sort("cycle", "start")
    called, words = code(brief(printable(name), _NAME_CELLS)), _WORDS[measure]
    title = f"Each call of {called}"
    if not frame.height:
        return NoteBlock(say("{called} has no call in the selection.", called=called), title)
    if frame.height == 1:
        rank, row, start, length, _, cycle = frame.row(0)
        text = say(
            "It ran once, {start} after the first event: {words} {time}.",
            start=cell(result, "start"), words=words, time=cell(result, "time"),
        )  # fmt: skip
        link = _link(rank, cycle, row, start, length, "show on timeline")
        return NoteBlock(text, title, link)
    kept = _thinned(frame)
    dots = [
        Dot(start, time, kind, "", _link(rank, cycle, row, start, length))
        for rank, row, start, length, time, cycle in kept.rows()
    ]
    every = count(result)
    note = say("{every} calls; a click shows one on the timeline.", every=every)
    if kept.height < frame.height:
        drawn = constant(kept.height)
        note = say("{drawn} of {every} calls, the least and the most of each stretch.", drawn=drawn, every=every)
    return points(title, dots, Axis("start", "ns", zero=False), Axis(words, "ns"), height=160, note=note)


def _link(rank: int, cycle: int | None, row: int, start: int, length: int, text: str = "") -> Link:
    margin = max(_MARGIN_LENGTHS * length, 1_000)
    around = (max(start - margin, 0), start + length + margin)
    return Link(text, view="timeline", rank=rank, cycle=cycle, row=row, time=around)


def _thinned(frame: pl.DataFrame) -> pl.DataFrame:
    """The shortest and the longest call of each stretch, where there are too many for a picture."""
    if frame.height <= POINTS:
        return frame
    stretches = frame.with_columns(stretch=pl.int_range(pl.len()) * (POINTS // 2) // pl.len())
    of_each = stretches.group_by("stretch", maintain_order=True)
    ends = [of_each.agg(pl.all().sort_by("time").get(at)) for at in (0, -1)]
    return pl.concat(ends).drop("stretch").unique(["rank", "cycle", "row"]).select(frame.columns).sort("start", "row")


def _of_trace(trace: Trace, select: Selection, *, name: str, measure: Measure) -> Partial:
    view = scope(trace, select)
    rows, time = _kernels(view, name) if measure == "duration" else _calls(view, name, measure)
    _, start, end = (each[rows] for each in drawn_events(trace))
    columns = {
        "row": rows.astype(np.int64),
        "start": start - origin_of_time(trace),
        "length": end - start,
        "time": time,
    }
    return Partial(pl.DataFrame(columns))


def _kernels(view: Scope, name: str) -> tuple[Int32s, Int64s]:
    """The rows of device work of that name, and how long each ran."""
    trace, work = view.trace, view.device_work
    here = view.device_work_mask & (trace.name[work.rows] >= 0)
    here &= trace.strings.canonical[trace.name[work.rows]] == trace.strings.code(name)
    rows = work.rows[here]
    length = view.clipped(trace.start[rows], trace.end[rows])
    return rows, length.end - length.start


def _calls(view: Scope, name: str, measure: Measure) -> tuple[Int32s, Int64s]:
    """The calls that `operators` counts under that name, and what it sums of each."""
    trace = view.trace
    every_call = calls(trace, EventKind.PYTHON)
    every = np.flatnonzero(every_call.shown & view.host_mask_untimed).astype(np.int32)
    _, first, code = np.unique(call_names(trace)[every], return_index=True, return_inverse=True)
    named = names_of_calls(trace, every[first]).to_numpy() == name
    rows = every[named[code]] if len(every) else every
    if measure == "device_self":
        work = view.device_work
        own = past_runtime(trace, every_call, launching_calls(every_call, work)[view.device_work_mask])
        length = view.clipped(work.start[view.device_work_mask], work.end[view.device_work_mask])
        charged, of = length.end - length.start, own
    else:
        inside = np.flatnonzero(every_call.shown & (every_call.whole_parent >= 0)).astype(np.int32)
        length = view.clipped(trace.start[inside], every_call.until[inside])
        charged, of = length.end - length.start, every_call.whole_parent[inside]
    sums = np.zeros(len(trace), np.int64)
    np.add.at(sums, of[of >= 0], np.maximum(charged[of >= 0], 0))
    if measure == "device_self":
        return rows, sums[rows]
    own_time = view.clipped(trace.start[rows], every_call.until[rows])
    return rows, np.where(every_call.asynchronous[rows], 0, np.maximum(own_time.end - own_time.start, 0) - sums[rows])
