"""The nodes of a capture that the work of a replay is, if it is what the capture recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, rows_of
from kinetoscope.model.graphs.captures import UNKNOWN_TEXT, CapturedGraph, Nodes
from kinetoscope.model.trace.event_kinds import EventKind


class NodesOfWork(NamedTuple):
    """The nodes of a capture that some work is.

    Attributes:
        node: int32 [work], the node that each piece is a run of, −1 for none.
        same: bool [work], the kernel has the name, or the grid and block, of the node.
    """

    node: Int32s
    same: Bools


def fit(work: Nodes, stream: Int64s, graph: CapturedGraph) -> NodesOfWork | None:
    """The nodes of a capture that some work is; None where it is not that of the capture.

    The i-th piece is the i-th node: as many, of the same kinds in the same order, with the same kernels where the
    capture states them. Work of several streams that is not in the order of the capture is told by kernel instead: the
    k-th piece with a kernel is the k-th node with it, in the order of the capture on each stream. Copies and sets that
    only one of the two records are left out. Two streams that run the same kernels without ids of nodes may be taken
    for one another.

    Args:
        work: in the order of the ids of its nodes, else of its start.
        stream: int64 [work], that each piece ran on.
        graph: the capture.
    """
    if len(work) == len(graph.nodes):
        return _in_order(work, graph) or _by_kernel(work, stream, graph)
    kernels, nodes = work.event == EventKind.KERNEL, graph.nodes.event == EventKind.KERNEL
    if kernels.sum() != nodes.sum() or (kernels.all() and nodes.all()) or not kernels.any():
        return None
    only = _part(graph, nodes)
    matched = _in_order(rows_of(work, kernels), only) or _by_kernel(rows_of(work, kernels), stream[kernels], only)
    if matched is None:
        return None
    node, same = np.full(len(work), -1, np.int32), np.zeros(len(work), np.bool_)
    node[kernels], same[kernels] = np.flatnonzero(nodes)[matched.node], matched.same
    return NodesOfWork(node, same)


def untold_part(work: Nodes, graph: CapturedGraph) -> NodesOfWork | None:
    """Some work that may be a part of that of a capture, of no known nodes; None where it has more of some kernel."""
    if len(work) >= len(graph.nodes):
        return None
    keys = [
        each.event.astype(np.int64) if not graph.is_stated.all() else each.name ^ each.event
        for each in (work, graph.nodes)
    ]
    unique, counts = np.unique(keys[0], return_counts=True)
    if any(int((keys[1] == key).sum()) < count for key, count in zip(unique.tolist(), counts.tolist(), strict=True)):
        return None
    return NodesOfWork(np.full(len(work), -1, np.int32), np.zeros(len(work), np.bool_))


def _in_order(work: Nodes, graph: CapturedGraph) -> NodesOfWork | None:
    nodes, is_stated = graph.nodes, graph.is_stated
    same = (nodes.event == work.event) & ((nodes.name == work.name) | ~is_stated)
    return _checked(work, nodes, is_stated, np.arange(len(work), dtype=np.int32)) if same.all() else None


def _by_kernel(work: Nodes, stream: Int64s, graph: CapturedGraph) -> NodesOfWork | None:
    nodes = graph.nodes
    several = len(stream) > 0 and bool((stream != stream[0]).any())
    if not several or len(work) != len(nodes) or (nodes.name[nodes.event == EventKind.KERNEL] == UNKNOWN_TEXT).any():
        return None
    orders = [np.lexsort((np.arange(len(each)), each.name, each.event)) for each in (work, nodes)]
    if any((ours[orders[0]] != theirs[orders[1]]).any() for ours, theirs in _fields(work, nodes)):
        return None
    node = np.empty(len(work), np.int32)
    node[orders[0]] = orders[1]
    by_stream = np.argsort(stream, kind="stable")
    back = (np.diff(node[by_stream]) < 0) & (np.diff(stream[by_stream]) == 0)
    return None if back.any() else _checked(work, rows_of(nodes, node), graph.is_stated[node], node)


def _fields(work: Nodes, nodes: Nodes) -> list[tuple[Int64s, Int64s]]:
    return [(work.event.astype(np.int64), nodes.event.astype(np.int64)), (work.name, nodes.name)]


def _checked(work: Nodes, nodes: Nodes, is_stated: Bools, node: Int32s) -> NodesOfWork | None:
    """The fit, unless most kernels differ of those that only a run before the capture names."""
    named = nodes.name != UNKNOWN_TEXT
    same = named & (nodes.name == work.name)
    inferred = named & ~is_stated
    if 2 * int((same & inferred).sum()) < int(inferred.sum()):
        return None
    shaped = (nodes.shape != UNKNOWN_TEXT) & (nodes.shape == work.shape)
    return NodesOfWork(node, same | shaped)


def _part(graph: CapturedGraph, chosen: Bools) -> CapturedGraph:
    return replace(graph, nodes=rows_of(graph.nodes, chosen), is_stated=graph.is_stated[chosen])
