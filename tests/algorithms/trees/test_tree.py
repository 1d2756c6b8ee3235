from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.ordering import track_order
from kinetoscope.algorithms.trees.tree import NO_ROW, Cut, ancestor, children_sum, enclosing, nest, subtree_sum

FIRST, LAST = -(2**63), 2**63 - 1

Rows = list[tuple[int, int, int]]
some_rows = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12), st.integers(-2, 8)), max_size=16)


class Tree(NamedTuple):
    start: Int64s
    end: Int64s
    order: Int32s
    offsets: Int64s
    parent: Int32s
    depth: Int32s
    until: Int64s
    partial: int

    def tracks(self) -> list[list[int]]:
        order, bounds = self.order.tolist(), self.offsets.tolist()
        return [order[low:high] for low, high in pairwise(bounds)]

    def path(self, row: int) -> list[int]:
        """The row, its parent, and so on."""
        return [row, *self.path(int(self.parent[row]))] if row != NO_ROW else []


def tree(rows: Rows, cut: Cut = Cut.SHORTER) -> Tree:
    """Of (track, start, length)."""
    table = np.array(rows, np.int64).reshape(-1, 3)
    start, end = table[:, 1], table[:, 1] + table[:, 2]
    order, offsets = track_order(table[:, 0].astype(np.int32), start, end, tracks=2)
    return Tree(start, end, order, offsets, *nest(start, end, order, offsets, cut=cut))


@given(some_rows, st.sampled_from(Cut))
def test_nest(rows: Rows, cut: Cut) -> None:
    """Row by row, each against the open rows that it begins in, the innermost first."""
    found = tree(rows, cut)
    start, end = found.start.tolist(), found.end.tolist()
    until, partial = list(end), 0
    for track in found.tracks():
        for place, row in enumerate(track):
            still_open = [above for above in reversed(track[:place]) if until[above] > start[row]]
            partial += bool(still_open) and end[row] > end[still_open[0]]
            while still_open and (outside := end[row] - end[still_open[0]]) > 0:
                if cut == Cut.LATER or (cut == Cut.SHORTER and outside <= end[still_open[0]] - start[row]):
                    break
                until[still_open.pop(0)] = start[row]
            if still_open:
                until[row] = min(until[row], until[still_open[0]])
            assert found.parent[row] == (still_open[0] if still_open else NO_ROW)
            assert found.depth[row] == len(still_open)
    assert (found.until.tolist(), found.partial) == (until, partial)


@given(some_rows)
def test_rows_that_nest_are_in_the_smallest_around_them_and_nothing_is_cut(rows: Rows) -> None:
    found = tree(rows)
    before = {row: track[:place] for track in found.tracks() for place, row in enumerate(track)}
    span = {row: (int(found.start[row]), max(int(found.start[row]), int(found.end[row]))) for row in before}
    if any(span[above][1] > span[row][0] and span[row][1] > span[above][1] for row in before for above in before[row]):
        assert found.partial
        return
    assert (found.until.tolist(), found.partial) == (found.end.tolist(), 0)
    for row, others in before.items():
        around = [above for above in others if span[above][1] > span[row][0]]
        assert found.parent[row] == (around[-1] if around else NO_ROW)


@given(some_rows, st.data())
def test_sums_and_ancestors(rows: Rows, data: st.DataObject) -> None:
    found = tree(rows)
    count = len(rows)
    values = data.draw(st.lists(st.integers(-100, 100), min_size=count, max_size=count))
    wanted = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    direct, total = [0] * count, [0] * count
    for row in range(count):
        for step, above in enumerate(found.path(row)):
            direct[above] += values[row] if step == 1 else 0
            total[above] += values[row]
    given_values = np.array(values, np.int64)
    assert children_sum(given_values, found.parent).tolist() == direct
    assert subtree_sum(given_values, found.parent, found.order).tolist() == total
    assert given_values.tolist() == values
    nearest = [next((above for above in found.path(row) if wanted[above]), NO_ROW) for row in range(count)]
    assert ancestor(found.parent, np.array(wanted, np.bool_)).tolist() == nearest


