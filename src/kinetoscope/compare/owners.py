"""Who owns each instant of a step: one call, so that what the owners have sums to the step, to the nanosecond."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.algorithms.intervals import Intervals
from kinetoscope.algorithms.last_started import Owned, owned
from kinetoscope.algorithms.prefixes import Prefixes, prefix_tree
from kinetoscope.algorithms.tree import ancestor
from kinetoscope.analyses.step_breakdown import CATEGORIES
from kinetoscope.compare.alike import alike, alike_frame, without_digits
from kinetoscope.model import arguments
from kinetoscope.model.calls import call_name
from kinetoscope.model.calltree import MODULE, STEP, call_tree, is_asynchronous, main_thread
from kinetoscope.model.device import DeviceWork
from kinetoscope.model.job import Partial
from kinetoscope.model.kinds import EventKind, WorkKind
from kinetoscope.model.loading import is_data_loading
from kinetoscope.model.naming import rows_named
from kinetoscope.model.scope import Scope, scope
from kinetoscope.model.selection import Selection
from kinetoscope.model.stacks import DEEPEST, SEPARATOR
from kinetoscope.model.steps import step_of
from kinetoscope.model.steps import steps as find_steps
from kinetoscope.model.trace import Trace
from kinetoscope.model.unrecorded import unrecorded
from kinetoscope.schema import Column, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
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

NOTHING: Final = "nothing recorded"
"""Name of the owner of instants at which the main thread is in no call."""

_KEY: Final = ("category", "kind", "name", "path", "input_shapes")
_DEEPEST: Final = 100
"""Calls of a path, the innermost ones: crafted files have more, and would fill the memory."""

_LONGEST: Final = 300
"""Characters of a call in a path."""

_TABLE: Final = {**dict.fromkeys(_KEY, pl.String), "calls": pl.Int64, "first": pl.Int64}
_FRAMES: Final = (STEP, "[pl][")
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
_RUNTIME, _LOADING, _HOST, _OTHER = (CATEGORIES.index(name) for name in ("runtime", "data_loading", "host", "other"))

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


def owners(trace: Trace, select: Selection) -> Partial:
    """Give each instant of each selected device step to one owner.

    The category of an instant is that of `step_breakdown`. Within it the owner is the call or the piece of device work
    that started last, on any thread, stream or device of the rank. An instant of the category `other` belongs to the
    innermost Python call or annotation on the main thread; if there is none, to nobody: `nothing recorded`. An owner is
    known by its category, its name, the calls around it (around its launch, if it is device work) and the shapes of the
    operator's inputs. Calls of all threads are counted, whether they own time or not: those that began in a selected
    step of the host, and device work that was launched in one (or, if its launch was not recorded, began in one).
    """
    chosen = scope(trace, select)
    # Steps choose windows. What happens in a step does not depend on which others are asked for.
    view = chosen if select.steps is None else scope(trace, replace(select, steps=None))
    windows = view.clipped(chosen.steps.device.start, chosen.steps.device.end)
    found = _intervals(view)
    codes, first = group(found.category, found.node, found.name, found.shape)
    competing = np.flatnonzero(found.competes)
    spans = Intervals(found.start[competing], found.end[competing])
    shares = owned(windows, spans, found.category[competing], codes[competing], len(first))
    inside = (step_of(chosen.steps.host, found.began) >= 0) & found.counts
    calls = np.bincount(codes[inside], minlength=len(first))
    owns = np.bincount(shares.group, minlength=len(first)) > 0
    kept = np.flatnonzero(owns | ((calls > 0) & (found.event[first] != EventKind.PYTHON)))
    lengths = windows.end - windows.start
    frame = _joined(trace, found, first, kept, calls, shares, lengths)
    notes = list(chosen.notes)
    if not (trace.of(_shapes) >= 0).any():
        notes.append(unrecorded("shapes", "calls of different shapes are one"))
    return Partial(frame, tuple(notes))


@dataclass(frozen=True)
class _Found:
    """All that can own time, or is counted: the selected device work, then the selected calls of the host.

    Attributes:
        start, end: int64 [n], ns. began: int64 [n], the time by which it belongs to a step of the host.
        category: int8 [n], place in CATEGORIES. event: int8 [n], an EventKind.
        node: int32 [n], of `paths.tree`: what is around it. name: int32 [n], string code of its own name.
        shape: int32 [n], string code of the shapes, −1 for none.
        competes: bool [n], whether it can own time. counts: bool [n], whether it is counted as a call.
        paths: the nodes.
    """

    start: Int64s
    end: Int64s
    began: Int64s
    category: NDArray[np.int8]
    event: NDArray[np.int8]
    node: Int32s
    name: Int32s
    shape: Int32s
    competes: Bools
    counts: Bools
    paths: _Paths


def _intervals(view: Scope) -> _Found:
    trace, work = view.trace, view.device_work
    paths = trace.of(_paths)
    category, competes = _host_categories(view)
    host = np.flatnonzero(category >= 0).astype(np.int32)
    own = np.flatnonzero(view.work)
    rows = work.rows[own]
    launch = np.where(work.launch[own] >= 0, work.launch[own], work.op[own])
    op = np.where(launch >= 0, trace.of(_shaped)[launch], -1)
    shapes = trace.of(_shapes)
    kinds = np.array([_OF_WORK[kind] for kind in WorkKind], np.int8)
    return _Found(
        start=np.concatenate([work.start[own], trace.start[host]]),
        end=np.concatenate([work.end[own], trace.end[host]]),
        began=np.concatenate(
            [np.where(work.launch[own] >= 0, trace.start[work.launch[own]], work.start[own]), trace.start[host]]
        ),
        category=np.concatenate([kinds[work.kind[own]], category[host]]),
        event=np.concatenate([trace.kind[rows], trace.kind[host]]),
        node=np.concatenate([np.where(launch >= 0, paths.tree.node[launch], -1).astype(np.int32), paths.around[host]]),
        name=np.concatenate([trace.name[rows], trace.name[host]]),
        shape=np.concatenate([np.where(op >= 0, shapes[op], -1), shapes[host]]),
        competes=np.concatenate([np.ones(len(own), np.bool_), competes[host]]),
        counts=np.concatenate([_counted(work, own), view.host[host]]),
        paths=paths,
    )


def _counted(work: DeviceWork, own: NDArray[np.int64]) -> Bools:
    """Which device work is counted: not what was launched before the recording began, and so comes first on a stream.

    Of a stream on which no launch was recorded at all everything is.
    """
    linked, start = work.launch[own] >= 0, work.start[own]
    lane, first = group(work.device[own], work.stream[own])
    known = np.full(len(first), np.iinfo(np.int64).max)
    np.minimum.at(known, lane[linked], start[linked])
    silent = np.bincount(lane[linked], minlength=len(first)) == 0
    return np.asarray((start >= known[lane]) | silent[lane])


def _host_categories(view: Scope) -> tuple[NDArray[np.int8], Bools]:
    """The category of each event of the host, −1 for what is left out, and whether it can own time: [events] each.

    The categories are those of `step_breakdown`; a test holds both equal. Python calls and annotations own time on the
    main thread only, and only where nothing else happens.
    """
    trace = view.trace
    tree = trace.of(call_tree)
    gloo, loading = trace.of(is_asynchronous), trace.of(is_data_loading)
    marks = rows_named(
        trace, lambda name: name.startswith(_FRAMES), EventKind.HOST_OP, EventKind.ANNOTATION, holding=_FRAMES
    )
    found = np.full(len(trace), -1, np.int8)
    found[np.isin(trace.kind, (EventKind.PYTHON, EventKind.ANNOTATION)) & tree.member] = _OTHER
    found[trace.kind == EventKind.HOST_OP] = _HOST
    found[marks] = -1
    found[trace.kind == EventKind.RUNTIME] = _RUNTIME
    found[loading] = _LOADING
    found[gloo] = CATEGORIES.index("communication")
    found[~view.host_any_time] = -1
    beside = (found == _OTHER) & (trace.track != trace.of(main_thread))
    found[beside & (trace.kind == EventKind.PYTHON)] = -1
    return found, ~beside


# --- names


@dataclass(frozen=True)
class _Paths:
    """What stands around each call.

    Attributes:
        tree: annotations, modules and operators as a prefix tree over all events.
        around: int32 [events], the node around each event, not its own.
        labels: the text of each label of the tree.
    """

    tree: Prefixes
    around: Int32s
    labels: dict[int, str]

    def texts(self, nodes: Sequence[int]) -> Iterator[str]:
        """The path of each node, "" for none."""
        known: dict[int, str] = {-1: ""}
        parent, label = self.tree.parent, self.tree.label
        for node in nodes:
            open_nodes = []
            while node not in known:
                open_nodes.append(node)
                node = int(parent[node])
            for each in reversed(open_nodes):
                above = known[int(parent[each])]
                text = self.labels[int(label[each])]
                node = each
                parts = above.split(SEPARATOR)[1 - _DEEPEST :] if above.count(SEPARATOR) >= _DEEPEST - 1 else [above]
                known[each] = SEPARATOR.join([*parts, text]) if above else text
            yield known[node]


def _paths(trace: Trace) -> _Paths:
    tree = trace.of(call_tree)
    shown = np.isin(trace.kind, (EventKind.HOST_OP, EventKind.ANNOTATION))
    shown &= ~rows_named(
        trace, lambda name: name.startswith(_FRAMES), EventKind.HOST_OP, EventKind.ANNOTATION, holding=_FRAMES
    )
    shown |= rows_named(trace, lambda name: name.startswith(MODULE), EventKind.PYTHON, holding=(MODULE,))
    shown &= tree.member & (tree.depth < DEEPEST)
    same, labels = _labels(trace, shown)
    found = prefix_tree(tree.order, tree.parent, np.where(shown, same[trace.name], np.int32(-1)))
    around = np.where(shown, _above(found, found.node), found.node)
    return _Paths(found, around.astype(np.int32), labels)


def _above(tree: Prefixes, node: Int32s) -> Int32s:
    parent = np.append(tree.parent, np.int32(-1))  # the last is that of no node
    return parent[node]


def _labels(trace: Trace, shown: Bools) -> tuple[Int32s, dict[int, str]]:
    """A code for each string code that names a call that is shown, the same for names that are alike; and the texts."""
    same = np.full(len(trace.strings) + 1, -1, np.int32)
    first: dict[str, int] = {}
    labels: dict[int, str] = {}
    nameless = np.int32(len(trace.strings))
    names = np.where(trace.name >= 0, trace.name, nameless)
    texts = trace.of(plain_names)
    for code in np.unique(names[shown]).tolist():
        text = _cut(texts.get(code) or alike(trace.strings.label(code) if code < nameless else ""))
        same[code] = first.setdefault(text, code)
        labels[int(same[code])] = text
    return same, labels


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}…{text[-_LONGEST // 2 :]}"


def plain_names(trace: Trace) -> dict[int, str]:
    """By string code, the names of annotations, operators and modules as they are in every run, where they are not.

    What `alike` knows, and numbers of the user's own: of annotations that differ in their numbers only, each of which
    occurs in one step and no other, the numbers are those of the steps.
    """
    found: dict[int, str] = {}
    rows = np.flatnonzero(np.isin(trace.kind, (EventKind.HOST_OP, EventKind.ANNOTATION)))
    for kind in (EventKind.HOST_OP, EventKind.ANNOTATION):
        for code in np.unique(trace.name[rows[trace.kind[rows] == kind]]).tolist():
            found[code] = alike(call_name(trace.strings.label(code), kind))
    modules = np.flatnonzero(
        rows_named(trace, lambda name: name.startswith(MODULE), EventKind.PYTHON, holding=(MODULE,))
    )
    for code in np.unique(trace.name[modules]).tolist():
        found[code] = alike_frame(trace.strings.label(code))
    found |= _numbered(trace, found)
    return found


def _numbered(trace: Trace, names: dict[int, str]) -> dict[int, str]:
    """The names of annotations that are numbered by steps, without the numbers."""
    rows = np.flatnonzero(trace.kind == EventKind.ANNOTATION)
    step = step_of(trace.of(find_steps, None).host, trace.start[rows])
    families: dict[str, list[int]] = {}
    for code in np.unique(trace.name[rows]).tolist():
        family = without_digits(names[code])
        if family != names[code]:
            families.setdefault(family, []).append(code)
    found: dict[int, str] = {}
    for family, codes in families.items():
        here = np.isin(trace.name[rows], codes)
        pairs = set(zip(trace.name[rows[here]].tolist(), step[here].tolist(), strict=True))
        if len(codes) > 1 and len(pairs) == len(codes) and len({each for _, each in pairs}) > 1:
            found |= dict.fromkeys(codes, family)
    return found


def _shapes(trace: Trace) -> Int32s:
    """The string code of the shapes of each operator's inputs: int32 [events], −1 where none were recorded."""
    rows = trace.rows(EventKind.HOST_OP)
    found = np.full(len(trace), -1, np.int32)
    found[rows] = arguments.codes(trace, "input_dims", rows)
    return found


