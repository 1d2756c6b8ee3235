"""When one operator or kernel ran, and how long each time: the picture of the one that its reader chose."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import polars as pl

from kinetoscope.model.job import Job, Partial
from kinetoscope.model.kinds import EventKind
from kinetoscope.model.scope import origin_of_time, scope
from kinetoscope.model.selection import Selection
from kinetoscope.model.trace import Trace
from kinetoscope.pages.blocks import Chart, Link
from kinetoscope.pages.pictures import POINTS, Axis, Dot, points
from kinetoscope.schema import Column, Schema
from kinetoscope.views.numbers import grouped
from kinetoscope.views.text import brief, printable

_NAME: Final = 80  # cells of a name in a title
_AROUND: Final = 2  # lengths of the event, in which it is shown on the timeline

_SCHEMA = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("row", pl.Int64, "Place of the event in its file."),
    Column("start", pl.Int64, "Start, from the first event of the trace on.", "ns", instant=True),
    Column("duration", pl.Int64, "Length.", "ns"),
)

Where = Literal["host", "device"]


def occurrences(job: Job, select: Selection, name: str, where: Where, *, kind: str) -> Chart:
    """A dot for each time that `name` ran: when, and how long."""
    frame = job.map(_of_trace, _SCHEMA, select, name=name, where=where).frame.sort("start")
    shown = _thinned(frame)
    dots = [
        Dot(start, duration, kind, "", _link(rank, row, start, duration))
        for rank, row, start, duration in shown.select("rank", "row", "start", "duration").iter_rows()
    ]
    called = f"`{brief(printable(name), _NAME)}`"
    note = f"{called}: {grouped(frame.height)} calls."
    if shown.height < frame.height:
        part = f"{grouped(shown.height)} of {grouped(frame.height)} calls"
        note = f"{called}: {part}, the shortest and the longest of each stretch."
    return points(
        "Each call of the chosen one",
        dots,
        Axis("start", "ns", zero=False),
        Axis("duration", "ns"),
        note=note,
    )


def _link(rank: int, row: int, start: int, duration: int) -> Link:
    margin = max(_AROUND * duration, 1_000)
    return Link(view="timeline", rank=rank, row=row, time=(max(start - margin, 0), start + duration + margin))


def _thinned(frame: pl.DataFrame) -> pl.DataFrame:
    """Of each stretch of calls the shortest and the longest, where there are too many for a picture."""
    if frame.height <= POINTS:
        return frame
    stretches = frame.with_columns(stretch=pl.int_range(pl.len()) * (POINTS // 2) // pl.len())
    of_each = stretches.group_by("stretch", maintain_order=True)
    ends = [of_each.agg(pl.all().sort_by("duration").get(at)) for at in (0, -1)]
    return pl.concat(ends).drop("stretch").unique(["rank", "row"]).sort("start", "row")


def _of_trace(trace: Trace, select: Selection, *, name: str, where: Where) -> Partial:
    view = scope(trace, select)
    called = trace.strings.canonical[trace.name] == trace.strings.code(name)
    called &= trace.name >= 0
    work = view.device_work
    if where == "device":
        rows = work.rows[view.work & called[work.rows]]
    else:
        called &= view.host & (trace.kind != EventKind.METADATA)
        called[work.rows] = False
        rows = np.flatnonzero(called)
    start, end = trace.start[rows], trace.end[rows]
    since = trace.of(origin_of_time)
    return Partial(pl.DataFrame({"row": rows.astype(np.int64), "start": start - since, "duration": end - start}))