@given(some_rows)
def test_enclosing_is_the_last_row_that_runs(rows: Rows) -> None:
    found = tree(rows)
    queries = [(track, time) for track in (-1, 0, 1, 2) for time in range(-1, 22)]
    expected = []
    for track, time in queries:
        on_track = found.tracks()[track] if track in (0, 1) else []
        running = [row for row in on_track if found.start[row] <= time < found.until[row]]
        expected.append(running[-1] if running else NO_ROW)
    tracks, times = np.array(queries, np.int64).T
    places = tracks.astype(np.int32)
    answer = enclosing(found.order, found.offsets, found.start, found.until, found.parent, places, times)
    assert answer.tolist() == expected


def test_rows_that_are_not_in_the_order_stand_alone() -> None:
    start, end = np.array([0, 1, 2]), np.array([9, 8, 7])
    parent, depth, _, _ = nest(start, end, np.array([0, 2], np.int32), np.array([0, 2]))
    assert (parent.tolist(), depth.tolist()) == ([NO_ROW, NO_ROW, 0], [0, -1, 1])


def test_a_row_that_ends_late_takes_nothing_from_those_around_it() -> None:
    found = tree([(0, 0, 100), (0, 10, 91), (0, 20, 70), (0, 30, 10)])
    assert found.parent.tolist() == [NO_ROW, 0, 1, 2]
    assert (found.until.tolist(), found.partial) == ([100, 100, 90, 40], 1)


def test_a_row_that_opens_a_long_one_ends_where_that_begins() -> None:
    found = tree([(0, 0, 10), (0, 8, 90), (0, 9, 3), (0, 20, 5)])
    assert found.parent.tolist() == [NO_ROW, NO_ROW, 1, 1]
    assert (found.until.tolist(), found.partial) == ([8, 98, 12, 25], 1)


def test_either_piece_may_be_the_one_to_cut() -> None:
    rows = [(0, 0, 10), (0, 5, 10), (0, 6, 2)]
    assert tree(rows, Cut.LATER).parent.tolist() == [NO_ROW, 0, 1]
    assert tree(rows, Cut.EARLIER).parent.tolist() == [NO_ROW, NO_ROW, 1]


def test_half_inside_is_inside() -> None:
    assert tree([(0, 0, 10), (0, 5, 10)]).parent.tolist() == [NO_ROW, 0]
    assert tree([(0, 0, 10), (0, 5, 11)]).parent.tolist() == [NO_ROW, NO_ROW]


def test_a_hundred_thousand_rows_in_each_other() -> None:
    rows = 100_000
    start = np.arange(rows)
    end = 2 * rows - start
    order, offsets = track_order(np.zeros(rows, np.int32), start, end, tracks=1)
    parent, depth, _, partial = nest(start, end, order, offsets)
    assert np.array_equal(depth, start)
    assert partial == 0
    assert np.array_equal(subtree_sum(np.ones(rows, np.int64), parent, order), rows - start)
    assert np.array_equal(ancestor(parent, start == 0), np.zeros(rows))


def test_ends_of_time() -> None:
    start, end = np.array([FIRST, FIRST, 0, LAST]), np.array([LAST, 0, LAST, FIRST])
    order, offsets = track_order(np.zeros(4, np.int32), start, end, tracks=1)
    parent, _, _, partial = nest(start, end, order, offsets)
    assert (parent.tolist(), partial) == ([NO_ROW, 0, 0, NO_ROW], 0)


def test_lengths_must_agree() -> None:
    parent, values = np.array([NO_ROW], np.int32), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="rows"):
        children_sum(values, parent)
    with pytest.raises(ValueError, match="rows"):
        subtree_sum(values, parent, parent)
    with pytest.raises(ValueError, match="rows"):
        ancestor(parent, values == 0)
