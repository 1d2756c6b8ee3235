"""Longest paths in a schedule: a graph without cycles whose nodes are instants that were measured.

An edge says that its target cannot come sooner than `weight` after its source. The nodes are numbered so that edges run
from lower to higher numbers, and the edges into node n are `offsets[n]` to `offsets[n + 1]`. All is linear in nodes and
edges.

Weights are first no more than what is known to be needed. `fit` then gives what remains of the time before each node to
the edge that arrives last, so that `longest` gives back the times that were measured, to the nanosecond. With other
weights it says when each node would come then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s, require_rows
from kinetoscope.algorithms.compiled import compiled, frozen

NO_EDGE = -1


class Edges(NamedTuple):
    """Edges by target: int64 [nodes + 1] offsets, int32 [edges] sources, int64 [edges] weights."""

    offsets: Int64s
    source: Int32s
    weight: Int64s


def fit(time: Int64s, edges: Edges) -> tuple[Int64s, Int32s]:
    """Weights that explain the measured times, and which edge arrives last at each node.

    Args:
        time: int64 [nodes], when each node came; an edge's source comes at its target's time or before.
        edges: their weights are lower bounds, none longer than the time between its ends.

    Returns:
        int64 [edges], the weights: of edges that arrive last all the time between their ends, of others as given. And
        int32 [nodes], the edge that arrives last, NO_EDGE where none does; of several the first.

    Raises:
        ValueError: an edge does not run from a lower to a higher number, or is longer than the time between its ends.
    """
    _require(time.size, edges)
    weight = np.array(edges.weight, np.int64)
    last = np.empty(time.size, np.int32)
    bad = _fit(frozen(time, np.int64), frozen(edges.offsets, np.int64), frozen(edges.source, np.int32), weight, last)
    if bad >= 0:
        raise ValueError(f"edge {bad} does not fit the times of its ends")
    return weight, last


def longest(release: Int64s, edges: Edges) -> Int64s:
    """When each node comes, if it waits for all edges into it: int64 [nodes].

    A node without edges comes at its time in `release`, int64 [nodes]; that of others does not matter.
    """
    _require(release.size, edges)
    time = np.array(release, np.int64)
    _propagate(frozen(edges.offsets, np.int64), frozen(edges.source, np.int32), frozen(edges.weight, np.int64), time)
    return time


def paths(time: Int64s, edges: Edges, last: Int32s, ends: Int64s, until: Int64s) -> tuple[Int64s, Int64s]:
    """The chains of edges that arrive last, from each of some nodes back to a time.

    Args:
        time: int64 [nodes], as for `fit`.
        edges: their sources count, their weights do not.
        last: int32 [nodes], as from `fit`.
        ends: int64 [paths], the node that each path ends in; a negative one makes an empty path.
        until: int64 [paths], when it begins: the first edge is the one that reaches over this time, unless a node
            without edges comes sooner.

    Returns:
        int64 [edges on them], the edges in order of time; and int64 [paths + 1], where each path begins.
    """
    require_rows(ends.size, ends=ends, until=until)
    if ends.size and (ends.max() >= time.size):
        raise ValueError(f"node {ends.max()} is out of range: there are {time.size}")
    offsets = np.zeros(ends.size + 1, np.int64)
    inputs = (
        frozen(time, np.int64),
        frozen(edges.source, np.int32),
        frozen(last, np.int32),
        frozen(ends, np.int64),
        frozen(until, np.int64),
    )
    _walk(*inputs, offsets, np.empty(0, np.int64), True)
    edges_of_paths = np.empty(int(offsets[-1]), np.int64)
    _walk(*inputs, offsets, edges_of_paths, False)
    return edges_of_paths, offsets


def _require(nodes: int, edges: Edges) -> None:
    require_rows(nodes + 1, offsets=edges.offsets)
    require_rows(int(edges.offsets[-1]), source=edges.source, weight=edges.weight)
    targets = np.repeat(np.arange(nodes), np.diff(edges.offsets))
    if edges.source.size and ((edges.source >= targets).any() or edges.source.min() < 0):
        raise ValueError("edges must run from lower to higher numbers of nodes")


@compiled
def _fit(time: Int64s, offsets: Int64s, source: Int32s, weight: Int64s, last: Int32s) -> int:
    for node in range(time.size):
        best = NO_EDGE
        latest = 0
        for edge in range(offsets[node], offsets[node + 1]):
            arrival = time[source[edge]] + weight[edge]
            if arrival > time[node]:
                return edge
            if best == NO_EDGE or arrival > latest:
                best = edge
                latest = arrival
        last[node] = best
        if best != NO_EDGE:
            weight[best] = time[node] - time[source[best]]
    return -1


@compiled
def _propagate(offsets: Int64s, source: Int32s, weight: Int64s, time: Int64s) -> None:
    for node in range(time.size):
        for edge in range(offsets[node], offsets[node + 1]):
            arrival = time[source[edge]] + weight[edge]
            if edge == offsets[node] or arrival > time[node]:
                time[node] = arrival


@compiled
def _walk(
    time: Int64s,
    source: Int32s,
    last: Int32s,
    ends: Int64s,
    until: Int64s,
    offsets: Int64s,
    edges_of_paths: Int64s,
    counting: bool,
) -> None:
    """First counts the edges of each path, then writes them, from the end of its room on."""
    for path in range(ends.size):
        node = ends[path]
        count = 0
        while node >= 0 and time[node] > until[path] and last[node] != NO_EDGE:
            count += 1
            if not counting:
                edges_of_paths[offsets[path + 1] - count] = last[node]
            node = source[last[node]]
        if counting:
            offsets[path + 1] = offsets[path] + count
