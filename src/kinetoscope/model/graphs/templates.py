"""Templates of graphs: the nodes that the replays of one graph have in common, and the times of each node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, union
from kinetoscope.algorithms.statistics import MEDIAN, nearest_rank
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.graphs.replays import Replays, replays
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

QUARTILES: Final = ((1, 4), MEDIAN, (3, 4))

FENCE: Final = 3
"""Interquartile ranges above the third quartile from which on a run is far out (Tukey, Exploratory Data Analysis)."""

LEAST_EXCESS: Final = 1.5
"""Medians that an outlier takes at least: the device's clock alone makes far outs of equal runs."""

MIN_RUNS: Final = 8
"""Runs of a node from which on its quartiles mean something."""


@dataclass(frozen=True)
class Templates:
    """The templates of a trace, by the first replay of each.

    Attributes:
        graph: int64 [templates], the graph id, −1 where the file does not say.
        offsets: int64 [templates + 1], where the nodes of each begin.
        model: int32 [templates], the first whole replay of each.
        of_replay: int32 [replays], the template of each.
        is_whole: bool [replays], those with all nodes; of the others a part was recorded.
        node: int32 [work of replays], the node, of those of all templates, that each piece is a run of.
    """

    graph: Int64s
    offsets: Int64s
    model: Int32s
    of_replay: Int32s
    is_whole: Bools
    node: Int32s

    def __len__(self) -> int:
        return len(self.graph)

    @property
    def nodes(self) -> Int64s:
        """How many nodes each has: int64 [templates]."""
        return np.diff(self.offsets)


@derived
def templates(trace: Trace) -> Templates:
    """The templates of a trace.

    The largest sequence of work among the replays of a graph is its template. Another replay of the graph is a part of
    it if its nodes are among those of the template, by id and name. Where nodes have no ids, only the first and the
    last replay of the recording can be parts: the end or the beginning of one template and of no other. A replay whose
    capture has no other kernels is whole, whatever longer graph begins or ends alike.
    """
    every = replays(trace)
    names = trace.name[device_work(trace).rows[every.work]]
    sequence = every.template.copy()
    ordinal = np.arange(len(every.work)) - np.repeat(every.offsets[:-1], every.sizes)
    stated = _stated_whole(trace, every)
    for replay, (whole, places) in {**_parts_by_id(every, names), **_parts_at_ends(every, names, stated)}.items():
        sequence[replay] = every.template[whole]
        ordinal[every.offsets[replay] : every.offsets[replay + 1]] = places
    of_replay, first = group(sequence)
    is_whole = sequence == every.template
    model = _first_of_each(sequence[first], every.template)
    offsets = np.concatenate([[0], np.cumsum(every.sizes[model])]).astype(np.int64)
    node = np.repeat(offsets[of_replay], every.sizes) + ordinal
    return Templates(every.graph[model], offsets, model, of_replay, is_whole, node.astype(np.int32))


def _first_of_each(wanted: Int32s, values: Int32s) -> Int32s:
    """The first place of each wanted value."""
    order = np.argsort(values, kind="stable")
    return order[np.searchsorted(values[order], wanted)].astype(np.int32)


_Parts = dict[int, tuple[int, Int64s]]
"""By replay: the first replay with all nodes of its graph, and which of its pieces each piece is."""


def _parts_by_id(every: Replays, names: Int32s) -> _Parts:
    _, first, replays_of = np.unique(every.template, return_index=True, return_counts=True)
    whole: dict[int, int] = {}
    for place in np.lexsort((-replays_of, -every.sizes[first])).tolist():
        whole.setdefault(int(every.graph[first[place]]), int(first[place]))
    parts: _Parts = {}
    largest = np.array([every.template[whole[graph]] for graph in every.graph.tolist()], np.int32)
    for replay in np.flatnonzero((every.graph >= 0) & (every.template != largest)).tolist():
        model = whole[int(every.graph[replay])]
        own, all_ids = every.node[_pieces(every, replay)], every.node[_pieces(every, model)]
        if own.min() <= 0 or all_ids.min() <= 0 or (np.diff(all_ids) <= 0).any():
            continue
        places = np.minimum(np.searchsorted(all_ids, own), len(all_ids) - 1)
        same_names = names[_pieces(every, replay)] == names[_pieces(every, model)][places]
        if (all_ids[places] == own).all() and same_names.all():
            parts[replay] = model, places
    return parts


def _stated_whole(trace: Trace, every: Replays) -> Bools:
    """Replays whose capture tells that no work is missing: bool [replays]."""
    if trace.captured is None:
        return np.zeros(len(every), np.bool_)
    return np.isin(every.launch, trace.captured.replay[trace.captured.is_whole])


