from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.replayed_waiting import Schedule, sooner_without

TRANSFER = 5


def played(own: Sequence[Sequence[int]]) -> tuple[Schedule, Int64s, list[int]]:
    """Ranks that all compute, meet, and go on; `own` by collective and rank. And when each is done."""
    ranks = len(own[0])
    clock, starts, ends = [0] * ranks, list[int](), list[int]()
    begin = []
    for work in own:
        start = [time + more for time, more in zip(clock, work, strict=True)]
        begin.append(max(start))
        clock = [max(start) + TRANSFER] * ranks
        starts, ends = starts + start, ends + clock
    first, last = np.array(starts, np.int64), np.array(ends, np.int64)
    match, rank = np.divmod(np.arange(len(starts)), ranks)
    schedule = Schedule(match.astype(np.int32), rank.astype(np.int32), rank, first, last, first, last - first)
    return schedule, np.array(begin, np.int64), clock


_OWN = st.integers(2, 4).flatmap(
    lambda ranks: st.lists(st.lists(st.integers(0, 20), min_size=ranks, max_size=ranks), min_size=1, max_size=8)
)


@given(_OWN)
def test_without_a_rank_the_others_end_when_they_would_alone(own: list[list[int]]) -> None:
    schedule, begin, end = played(own)
    sooner = sooner_without(schedule, begin, schedule.history == 0)
    _, _, alone = played([each[1:] for each in own])
    for rank in range(1, len(own[0])):
        assert end[rank] - sooner[schedule.history == rank].sum() == alone[rank - 1]


@given(_OWN)
def test_where_all_are_waited_for_nothing_changes(own: list[list[int]]) -> None:
    schedule, begin, _ = played(own)
    assert not sooner_without(schedule, begin, np.zeros(len(schedule.match), np.bool_)).any()


def test_a_stream_that_is_free_sooner_lets_the_next_begin_sooner() -> None:
    """Rank 1 is late for 40 in the first; rank 0 computes meanwhile, and stands still for the second alone."""
    schedule = Schedule(
        match=np.array([0, 1, 0, 1], np.int32),
        history=np.array([0, 0, 1, 1], np.int32),
        stream=np.array([0, 0, 1, 1]),
        start=np.array([10, 60, 50, 60]),
        end=np.array([60, 90, 60, 90]),
        ready=np.array([10, 30, 50, 55]),
        still=np.array([0, 25, 0, 20]),
    )
    sooner = sooner_without(schedule, np.array([50, 60]), np.array([False, False, True, True]))
    assert sooner[:2].tolist() == [0, 25]


def test_lengths_are_checked() -> None:
    with pytest.raises(ValueError, match="expected 3 rows"):
        sooner_without(played([[0, 0]])[0], np.zeros(1, np.int64), np.zeros(3, np.bool_))