def _shaped(trace: Trace) -> Int32s:
    """The operator that each event is, or is called by, of which shapes were recorded: int32 [events], −1 for none."""
    return ancestor(trace.of(call_tree).parent, trace.of(_shapes) >= 0)


# --- rows


def _joined(
    trace: Trace, found: _Found, first: Int32s, kept: Int64s, calls: Int64s, shares: Owned, lengths: Int64s
) -> pl.DataFrame:
    """A row for each owner, those of one text together, and one for the time that nobody owns."""
    of = first[kept]
    place = np.full(len(first) + 1, -1, np.int64)
    place[kept] = np.arange(len(kept))
    texts = _texts(trace, found, of)
    table = pl.DataFrame({**texts, "calls": calls[kept], "first": found.began[of]}, schema=_TABLE)
    times = pl.DataFrame({"owner": place[shares.group], "place": shares.window.astype(np.int64), "time": shares.time})
    left = lengths - sum_by(shares.window, len(lengths), shares.time)
    nobody = {"category": "other", "kind": "nothing", "name": NOTHING, "path": "", "input_shapes": None}
    table = pl.concat([table, pl.DataFrame([{**nobody, "calls": 0, "first": 0}], schema=_TABLE)])
    times = pl.concat(
        [
            times,
            pl.DataFrame({"place": np.arange(len(left)), "time": left}).select(
                pl.lit(len(kept), pl.Int64).alias("owner"), "place", "time"
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


def _texts(trace: Trace, found: _Found, of: Int32s) -> dict[str, Any]:
    events = found.event[of].tolist()
    plain = trace.of(plain_names)
    names = []
    for code, event in zip(found.name[of].tolist(), events, strict=True):
        text = plain.get(code) if event in (EventKind.HOST_OP, EventKind.ANNOTATION) else None
        label = trace.strings.label(code)
        names.append(text or (alike_frame(label) if event == EventKind.PYTHON else alike(label)))
    nested = {code: json.dumps(trace.strings.nested(code)) for code in set(found.shape[of].tolist()) if code >= 0}
    return {
        "category": [CATEGORIES[place] for place in found.category[of].tolist()],
        "kind": [_KINDS[EventKind(event)] for event in events],
        "name": names,
        "path": list(found.paths.texts(found.node[of].tolist())),
        "input_shapes": [nested.get(code) for code in found.shape[of].tolist()],
    }
