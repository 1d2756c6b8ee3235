"""Do the calls of a run take longer one by one, or all of them, as on a slower host?

A step whose calls are as many as before while each takes longer has no call to blame: all of them share the processor,
its clock and the versions of what runs on it. A collective that waits in a kernel takes longer then, too, but it only
tells of the wait.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.compare.diff.normalize_names import normalized
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.launches import is_selected, launches
from kinetoscope.model.execution.call_tree import self_times
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.sentences import EMPTY, Sentence, cell, count, join, say, total

OF_RANK = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("kind", pl.String, "operator, launch, kernel or collective."),
    Column("name", pl.String, "Name of the call or kernel, without what differs from run to run."),
    Column("calls", pl.Int64, "Calls in the selected steps."),
    Column("time", pl.Int64, "Their time; of operators that on the host, without the calls inside.", "ns"),
)
"""Rows of `times_of_rank`."""

MEANS = Schema(
    Column("kind", pl.String, "operator: on the host, without the calls inside; launch; kernel; collective."),
    Column("name", pl.String, "Name of the call or kernel; (all) of launches."),
    Column("base_calls", pl.Float64, "Calls in a mean step of the first run."),
    Column("new_calls", pl.Float64, "Calls in a mean step of the second run."),
    Column("base_mean", pl.Int64, "Mean time of a call in the first run.", "ns"),
    Column("new_mean", pl.Int64, "Mean time of a call in the second run.", "ns"),
    Column("base_time", pl.Int64, "Their time in a mean step of the first run.", "ns"),
    Column("new_time", pl.Int64, "Their time in a mean step of the second run.", "ns"),
    Column("as_often", pl.Boolean, "Are there as many calls in a step of both runs?"),
    Column("longer", pl.Boolean, "Is the mean longer in the second run?"),
)
"""Rows of `Diff.means`: what both runs call, by the time that it takes in the first."""

ALL_LAUNCHES: Final = "(all)"

_EQUAL_CALLS_SHARE: Final = 0.01
"""Calls in a mean step may differ by this share, as an average over few steps does."""

_MOST_TIME_SHARE: Final = 0.9
"""Share of the time that must be in calls as many as before, and of that in calls that take longer: one call that
became slower, or some that came, leave the others as they were."""

_LONGER_SHARE: Final = 0.05
"""By how much all of them together must take longer: less is what two runs of one program differ by."""


def times_of_rank(trace: Trace, select: Selection) -> Partial:
    """Calls and time of operators on the host, launches and kernels, by name.

    Launches that wait for a copy are left out. So are copies and sets, whose sizes differ at equal names.
    """
    view = scope(trace, select)
    return Partial(pl.concat([_operators(view), _launches(view), _kernels(view)]))


def _operators(view: Scope) -> pl.DataFrame:
    rows = np.flatnonzero(view.host_mask & (view.trace.kind == EventKind.HOST_OP)).astype(np.int32)
    return _summed(view.trace, "operator", rows, self_times(view.trace)[rows])


def _launches(view: Scope) -> pl.DataFrame:
    calls = launches(view.trace)
    rows = calls.rows[is_selected(view, calls)]
    rows = rows[runtime_call_kinds(view.trace)[rows] != RuntimeCallKind.COPY_AND_WAIT]
    frame = _summed(view.trace, "launch", rows, view.trace.end[rows] - view.trace.start[rows])
    return frame.group_by("kind", pl.lit(ALL_LAUNCHES).alias("name")).agg(pl.col("calls", "time").sum())


def _kernels(view: Scope) -> pl.DataFrame:
    work = device_work(view.trace)
    frames = []
    for kind, of in (("kernel", WorkKind.COMPUTATION), ("collective", WorkKind.COMMUNICATION)):
        chosen = view.device_work_mask & work.of(of)
        frames.append(_summed(view.trace, kind, work.rows[chosen], work.duration[chosen]))
    return pl.concat(frames)


def _summed(trace: Trace, kind: str, rows: Int32s, times: Int64s) -> pl.DataFrame:
    """Calls and time of some events by name."""
    codes, first = group(trace.name[rows])
    names = [normalized(each) for each in trace.strings.labels(trace.name[rows[first]].tolist())]
    frame = pl.DataFrame(
        {
            "kind": pl.Series([kind] * len(first), dtype=pl.String),
            "name": pl.Series(names, dtype=pl.String),
            "calls": np.bincount(codes, minlength=len(first)).astype(np.int64),
            "time": sum_by(codes, len(first), np.maximum(times, 0)),
        }
    )
    return frame.group_by("kind", "name", maintain_order=True).agg(pl.col("calls", "time").sum())


def means(base: pl.DataFrame, new: pl.DataFrame, counts: tuple[int, int]) -> pl.DataFrame:
    """The rows of MEANS, of rows of OF_RANK; `counts`: steps of all ranks in both runs."""
    sides = []
    for side, frame, steps in (("base", base, counts[0]), ("new", new, counts[1])):
        sums = frame.group_by("kind", "name").agg(pl.col("calls", "time").sum())
        sides.append(
            sums.filter(pl.col("calls") > 0).select(
                "kind",
                "name",
                (pl.col("calls") / steps).alias(f"{side}_calls"),
                (pl.col("time") / pl.col("calls")).round().cast(pl.Int64).alias(f"{side}_mean"),
                (pl.col("time") / steps).round().cast(pl.Int64).alias(f"{side}_time"),
            )
        )
    both = sides[0].join(sides[1], on=["kind", "name"])
    changed = (pl.col("new_calls") - pl.col("base_calls")).abs()
    columns = both.with_columns(
        as_often=changed <= _EQUAL_CALLS_SHARE * pl.col("base_calls"), longer=pl.col("new_mean") > pl.col("base_mean")
    )
    return columns.select(MEANS.names).sort("base_time", "kind", "name", descending=[True, False, False])


def slower_host(result: Result) -> Sentence:
    """A sentence that a reader must know before looking for a call, if the host as a whole became slower.

    It did where launches cost more, most of the host's time is in operators that are called as often as before, and
    nearly all of those take longer. Empty else, and without launches: times of operators then follow the data.

    Args:
        result: a table of MEANS.
    """
    frame = result.frame
    launch = frame.filter(kind="launch")
    operators, kernels, collectives = (frame.filter(kind=each) for each in ("operator", "kernel", "collective"))
    if (
        not launch.height
        or not _is_stretched(operators)
        or not _has_grown(launch["base_mean"][0], launch["new_mean"][0])
    ):
        return EMPTY
    same = {"kind": "operator", "as_often": True}
    host = say(
        "No single call explains it, the host became slower: {longer} of {operators} operators that are called as "
        "often as before take longer on the host ({before} → {after} in a step), and a launch costs {launch} → {now}.",
        longer=count(result, longer=True, **same),
        operators=count(result, **same),
        before=total(result, "base_time", **same),
        after=total(result, "new_time", **same),
        launch=cell(result, "base_mean", kind="launch"),
        now=cell(result, "new_mean", kind="launch"),
    )
    steady = not _is_stretched(kernels) and kernels.filter("as_often").height
    device = say(
        "Kernels that run as often take {before} → {after} in a step.",
        before=total(result, "base_time", kind="kernel", as_often=True),
        after=total(result, "new_time", kind="kernel", as_often=True),
    )
    waits = say(
        "Collectives take longer, too ({before} → {after} in a step, as often): their kernels wait for other ranks.",
        before=total(result, "base_time", kind="collective", as_often=True),
        after=total(result, "new_time", kind="collective", as_often=True),
    )
    where = say("Compare the processor, its clock, what else runs on it, and the versions of both runs.")
    return join([host, device if steady else "", waits if _is_stretched(collectives) else "", where])


def _is_stretched(rows: pl.DataFrame) -> bool:
    """Do nearly all of these calls take longer, at as many calls?"""
    same = rows.filter("as_often")
    every, before, now = (float(each.sum()) for each in (rows["base_time"], same["base_time"], same["new_time"]))
    longer = float(same.filter("longer")["base_time"].sum())
    return (
        before > 0
        and before >= _MOST_TIME_SHARE * every
        and longer >= _MOST_TIME_SHARE * before
        and _has_grown(before, now)
    )


def _has_grown(before: float, after: float) -> bool:
    return after > (1 + _LONGER_SHARE) * before