def _parts_at_ends(every: Replays, names: Int32s, stated: Bools) -> _Parts:
    parts: _Parts = {}
    _, first, replays_of = np.unique(every.template, return_index=True, return_counts=True)
    ends = sorted({0, len(every) - 1}, key=lambda replay: -every.sizes[replay]) if len(every) else []
    for replay in (each for each in ends if not stated[each]):
        if every.node[_pieces(every, replay)].min() > 0 or replays_of[every.template[replay]] > 1:
            continue
        own = names[_pieces(every, replay)]
        larger = first[(every.sizes[first] > len(own)) & (every.graph[first] == every.graph[replay])]
        fitting = []
        for model in larger.tolist():
            whole = names[_pieces(every, model)]
            lost = len(whole) - len(own) if replay == 0 else 0
            if (whole[lost : lost + len(own)] == own).all():
                fitting.append((model, np.arange(lost, lost + len(own))))
        if len(fitting) == 1:
            parts[replay] = fitting[0]
            first = first[first != replay]  # a part is no template
    return parts


def _pieces(every: Replays, replay: int) -> slice:
    return slice(int(every.offsets[replay]), int(every.offsets[replay + 1]))


# --- times


@dataclass(frozen=True)
class ReplayTimes:
    """The times of replays, ns: int64 [replays] each.

    Attributes:
        start, end: of the first and the last work.
        total: sum of the durations of its work.
        busy: time in which any of its work ran.
        gap: from the end of all earlier replays on the device; −1 for the first.
        gap_idle: of that, time in which the device did nothing at all; −1 for the first.
    """

    start: Int64s
    end: Int64s
    total: Int64s
    busy: Int64s
    gap: Int64s
    gap_idle: Int64s

    @property
    def duration(self) -> Int64s:
        """From the start of the first work to the end of the last."""
        return self.end - self.start


@derived
def replay_times(trace: Trace) -> ReplayTimes:
    """The times of the replays of a trace."""
    every, work = replays(trace), device_work(trace)
    start, end, begin = work.start[every.work], work.end[every.work], every.offsets[:-1]
    if not len(every):
        return ReplayTimes(*(start for _ in range(6)))
    first, last = np.minimum.reduceat(start, begin), np.maximum.reduceat(end, begin)
    busy = last - first - np.add.reduceat(idle_before(trace), begin)
    gap, idle = np.full(len(every), -1, np.int64), np.full(len(every), -1, np.int64)
    device = work.device[every.work[begin]]
    for number in np.unique(device).tolist():
        here = np.flatnonzero(device == number)
        here = here[np.argsort(first[here], kind="stable")]
        windows = Intervals(np.maximum.accumulate(last[here])[:-1], first[here][1:])
        on_device = work.device == number
        gap[here[1:]] = np.maximum(windows.end - windows.start, 0)
        idle[here[1:]] = gap[here[1:]] - covered(windows, union(work.start[on_device], work.end[on_device]))
    return ReplayTimes(first, last, np.add.reduceat(end - start, begin), busy, gap, idle)


@derived
def idle_before(trace: Trace) -> Int64s:
    """Time without work of the replay before each piece, ns: int64 [work of replays], 0 for the first of a replay.

    Over a replay it sums to the time in which none of its work ran.
    """
    every, work = replays(trace), device_work(trace)
    start, end, replay = work.start[every.work], work.end[every.work], every.replay
    order = np.lexsort((end, start, replay))
    rank = np.empty(len(order), np.int64)
    by_end = np.argsort(end, kind="stable")
    rank[by_end] = np.arange(len(order))
    # The latest end so far within a replay: the rank of an end, above all ranks of the replays before.
    latest = np.maximum.accumulate(replay[order].astype(np.int64) * len(order) + rank[order]) % max(len(order), 1)
    idle = np.zeros(len(order), np.int64)
    before = order[1:][replay[order[1:]] == replay[order[:-1]]]
    reached = end[by_end[latest[:-1]]][replay[order[1:]] == replay[order[:-1]]]
    idle[before] = np.maximum(start[before] - reached, 0)
    return idle


@dataclass(frozen=True)
class Outliers:
    """Runs of nodes that are far out.

    Attributes:
        is_outlier: bool [runs].
        excess: int64 [runs], duration less the median of the node for outliers, else 0, ns.
    """

    is_outlier: Bools
    excess: Int64s


def outliers(node: Int32s, nodes: int, duration: Int64s) -> Outliers:
    """The runs of each node that take far longer than its others.

    They are longer than Tukey's outer fence, the third quartile and 3 interquartile ranges, and than 1.5 medians. Of a
    node with fewer than 8 runs none is an outlier.

    Args:
        node: int32 [runs], the node of each, negative for none.
        nodes: how many nodes there are.
        duration: int64 [runs], ns.
    """
    lower, middle, upper = nearest_rank(node, nodes, duration, *QUARTILES)
    fence = np.maximum(upper + FENCE * (upper - lower), middle * LEAST_EXCESS)
    fence[np.bincount(node[node >= 0], minlength=nodes) < MIN_RUNS] = np.inf
    is_outlier = (node >= 0) & (duration > fence[node]) if nodes else np.zeros(len(node), np.bool_)
    return Outliers(is_outlier, np.where(is_outlier, duration - middle[node] if nodes else duration, 0))
