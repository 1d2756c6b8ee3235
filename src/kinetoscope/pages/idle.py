"""Idle & launches: why devices have nothing to do, how launches queue, what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.analyses import named
from kinetoscope.charts import Lines
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.blocks import Bar, BarsBlock, Block, ChartBlock, Link, Page, TableBlock
from kinetoscope.pages.pictures.charts import Axis, Line, bins, curves
from kinetoscope.pages.sentences.recorded import device_labels
from kinetoscope.pages.sentences.steps import WHY_IDLE, nothing, way_back
from kinetoscope.schema import Result
from kinetoscope.views.charts import series
from kinetoscope.views.numbers import grouped, shown
from kinetoscope.views.sentences import EMPTY, Sentence, constant, count, different, join, say, total

_POINTS: Final = 400
_STREAMS: Final = 6
"""Streams whose queues are drawn: those with most launches, or of each rank one."""

_BINS: Final = 40

_MAX_DEVICES_APART: Final = 2
"""Devices that have bars of their own; of more, those of a reason are one."""


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """Why nothing ran on the devices."""
    del params
    idle, queues = named("idle_breakdown")(job, select=select), named("queue_length")(job, select=select)
    launches = named("launches")(job, select=select)
    return Page(
        "idle",
        "Idle & launches",
        _sentence(idle, select, named("temporal_breakdown")(job, select=select)),
        blocks=tuple(_blocks(job, select, idle, queues, launches)),
        cannot=tuple(dict.fromkeys((*idle.notes, *queues.notes, *launches.notes))),
    )


def _sentence(idle: Result, select: Selection, times: Result) -> Sentence:
    if not idle.frame.height:
        return say("The devices were never idle.") if times.frame.height else nothing("device work", select)
    time, window = total(idle, "time"), total(times, "window")
    if not time or not window:
        return say("The devices were never idle.")
    sums = idle.frame.group_by("reason", "detail").agg(pl.col("time").sum())
    reason, detail, _ = sums.sort("time", "reason", "detail", descending=[True, False, False]).row(0)
    why = WHY_IDLE[reason, detail]
    return say(
        "{who} nothing for {time}, {share} of the time; {most} of it while {why} ({reason}: {detail}).",
        who="The devices run" if times.frame.n_unique(["rank", "device"]) > 1 else "The device runs",
        time=time, share=time / window, most=total(idle, "time", reason=reason, detail=detail),
        why=why, reason=reason, detail=detail,
    )  # fmt: skip


def _blocks(job: Job, select: Selection, idle: Result, queues: Result, launches: Result) -> Iterator[Block]:
    if idle.frame.height:
        yield _reasons(job, idle)
    else:
        yield from way_back(select)
    if queues.frame.height:
        yield from _queues(job, select, queues)
    if launches.frame.height:
        yield from _delays(launches)
    yield from _tables(idle=bool(idle.frame.height), launched=bool(launches.frame.height))


def _tables(*, idle: bool, launched: bool) -> Iterator[TableBlock]:
    """The tables that have rows: those of a trace without device work would say so one after the other."""
    of_gaps = ("device", "reason", "detail", "time", "share", "window_share", "gaps", "longest", "longest_at")
    at_longest = {"start": "longest_at"}
    if idle:
        yield TableBlock("Idle time by reason", "idle_breakdown", columns=of_gaps, sort="-time", links=at_longest)
        yield TableBlock("Idle time of each stream", "idle_breakdown", {"by": "stream"}, sort="-time", links=at_longest)
    if launched:
        yield TableBlock("Launch calls", "launch_statistics")
        yield TableBlock("Queues", "queue_length")
        columns = ("start", "name", "duration", "delay", "work_name", "work_duration", "stream", "operator")
        yield TableBlock("Launches", "launches", columns=columns, sort="-delay", links={"start": "start"})
    yield TableBlock("Waits of the host", "synchronizations")


def _together(idle: pl.DataFrame, *apart: str) -> pl.DataFrame:
    """The rows as one for each reason, and for each of `apart`; where is that of the longest gap."""
    keys = [*apart, "reason", "detail"]
    longest = pl.all().sort_by("longest", descending=True).first()
    ends = idle.group_by(keys, maintain_order=True).agg(longest).drop("time", "gaps")
    sums = idle.group_by(keys).agg(pl.col("time", "gaps").sum())
    return ends.join(sums, on=keys, nulls_equal=True)


def _reasons(job: Job, idle: Result) -> BarsBlock:
    many = idle.frame.n_unique(["rank", "device"]) > _MAX_DEVICES_APART
    rows = _together(idle.frame, *(() if many else ("rank", "device"))).sort("time", descending=True)
    total = rows.get_column("time").sum() or 1
    several = not many and rows.n_unique(["rank", "device"]) > 1
    labels = device_labels(job) if several else {}
    bars = []
    for row in rows.head(12).iter_rows(named=True):
        of = f" · {labels[row['device']]}" if several else ""
        at, longest = row["longest_at"], row["longest"] or 0
        link = None
        if at is not None:
            link = Link(view="timeline", rank=row["rank"], time=(max(at - longest, 0), at + 2 * longest))
        detail = f"{grouped(row['gaps'])} gaps, the longest {shown(longest, 'ns')}"
        label = f"{row['reason']}: {row['detail']}" if row["detail"] else row["reason"]
        bars.append(Bar(label + of, "waiting", row["time"], row["time"] / total, detail, link))
    return BarsBlock("Why devices are idle", bars, note=f"{idle.schema['time'].doc} {_OTHER_QUESTION}")


_OTHER_QUESTION: Final = (
    "Here it is charged to what the device waited for; the Overview charges the same time to what the main thread did."
)


def _queues(job: Job, select: Selection, queues: Result) -> Iterator[ChartBlock]:
    over_time = named("queue_length_series")(job, select=select)
    several = queues.frame.n_unique("rank") > 1
    chosen = _of_late_hosts(queues.frame) if several else queues.frame.sort("calls", descending=True).head(_STREAMS)
    keys = ["rank", "device", "stream"]
    lengths = over_time.frame.join(chosen.select(keys), on=keys, how="semi")
    by = tuple(keys) if several else ("device", "stream")
    drawn = []
    for line in series.each(lengths, Lines("time", "length", by), _STREAMS):
        rows = lengths[series.thinned(line, _POINTS).rows]
        drawn.append((line.label, rows.get_column("time").to_list(), rows.get_column("length").to_list()))
    lines = [
        Line(label, "host", times, values, 1 - 0.7 * place / len(drawn), owner=place if len(drawn) > 1 else -1)
        for place, (label, times, values) in enumerate(drawn)
    ]
    note = f"{over_time.schema['length'].doc} An empty queue means that the device waits for the host."
    if lines:
        yield curves(
            "Launches waiting in the queue",
            lines,
            Axis("time", "ns", zero=False),
            Axis("launches"),
            brush=True,
            note=join([note, _which(queues, chosen.n_unique("rank"))] if several else [note]),
        )


def _of_late_hosts(queues: pl.DataFrame) -> pl.DataFrame:
    """The busiest stream of each rank; of many ranks those whose queue is empty for the longest share of the time."""
    busiest = queues.sort("calls", descending=True).unique("rank", keep="first", maintain_order=True)
    return busiest.sort("queued_share", "rank").head(_STREAMS).sort("rank")


def _which(queues: Result, ranks: int) -> Sentence:
    every = different(queues, "rank")
    if ranks == every.number:
        return say("Of each rank its busiest stream is drawn.")
    return say(
        "Of {drawn} of {ranks} ranks the busiest stream is drawn: those whose queue is empty longest.",
        drawn=constant(ranks),
        ranks=every,
    )


def _delays(launches: Result) -> Iterator[ChartBlock]:
    """The distribution of launch delays, on a logarithmic axis."""
    delays = launches.frame.get_column("delay").drop_nulls().to_numpy()
    waited = delays[delays > 0]
    if not len(waited):
        return
    low, high = max(float(waited.min()), 1.0), float(waited.max())
    edges = np.geomspace(low, max(high, low * 1.01) * 1.0001, _BINS + 1)
    counts = np.histogram(waited, edges)[0]
    words = launches.schema["delay"].doc
    at_once, known = count(launches, pl.col("delay") <= 0), count(launches, pl.col("delay").is_not_null())
    unseen = say("{at_once} of {known} began at once and are not drawn.", at_once=at_once, known=known)
    note = join([words, unseen if at_once else EMPTY])
    yield bins(
        "Launch delay", edges.tolist(), counts.tolist(), Axis("delay", "ns", log=True), kind="runtime", note=note
    )
