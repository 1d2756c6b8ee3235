"""Rows for spans, against what their definition says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kinetoscope.algorithms.layout.packing import NO_ROW, by_number, packed
from kinetoscope.algorithms.ordering import track_order
from kinetoscope.algorithms.trees import tree

spans = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(-3, 30)), max_size=60)
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]


def drawn(
    items: list[tuple[int, int, int]], *, nested: bool, most: int
) -> tuple[Int64s, Int64s, Int32s, Int32s, Int32s]:
    """Start, end, track, parent and row of each."""
    track, start, length = (np.array([item[place] for item in items], np.int64) for place in range(3))
    tracks, end = track.astype(np.int32), start + length
    order, offsets = track_order(tracks, start, end, tracks=3)
    parent = np.full(len(items), NO_ROW, np.int32)
    if nested:
        parent, _, end, _ = tree.nest(start, end, order, offsets)
    return start, end, tracks, parent, packed(start, end, order, offsets, parent, most=most)


@given(spans, st.booleans())
def test_no_span_overlaps_another_of_its_row_and_each_lies_below_its_parent(
    items: list[tuple[int, int, int]], nested: bool
) -> None:
    start, end, track, parent, row = drawn(items, nested=nested, most=100)
    for a in range(len(items)):
        assert row[a] >= 0
        assert parent[a] < 0 or row[a] > row[parent[a]]
        for b in range(a):
            if (track[a], row[a]) == (track[b], row[b]):
                assert min(end[a], end[b]) <= max(start[a], start[b]), "two spans of a row overlap"


@given(spans)
def test_calls_that_nest_lie_at_their_depth(items: list[tuple[int, int, int]]) -> None:
    track, start, length = (np.array([item[place] for item in items], np.int64) for place in range(3))
    start, end = start - start % 8, start - start % 8 + np.maximum(length // 4, 0)  # they nest, or lie apart
    order, offsets = track_order(track.astype(np.int32), start, end, tracks=3)
    parent, depth, _, partial = tree.nest(start, end, order, offsets)
    if partial == 0:
        assert packed(start, end, order, offsets, parent, most=100).tolist() == depth.tolist()


def test_the_last_row_takes_what_finds_no_other_free() -> None:
    *_, row = drawn([(0, time, 20) for time in range(5)], nested=False, most=3)
    assert row.tolist() == [0, 1, 2, 2, 2]


def test_spans_that_are_left_out_have_no_row() -> None:
    start = np.zeros(3, np.int64)
    order, offsets = np.array([1], np.int32), np.array([0, 1])
    assert packed(start, start, order, offsets, np.full(3, -1, np.int32), most=4).tolist() == [-1, 0, -1]


@given(st.lists(st.integers(0, 5), max_size=50))
def test_by_number_is_a_stable_sort(numbers: list[int]) -> None:
    order = np.arange(len(numbers), dtype=np.int32)[::-1].copy()
    result, offsets = by_number(np.array(numbers, np.int32), order, 6)
    assert result.tolist() == sorted(order.tolist(), key=lambda item: numbers[item])
    assert np.diff(offsets).tolist() == [numbers.count(each) for each in range(6)]


def test_a_number_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="item 1 has number 7"):
        by_number(np.array([0, 7], np.int32), np.arange(2, dtype=np.int32), 3)
