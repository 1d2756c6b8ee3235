"""Who owns each instant of a step: one call, so that what the owners have sums to the step, to the nanosecond."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s, scattered
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.algorithms.intervals.ownership import Owned, owned_by_group
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.analyses.step_breakdown import CATEGORIES
from kinetoscope.compare.diff.call_paths import Paths, plain_names
from kinetoscope.compare.diff.call_paths import paths as find_paths
from kinetoscope.compare.diff.normalize_names import normalized, normalized_frame
from kinetoscope.model.answer import Partial
from kinetoscope.model.execution.activities import RUNTIME_ACTIVITIES, HostActivity, host_activities
from kinetoscope.model.execution.call_tree import call_tree, main_thread
from kinetoscope.model.execution.device_work import DeviceWork
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import Steps, step_of, step_of_work
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.recording import has_timeline, no_timeline, not_recorded
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Schema

Measure = Literal["step", "window", "recording"]
"""The thing whose time is compared: a mean step; where no steps are marked the window; of sums all that has them."""

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("measure", pl.String, "The thing whose time is owned; see Measure."),
    Column("category", pl.String, "Category of `step_breakdown` that the time belongs to."),
    Column("kind", pl.String, "operator, annotation, runtime, python, kernel, memcpy, memset; nothing: none recorded."),
    Column("name", pl.String, "Name of the call, kernel or copy, without what differs from run to run."),
    Column("path", pl.String, "Annotations, modules and operators around it, outermost first, parted by semicolons."),
    Column("input_shapes", pl.String, "Shapes of the inputs of the operator; null if none was recorded."),
    Column("calls", pl.Int64, "How many began in the selected steps."),
    Column("time", pl.Int64, "Time that they own in the selected steps.", "ns"),
    Column("steps", pl.Int64, "How many steps are selected."),
    Column("places", pl.List(pl.Int64), "Which of the selected steps they own time in, from 0, ascending."),
    Column("times", pl.List(pl.Int64), "The time that they own in each of those, ns.", "ns"),
    Column("first", pl.Int64, "Place of the first call in the order of time."),
)
"""Rows of `owners`: one for each distinct owner of a rank."""

NOTHING_RECORDED: Final = "nothing recorded"
"""Name of the owner of instants at which the main thread is in no call."""

_KEY: Final = ("category", "kind", "name", "path", "input_shapes")
_TABLE: Final = {**dict.fromkeys(_KEY, pl.String), "calls": pl.Int64, "first": pl.Int64}
_KINDS: Final = {
    EventKind.HOST_OP: "operator",
    EventKind.ANNOTATION: "annotation",
    EventKind.PYTHON: "python",
    EventKind.RUNTIME: "runtime",
    EventKind.KERNEL: "kernel",
    EventKind.MEMCPY: "memcpy",
    EventKind.MEMSET: "memset",
}
_OF_WORK: Final = {
    WorkKind.COMPUTATION: CATEGORIES.index("computation"),
    WorkKind.COMMUNICATION: CATEGORIES.index("communication"),
    WorkKind.MEMCPY: CATEGORIES.index("memcpy"),
    WorkKind.MEMSET: CATEGORIES.index("memset"),
}
_OTHER_CATEGORY: Final = CATEGORIES.index("other")
_OF_ACTIVITY: Final = {
    HostActivity.DATA_LOADING: CATEGORIES.index("data_loading"),
    **dict.fromkeys(RUNTIME_ACTIVITIES, CATEGORIES.index("runtime")),
    HostActivity.COMMUNICATION: CATEGORIES.index("communication"),
    HostActivity.OPERATOR: CATEGORIES.index("host"),
    HostActivity.PYTHON: _OTHER_CATEGORY,
    HostActivity.ANNOTATION: _OTHER_CATEGORY,
}


def owners_of_rank(trace: Trace, select: Selection) -> Partial:
    """Give each instant of each selected device step to one owner.

    The category of an instant is that of `step_breakdown`. Within it the owner is the call or the piece of device work
    that started last, on any thread, stream or device of the rank. An instant of the category `other` belongs to the
    innermost Python call or annotation on the main thread; if there is none, to nobody: `nothing recorded`. An owner is
    known by its category, its name, the calls around it (around its launch, if it is device work) and the shapes of the
    operator's inputs. Calls of all threads are counted, whether they own time or not: those that began in a selected
    step of the host, and the device work of the selected steps (`step_of_work`).
    """
    chosen = scope(trace, select)
    # Steps choose windows. What happens in a step does not depend on which others are asked for.
    view = chosen if select.steps is None else scope(trace, replace(select, steps=None))
    windows = view.clipped(chosen.steps.device.start, chosen.steps.device.end)
    candidates = _intervals(view, chosen.steps)
    codes, first = group(candidates.category, candidates.node, candidates.name, candidates.shape)
    shares = owned_by_group(
        windows, Intervals(candidates.start, candidates.end), candidates.category, codes, len(first)
    )
    calls = np.bincount(codes[candidates.counts], minlength=len(first))
    owns = np.bincount(shares.group, minlength=len(first)) > 0
    owning = np.flatnonzero(owns | ((calls > 0) & (candidates.event[first] != EventKind.PYTHON)))
    lengths = windows.end - windows.start
    frame = _joined(trace, candidates, first, owning, calls, shares, lengths)
    notes = list(chosen.notes) if has_timeline(trace) else [no_timeline(trace)]
    if not (_shapes(trace) >= 0).any():
        notes.append(not_recorded("shapes", "calls of different shapes are one"))
    return Partial(frame.select(pl.lit(_measure(trace, chosen)).alias("measure"), pl.all()), tuple(notes))


def _measure(trace: Trace, chosen: Scope) -> Measure:
    if not has_timeline(trace):
        return "recording"
    return "window" if chosen.steps.origin == "window" else "step"


@dataclass(frozen=True)
class _Candidates:
    """All that can own time, or is counted: the selected device work, then the selected calls of the host.

    Attributes:
        start, end: int64 [n], ns; what cannot own time ends when it starts.
        category: int8 [n], place in CATEGORIES. event: int8 [n], an EventKind.
        node: int32 [n], of `paths.tree`: what is around it. name: int32 [n], string code of its own name.
        shape: int32 [n], string code of the shapes, −1 for none.
        counts: bool [n], whether it is counted as a call of the selected steps.
        paths: the nodes.
    """

    start: Int64s
    end: Int64s
    category: Int8s
    event: Int8s
    node: Int32s
    name: Int32s
    shape: Int32s
    counts: Bools
    paths: Paths


def _intervals(view: Scope, steps: Steps) -> _Candidates:
    """All of a selection; `steps` are those in which calls are counted."""
    trace, work = view.trace, view.device_work
    paths = find_paths(trace)
    category, competes = _host_categories(view)
    host = np.flatnonzero(category >= 0).astype(np.int32)
    own = np.flatnonzero(view.device_work_mask)
    rows = work.rows[own]
    launch = np.where(work.launch[own] >= 0, work.launch[own], work.op[own])
    op = np.where(launch >= 0, _shaped(trace)[launch], -1)
    shapes = _shapes(trace)
    kinds = np.array([_OF_WORK[kind] for kind in WorkKind], np.int8)
    return _Candidates(
        start=np.concatenate([work.start[own], trace.start[host]]),
        end=np.concatenate([work.end[own], np.where(competes[host], trace.end[host], trace.start[host])]),
        category=np.concatenate([kinds[work.kind[own]], category[host]]),
        event=np.concatenate([trace.kind[rows], trace.kind[host]]),
        node=np.concatenate([np.where(launch >= 0, paths.tree.node[launch], -1).astype(np.int32), paths.around[host]]),
        name=np.concatenate([trace.name[rows], trace.name[host]]),
        shape=np.concatenate([np.where(op >= 0, shapes[op], -1), shapes[host]]),
        counts=np.concatenate(
            [
                _counted(work, own) & (step_of_work(trace, work, steps)[own] >= 0),
                view.host_mask[host] & (step_of(steps.host, trace.start[host]) >= 0),
            ]
        ),
        paths=paths,
    )


def _counted(work: DeviceWork, own: Int64s) -> Bools:
    """Device work that is counted: not what was launched before the recording began, and so comes first on a stream.

    Of a stream on which no launch was recorded at all everything is.
    """
    linked, start = work.launch[own] >= 0, work.start[own]
    lane, first = group(work.device[own], work.stream[own])
    known = np.full(len(first), np.iinfo(np.int64).max)
    np.minimum.at(known, lane[linked], start[linked])
    silent = np.bincount(lane[linked], minlength=len(first)) == 0
    return np.asarray((start >= known[lane]) | silent[lane])


def _host_categories(view: Scope) -> tuple[Int8s, Bools]:
    """The category of each event of the host, −1 for what is left out, and whether it can own time: [events] each.

    The categories are those of `step_breakdown`. Python calls and annotations own time on the
    main thread only, and only where nothing else happens.
    """
    trace = view.trace
    tree = call_tree(trace)
    of_activity = np.array([_OF_ACTIVITY.get(activity, -1) for activity in HostActivity], np.int8)
    category = of_activity[host_activities(trace)]
    other = category == _OTHER_CATEGORY
    category[(other & ~tree.member) | ~view.host_mask_untimed] = -1
    on_other_thread = (category == _OTHER_CATEGORY) & (trace.track != main_thread(trace))
    category[on_other_thread & (trace.kind == EventKind.PYTHON)] = -1
    return category, ~on_other_thread


@derived
def _shapes(trace: Trace) -> Int32s:
    """The string code of the shapes of each operator's inputs: int32 [events], −1 where none were recorded."""
    rows = trace.rows(EventKind.HOST_OP)
    return scattered(len(trace), rows, arguments.codes(trace, "input_dims", rows), np.int32)


