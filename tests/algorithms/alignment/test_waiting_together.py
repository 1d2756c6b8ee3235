from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.alignment.waiting_together import (
    compared_ends,
    depart_closer_than_arrive,
    joined_by_waiting,
)


def waits(groups: list[int], last: list[list[int]]) -> NDArray[np.bool_]:
    """Who waits at each event, if the last of each group comes as given."""
    return np.array([[who != late[group] for who, group in enumerate(groups)] for late in last])


def joined(waited: NDArray[np.bool_]) -> list[int]:
    return list(joined_by_waiting(waited, ~waited))


def test_one_that_is_last_joins_all_who_wait() -> None:
    assert joined(waits([0, 0, 0], [[2]] * 2)) == [0, 0, 0]


def test_once_is_not_enough() -> None:
    assert joined(waits([0, 0, 0], [[2]])) == [0, 1, 2]


def test_two_groups_at_the_same_events_are_never_joined() -> None:
    draw = np.random.default_rng(1)
    last = [[int(draw.integers(0, 2)), int(draw.integers(2, 4))] for _ in range(500)]
    assert joined(waits([0, 0, 1, 1], last)) == [0, 1, 2, 3]


def test_those_joined_count_as_one() -> None:
    one = waits([0, 0, 0, 0], [[0]] * 2)
    one[:, 2:] = False  # of these nothing is known
    early = np.array([[False, False, True, True]] * 2)  # both wait, for one of the first two
    late = np.array([[True, True, False, False]] * 2)
    assert joined_by_waiting(np.concatenate([one, early]), np.concatenate([~one, late])).tolist() == [0, 1, 2, 3]
    only = np.array([[True, False, False, False]] * 2)
    assert joined_by_waiting(np.concatenate([one, early]), np.concatenate([only, late])).tolist() == [0, 0, 0, 0]


def test_ends_compare_whatever_the_clocks() -> None:
    draw = np.random.default_rng(2)
    time = np.cumsum(draw.integers(100_000, 900_000, 60)).astype(np.float64)
    jitter = draw.normal(0, 1_000, 60)
    end = np.stack([time, time * (1 + 2e-5) + 7_000_000 + jitter, np.full(60, np.nan)], axis=1)
    found = compared_ends(end, 0)
    assert 500 < found.jitter[1] < 2_000
    assert np.abs(found.residual[:, 1]).max() < 5_000
    assert np.isnan(found.offset[2])
    assert found.doubt == 0


def came_and_left(groups: list[int], seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ends and arrivals where the members of each group leave when the last of them has come."""
    draw = np.random.default_rng(seed)
    come = np.cumsum(np.full(60, 1e6))[:, None] + draw.normal(0, 20_000, (60, len(groups)))
    which = np.array(groups)
    left = np.stack([come[:, which == each].max(axis=1) for each in groups], axis=1)
    return left + draw.normal(0, 1_000, left.shape) + 30_000, come


def test_who_leaves_nearer_together_than_any_two_come_is_of_one_group() -> None:
    assert depart_closer_than_arrive(*came_and_left([0, 0, 0, 0], 1), 4.0)
    for seed in range(50):
        assert not depart_closer_than_arrive(*came_and_left([0, 0, 1, 1], seed), 2.0)


def test_where_two_do_the_same_at_once_it_tells_nothing() -> None:
    end, come = came_and_left([0, 0], 1)
    assert not depart_closer_than_arrive(np.repeat(end, 2, axis=1), np.repeat(come, 2, axis=1), 4.0)
    end, come = came_and_left([0, 0, 0], 1)
    assert not depart_closer_than_arrive(end[:5], come[:5], 4.0)  # of few events


def test_a_few_events_of_other_groups_are_found_if_all_are_asked_of() -> None:
    (end, come), (other, _) = came_and_left([0, 0, 0, 0], 1), came_and_left([0, 1, 2, 3], 1)
    end[::30] = other[::30]
    assert depart_closer_than_arrive(end, come, 4.0)
    assert not depart_closer_than_arrive(end, come, 4.0, 1.0)
