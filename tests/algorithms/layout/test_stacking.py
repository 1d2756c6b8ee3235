from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.layout.stacking import NO_LANE, stacked
from kinetoscope.algorithms.ordering import track_order

Rows = list[tuple[int, int, int]]
some_rows = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12), st.integers(0, 8)), max_size=16)


def lanes(rows: Rows, most: int, selected: list[bool] | None = None) -> tuple[list[int], list[int]]:
    """Of (track, start, length): the lane of each row, and the order in which they are taken."""
    table = np.array(rows, np.int64).reshape(-1, 3)
    start, end = table[:, 1], table[:, 1] + table[:, 2]
    chosen = None if selected is None else np.array(selected, np.bool_)
    order, offsets = track_order(table[:, 0].astype(np.int32), start, end, tracks=2, selected=chosen)
    return stacked(start, end, order, offsets, most=most).tolist(), order.tolist()


def overlap_partly(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    (track, low, length), (track_, low_, length_) = sorted((one, other), key=lambda row: (row[1], -row[2]))
    return track == track_ and low < low_ < low + length < low_ + length_


@given(some_rows, st.integers(1, 4))
def test_each_row_goes_to_the_first_lane_where_it_overlaps_nothing_partly(rows: Rows, most: int) -> None:
    found, order = lanes(rows, most)
    expected: dict[int, int] = {}
    for row in order:
        for lane in range(most):
            if not any(expected[other] == lane and overlap_partly(rows[other], rows[row]) for other in expected):
                break
        expected[row] = lane
    assert found == [expected[row] for row in range(len(rows))]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], []),
        ([(0, 0, 10), (0, 2, 3), (0, 5, 5), (0, 10, 1)], [0, 0, 0, 0]),  # inside, and one after another
        ([(0, 0, 10), (0, 5, 10), (0, 8, 10), (0, 20, 1)], [0, 1, 2, 0]),
        ([(0, 0, 10), (1, 5, 10)], [0, 0]),  # on two tracks
        ([(0, 0, 10), (0, 5, 0), (0, 10, 0)], [0, 0, 0]),  # instants
        ([(0, 0, 10), (0, 0, 5), (0, 0, 20)], [0, 0, 0]),  # the longest first
    ],
)
def test_lanes(rows: Rows, expected: list[int]) -> None:
    assert lanes(rows, 3)[0] == expected


def test_rows_that_take_no_part_are_in_no_lane_and_in_nobodys_way() -> None:
    rows = [(0, 0, 10), (0, 5, 10), (0, 8, 10)]
    assert lanes(rows, 3, [True, False, True])[0] == [0, NO_LANE, 1]