@derived
def _shaped(trace: Trace) -> Int32s:
    """The operator that each event is, or is called by, of which shapes were recorded: int32 [events], −1 for none."""
    return ancestor(call_tree(trace).parent, _shapes(trace) >= 0)


# --- rows


def _joined(
    trace: Trace, candidates: _Candidates, first: Int32s, owning: Int64s, calls: Int64s, shares: Owned, lengths: Int64s
) -> pl.DataFrame:
    """A row for each owner, those of one text together, and one for the time that nobody owns."""
    of = first[owning]
    place = scattered(len(first) + 1, owning, np.arange(len(owning)), np.int64)
    texts = _texts(trace, candidates, of)
    table = pl.DataFrame({**texts, "calls": calls[owning], "first": candidates.start[of]}, schema=_TABLE)
    times = pl.DataFrame({"owner": place[shares.group], "place": shares.window.astype(np.int64), "time": shares.time})
    left = lengths - sum_by(shares.window, len(lengths), shares.time)
    nobody = {"category": "other", "kind": "nothing", "name": NOTHING_RECORDED, "path": "", "input_shapes": None}
    table = pl.concat([table, pl.DataFrame([{**nobody, "calls": 0, "first": 0}], schema=_TABLE)])
    times = pl.concat(
        [
            times,
            pl.DataFrame({"place": np.arange(len(left)), "time": left}).select(
                pl.lit(len(owning), pl.Int64).alias("owner"), "place", "time"
            ),
        ]
    ).filter(pl.col("time") != 0)
    return _by_text(table, times, len(lengths))


