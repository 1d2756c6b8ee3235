from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.deferred_waiting import DeferredWaiting, Rows, deferred_waiting


def deferred(*rows: tuple[int, int, int, int, int], stream: tuple[int, ...] = ()) -> DeferredWaiting:
    """Rows of start, ready, end, hidden waiting, exposed transfer."""
    start, ready, end, hidden, exposed = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    streams = np.array(stream or (0,) * len(rows), np.int64)
    return deferred_waiting(Rows(streams, end, ready, hidden, np.zeros_like(end), exposed), start)


def test_waiting_costs_the_transfer_that_ends_after_the_computation() -> None:
    """It waits for 20 while it computes; the next, which was ready, ends 15 after the computation."""
    found = deferred((10, 10, 40, 20, 0), (40, 15, 60, 0, 15))
    assert found.cost.tolist() == [15, 0]
    assert found.put_off.tolist() == [0, 15]


def test_what_was_not_ready_sooner_was_put_off_by_nobody() -> None:
    assert deferred((10, 10, 40, 20, 0), (40, 38, 60, 0, 15)).cost.tolist() == [2, 0]
    assert deferred((10, 10, 40, 20, 0), (50, 50, 60, 0, 15)).cost.tolist() == [0, 0]


def test_the_latest_waiting_is_charged_first() -> None:
    assert deferred((10, 10, 40, 20, 0), (40, 15, 60, 5, 0), (60, 15, 80, 0, 15)).cost.tolist() == [10, 5, 0]


def test_what_has_cost_already_costs_no_more() -> None:
    """It stood still for 15 in the second, and since then; the third is no later than that."""
    assert deferred((10, 10, 40, 20, 0), (40, 15, 60, 0, 15), (60, 45, 80, 0, 20)).cost.tolist() == [15, 0, 0]


def test_streams_do_not_delay_each_other() -> None:
    assert deferred((10, 10, 40, 20, 0), (40, 15, 60, 0, 15), stream=(0, 1)).cost.tolist() == [0, 0]


_ROW = st.tuples(*[st.integers(0, 50)] * 4, st.integers(0, 2))


@given(st.lists(_ROW, max_size=12))
def test_all_that_is_put_off_is_charged_to_hidden_waiting_once(drawn: list[tuple[int, int, int, int, int]]) -> None:
    clock, rows = 0, list[tuple[int, int, int, int, int]]()
    for gap, queued, hidden, exposed, _ in drawn:
        start = clock + gap
        clock = start + hidden + exposed
        rows.append((start, max(start - queued, rows[-1][1] if rows else 0), clock, hidden, exposed))
    if not rows:
        return
    streams = tuple(each[4] for each in drawn)
    found = deferred(*rows, stream=streams)
    assert (found.cost >= 0).all()
    assert (found.cost <= [each[3] for each in rows]).all()
    assert (found.put_off <= [each[4] for each in rows]).all()
    for stream in set(streams):
        mine = np.array(streams) == stream
        assert found.cost[mine].sum() == found.put_off[mine].sum()


def test_lengths_are_checked() -> None:
    with pytest.raises(ValueError, match="expected 2 rows"):
        deferred_waiting(Rows(*[np.zeros(1, np.int64)] * 6), np.zeros(2, np.int64))
