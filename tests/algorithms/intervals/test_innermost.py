from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms import ordering
from kinetoscope.algorithms.intervals import innermost
from kinetoscope.algorithms.trees import tree

rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(-1, 8)), max_size=14)


def arrays(drawn: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    track = np.array([each[0] for each in drawn], np.int32)
    start = np.array([each[1] for each in drawn], np.int64)
    end = start + np.array([each[2] for each in drawn], np.int64)
    return (*ordering.track_order(track, start, end, tracks=3), start, end)


@given(rows)
def test_it_is_what_runs_on_the_track_at_each_instant(drawn: list[tuple[int, int, int]]) -> None:
    order, offsets, start, end = arrays(drawn)
    parent, _, end, _ = tree.nest(start, end, order, offsets)
    found = innermost.stretches(start, end, order, offsets)
    track, time = np.repeat(np.arange(3, dtype=np.int32), 23), np.tile(np.arange(-1, 22, dtype=np.int64), 3)
    place = innermost.at(found, track, time)
    row = np.where(place >= 0, found.row[place], tree.NO_ROW) if len(found.row) else np.full(len(place), tree.NO_ROW)
    assert row.tolist() == tree.enclosing(order, offsets, start, end, parent, track, time).tolist()


@given(rows)
def test_stretches_of_a_track_follow_one_another(drawn: list[tuple[int, int, int]]) -> None:
    order, offsets, start, end = arrays(drawn)
    found = innermost.stretches(start, end, order, offsets)
    for low, high in zip(found.offsets[:-1], found.offsets[1:], strict=True):
        assert (np.diff(found.time[low:high]) > 0).all()
        assert found.row[high - 1] == tree.NO_ROW if high > low else True
    assert len(found.time) <= 2 * len(drawn)


def test_a_call_that_is_overlapped_ends_where_the_other_begins() -> None:
    order, offsets, start, end = arrays([(0, 0, 6), (0, 2, 8)])
    found = innermost.stretches(start, end, order, offsets)
    assert found.time.tolist() == [0, 2, 10]
    assert found.row.tolist() == [0, 1, -1]