def _by_text(table: pl.DataFrame, times: pl.DataFrame, steps: int) -> pl.DataFrame:
    """Owners of one text joined, in the order in which they first began."""
    table = table.with_columns(key=pl.struct(_KEY).rank("dense") - 1)
    grouped = table.group_by("key").agg(pl.col(_KEY).first(), pl.col("calls").sum(), pl.col("first").min())
    of = times.with_columns(key=table.get_column("key").gather(times.get_column("owner")))
    of = of.group_by("key", "place").agg(pl.col("time").sum()).sort("key", "place")
    lists = of.group_by("key", maintain_order=True).agg(
        pl.col("time").sum(), pl.col("place").alias("places"), pl.col("time").alias("times")
    )
    joined = grouped.join(lists, on="key", how="left").sort("first", "category", "path", "name", "input_shapes")
    joined = joined.filter((pl.col("calls") > 0) | pl.col("time").is_not_null())
    return joined.select(
        *_KEY,
        "calls",
        pl.col("time").fill_null(0),
        pl.lit(steps, pl.Int64).alias("steps"),
        pl.col("places").fill_null([]),
        pl.col("times").fill_null([]),
        pl.int_range(pl.len(), dtype=pl.Int64).alias("first"),
    )


def _texts(trace: Trace, candidates: _Candidates, of: Int32s) -> dict[str, Any]:
    events = candidates.event[of].tolist()
    plain = plain_names(trace)
    names = []
    for code, event in zip(candidates.name[of].tolist(), events, strict=True):
        text = plain.get(code) if event in (EventKind.HOST_OP, EventKind.ANNOTATION) else None
        label = trace.strings.label(code) if code >= 0 else ""
        names.append(text or (normalized_frame(label) if event == EventKind.PYTHON else normalized(label)))
    nested = {code: json.dumps(trace.strings.nested(code)) for code in set(candidates.shape[of].tolist()) if code >= 0}
    return {
        "category": [CATEGORIES[place] for place in candidates.category[of].tolist()],
        "kind": [_KINDS[EventKind(event)] for event in events],
        "name": names,
        "path": list(candidates.paths.texts(candidates.node[of].tolist())),
        "input_shapes": [nested.get(code) for code in candidates.shape[of].tolist()],
    }
