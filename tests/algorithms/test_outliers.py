from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kinetoscope.algorithms.outliers import excess

values = st.one_of(st.integers(0, 50).map(float), st.just(float("nan")))
tables = st.tuples(st.integers(1, 5), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=values)
)


@given(tables, st.lists(st.integers(0, 1), min_size=5, max_size=5))
def test_each_is_compared_with_the_median_of_the_others_of_its_kind(table: np.ndarray, kinds: list[int]) -> None:
    kind = np.array(kinds[: len(table)], np.int32)
    twin = np.full(table.shape, np.nan)
    for row, place in np.ndindex(*table.shape):
        others = [table[other, place] for other in range(len(table)) if other != row and kind[other] == kind[row]]
        known = [value for value in others if not np.isnan(value)]
        if known:
            twin[row, place] = table[row, place] - np.median(known)
    np.testing.assert_allclose(excess(table, kind, 1.0).each, twin)


def outliers(table: np.ndarray) -> list[int]:
    """Series that are above others beyond doubt."""
    above = excess(table, np.zeros(len(table), np.int32), 1.0)
    return np.flatnonzero((above.z_score > 5) & (above.level > 1)).tolist()


def test_what_is_above_for_good_is_found_among_noise_and_noise_is_not() -> None:
    random = np.random.default_rng(0)
    false = 0
    for _ in range(200):
        table = random.normal(100, 2, (8, 6))
        false += len(outliers(table))
        table[3] += 15
        assert outliers(table) == [3]
    assert false <= 1


def test_now_and_then_is_enough_once_is_not() -> None:
    table = np.random.default_rng(1).normal(100, 1, (4, 20))
    table[2, ::5] += 40
    assert outliers(table) == [2]
    table[2, 1:] = 100
    assert outliers(table) == []


def test_of_three_one_that_pauses_in_every_second_place_is_found() -> None:
    """The others are compared with each other, not with it: it would seem to be noise."""
    table = np.random.default_rng(2).normal(100, 0.5, (3, 4))
    table[1, 1::2] += 20
    assert outliers(table) == [1]


def test_what_takes_long_may_end_in_the_next_place() -> None:
    table = np.random.default_rng(3).normal(100, 0.5, (4, 6))
    table[0, 0] += 100
    table[0, 1] += 12
    assert outliers(table) == []


def test_accidents_of_all_make_nobody_stand_out() -> None:
    table = np.full((8, 20), 100.0)
    random = np.random.default_rng(4)
    for row in range(8):
        table[row, random.choice(20, 3, replace=False)] += 30
    table[5, random.choice(20, 4, replace=False)] = 130
    assert outliers(table) == []


def test_one_that_began_in_the_middle_is_found_beside_another() -> None:
    table = np.random.default_rng(5).normal(100, 1, (4, 10))
    table[1, 5:] += 20
    table[2] += 30
    assert outliers(table) == [1, 2]


def test_without_peers_or_places_nothing_is_known() -> None:
    alone = excess(np.full((1, 5), 3.0), np.zeros(1, np.int32), 1.0)
    assert np.isnan(alone.each).all()
    assert not (alone.z_score > 0).any()
    assert excess(np.zeros((0, 0)), np.zeros(0, np.int32), 1.0).each.shape == (0, 0)


def test_of_two_places_nothing_is_left_out() -> None:
    above = excess(np.array([[10.0, 12.0], [0.0, 0.0], [0.0, 0.0]]), np.zeros(3, np.int32), 1.0)
    assert above.level.tolist() == [11.0, -5.5, -5.5]
