"""Replays of graphs: the device work that one launch of a CUDA or HIP graph starts, in the order of its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, marked
from kinetoscope.algorithms.grouping import distinct_sequences, group
from kinetoscope.algorithms.intervals.intervals import extents
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

NODE_BITS: Final = 32
"""Of a node's id as the driver has it, those of the node in its graph; the higher ones are the graph's."""


@dataclass(frozen=True)
class Replays:
    """The replays of a trace, in the order in which their work begins.

    Attributes:
        launch: int32 [replays], row of the launch; −1 where it was not recorded.
        graph: int64 [replays], the graph id; −1 where the file does not tell.
        offsets: int64 [replays + 1], where the work of each begins in `work`.
        work: int32 [work of replays], places in `device_work`, by node.
        node: int64 [work of replays], the node ids; −1 where the file does not tell.
        template: int32 [replays], the number of its template: replays of one graph with the same work, in order.
    """

    launch: Int32s
    graph: Int64s
    offsets: Int64s
    work: Int32s
    node: Int64s
    template: Int32s

    def __len__(self) -> int:
        return len(self.launch)

    @property
    def sizes(self) -> Int64s:
        """How many pieces of work each has: int64 [replays]."""
        return np.diff(self.offsets)

    @property
    def replay(self) -> Int32s:
        """The replay of each piece of work of `work`: int32 [work of replays]."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.sizes)

    def work_of(self, replay: int) -> Int32s:
        """The places of the work of one replay, by node."""
        return self.work[self.offsets[replay] : self.offsets[replay + 1]]


def replays_graphs(trace: Trace) -> bool:
    """True if a trace replays graphs, by its strings alone: quick, and true where it cannot be told."""
    return bool(trace.strings.holding(("GraphLaunch", "graph node id")).any())


@derived
def replays(trace: Trace) -> Replays:
    """The replays of a trace.

    Work is a replay's if a launch of a graph started it; where the launch was not recorded, if it names a node. Nodes
    are ordered by their ids where all work of a replay has one, else by start.
    """
    work = device_work(trace)
    graph, node = node_ids(trace, work.rows)
    place = np.flatnonzero(_is_replayed(trace, work, node)).astype(np.int32)
    correlation = arguments.integers(trace, "correlation", work.rows[place])
    replay, first = group(work.launch[place], np.where(work.launch[place] >= 0, 0, correlation))
    numbered = np.bincount(replay, node[place] > 0) == np.bincount(replay)
    key = np.where(numbered[replay], node[place], 0) if len(place) else node[place]
    begin = extents(replay, len(first), work.start[place], work.end[place]).start
    order = np.lexsort((work.rows[place], work.start[place], key, replay, begin[replay]))
    place, replay = place[order], replay[order]
    bounds = np.flatnonzero(np.append(True, replay[1:] != replay[:-1])) if len(place) else np.empty(0, np.int64)
    offsets = np.append(bounds, len(place)).astype(np.int64)
    graph = graph[place[bounds]]
    sequence, _ = distinct_sequences(offsets, trace.name[work.rows[place]])
    return Replays(
        launch=work.launch[place[bounds]],
        graph=graph,
        offsets=offsets,
        work=place,
        node=node[place],
        template=group(graph, sequence)[0],
    )


def is_replayed(trace: Trace) -> Bools:
    """Device work of replays: bool [work]."""
    return marked(len(device_work(trace)), replays(trace).work)


def _is_replayed(trace: Trace, work: DeviceWork, node: Int64s) -> Bools:
    launched = np.zeros(len(work), np.bool_)
    known = np.flatnonzero(work.launch >= 0)
    launched[known] = runtime_call_kinds(trace)[work.launch[known]] == RuntimeCallKind.GRAPH_LAUNCH
    return launched | ((work.launch < 0) & (node > 0))


def node_ids(trace: Trace, work: Int32s) -> tuple[Int64s, Int64s]:
    """Graph and node that device work, given by row, replays: int64 [work] each, −1 where the trace does not say.

    Kineto writes the node's id with or without the graph's in its higher half.
    """
    node = arguments.integers(trace, "graph_node", work)
    graph = arguments.integers(trace, "graph", work)
    graph = np.where(graph > 0, graph, node >> NODE_BITS)  # 0 and 0: work that was launched by itself
    return np.where(graph > 0, graph, -1), np.where(node > 0, node & ((1 << NODE_BITS) - 1), -1)
