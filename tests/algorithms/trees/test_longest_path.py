from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.trees.longest_path import NO_EDGE, Edges, fit, longest, paths

Drawn = tuple[list[int], list[tuple[int, int, int]]]


@st.composite
def schedules(draw: st.DrawFn) -> Drawn:
    """Times in order, and edges between them that need no more than the time between their ends."""
    times = sorted(draw(st.lists(st.integers(0, 20), min_size=1, max_size=9)))
    ends = st.integers(0, len(times) - 1)
    pairs = {(a, b) for a, b in draw(st.lists(st.tuples(ends, ends), max_size=16)) if a < b}
    return times, [(a, b, draw(st.integers(0, times[b] - times[a]))) for a, b in sorted(pairs)]


def made(drawn: Drawn) -> tuple[np.ndarray, Edges]:
    times, edges = drawn
    edges = sorted(edges, key=lambda edge: edge[1])
    offsets = np.searchsorted([edge[1] for edge in edges], np.arange(len(times) + 1)).astype(np.int64)
    source = np.array([edge[0] for edge in edges], np.int32)
    return np.array(times, np.int64), Edges(offsets, source, np.array([edge[2] for edge in edges], np.int64))


def slow(release: np.ndarray, edges: Edges) -> list[int]:
    """The longest path to each node, from one edge to the next."""

    @cache
    def arrival(node: int) -> int:
        into = range(edges.offsets[node], edges.offsets[node + 1])
        return max((arrival(int(edges.source[e])) + int(edges.weight[e]) for e in into), default=int(release[node]))

    return [arrival(node) for node in range(len(release))]


@given(schedules())
def test_fitted_weights_give_the_times_back(drawn: Drawn) -> None:
    time, edges = made(drawn)
    weight, last = fit(time, edges)
    assert (weight >= edges.weight).all()
    assert longest(time, edges._replace(weight=weight)).tolist() == time.tolist()
    for node, edge in enumerate(last.tolist()):
        arrivals = time[edges.source] + edges.weight
        into = slice(edges.offsets[node], edges.offsets[node + 1])
        assert (edge == NO_EDGE) == (into.start == into.stop)
        assert edge == NO_EDGE or arrivals[edge] == arrivals[into].max()


@given(schedules(), st.lists(st.integers(0, 9), min_size=40, max_size=40))
def test_it_is_the_longest_path_with_any_weights(drawn: Drawn, weights: list[int]) -> None:
    time, edges = made(drawn)
    edges = edges._replace(weight=np.array(weights[: len(edges.source)], np.int64))
    assert longest(time, edges).tolist() == slow(time, edges)


@given(schedules(), st.integers(-1, 20))
def test_a_path_goes_back_without_a_gap(drawn: Drawn, until: int) -> None:
    time, edges = made(drawn)
    _, last = fit(time, edges)
    nodes = np.arange(-1, len(time), dtype=np.int64)
    found, offsets = paths(time, edges, last, nodes, np.full(len(nodes), until))
    target = np.repeat(np.arange(len(time)), np.diff(edges.offsets))
    for node, low, high in zip(nodes.tolist(), offsets[:-1], offsets[1:], strict=True):
        chain = found[low:high]
        if node < 0 or time[node] <= until:
            assert not len(chain)
            continue
        assert edges.source[chain[1:]].tolist() == target[chain[:-1]].tolist()
        begin = edges.source[chain[0]] if len(chain) else node
        assert not len(chain) or target[chain[-1]] == node
        assert time[begin] <= until or last[begin] == NO_EDGE
        assert (time[edges.source[chain[1:]]] > until).all()


def test_an_edge_longer_than_the_time_between_its_ends_is_refused() -> None:
    time, edges = made(([0, 5], [(0, 1, 6)]))
    with pytest.raises(ValueError, match="edge 0 does not fit"):
        fit(time, edges)


def test_an_edge_backwards_is_refused() -> None:
    edges = Edges(np.array([0, 1, 1], np.int64), np.array([1], np.int32), np.array([0], np.int64))
    with pytest.raises(ValueError, match="from lower to higher"):
        longest(np.array([0, 0], np.int64), edges)
