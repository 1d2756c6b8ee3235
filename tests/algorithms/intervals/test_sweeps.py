from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.intervals.sweeps import (
    Levels,
    count_open,
    greatest,
    integrals,
    level_statistics,
    overlaps,
    sum_open,
    time_at_least,
)

GROUPS, FIRST, LAST = 3, -4, 16

Drawn = list[tuple[int, int, int, float]]
"""Group, start, length, weight."""

WEIGHTS = st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0, 1e-9, 934.25, 1e12])
DRAWN = st.lists(st.tuples(st.integers(0, GROUPS - 1), st.integers(FIRST, 9), st.integers(-2, 6), WEIGHTS), max_size=14)


def columns(drawn: Drawn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    group = np.array([row[0] for row in drawn], np.int32)
    start = np.array([row[1] for row in drawn], np.int64)
    length = np.array([row[2] for row in drawn], np.int64)
    return group, start, start + length, np.array([row[3] for row in drawn], np.float64)


def at(curve: Levels, group: int, time: int) -> float:
    """The level of a group at a time, read from the points."""
    before = [k for k in range(curve.time.size) if curve.group[k] == group and curve.time[k] <= time]
    return curve.level[before[-1]] if before else 0


def weights_at(drawn: Drawn, group: int, time: int) -> list[float]:
    return [weight for each, start, length, weight in drawn if each == group and start <= time < start + length]


def is_proper(curve: Levels) -> None:
    points = list(zip(curve.group.tolist(), curve.time.tolist(), strict=True))
    assert points == sorted(set(points))
    previous = dict.fromkeys(range(GROUPS), 0.0)
    for (group, _), level in zip(points, curve.level.tolist(), strict=True):
        assert level != previous[group], "each point changes the level"
        previous[group] = level
    assert set(previous.values()) <= {0.0}, "and the last one is 0"


@given(DRAWN)
def test_counts_are_those_of_each_instant(drawn: Drawn) -> None:
    group, start, end, _ = columns(drawn)
    curve = count_open(group, start, end)
    is_proper(curve)
    counts = [[len(weights_at(drawn, each, time)) for time in range(FIRST, LAST)] for each in range(GROUPS)]
    for each in range(GROUPS):
        assert [at(curve, each, time) for time in range(FIRST, LAST)] == counts[each]
    assert greatest(curve, GROUPS).tolist() == [max(each) for each in counts]
    for limit in (1, 2):
        assert time_at_least(curve, GROUPS, limit).tolist() == [sum(k >= limit for k in each) for each in counts]


@given(DRAWN, st.lists(st.integers(0, 5), min_size=GROUPS, max_size=GROUPS), st.sampled_from([-1, 0]))
def test_statistics_are_those_of_each_instant(drawn: Drawn, outside: list[int], above: int) -> None:
    group, start, end, _ = columns(drawn)
    curve = count_open(group, start, end)
    found = level_statistics(curve, GROUPS, np.array(outside, np.int64), above=above)
    for each in range(GROUPS):
        points = curve.time[curve.group == each]
        instants = range(int(points[0]), int(points[-1])) if len(points) else ()
        levels = sorted([0] * outside[each] + [len(weights_at(drawn, each, time)) for time in instants])
        levels = [level for level in levels if level > above]
        quartiles = [levels[-(-len(levels) * quarters // 4) - 1] if levels else 0 for quarters in (1, 2, 3)]
        assert [found.lower[each], found.median[each], found.upper[each]] == quartiles
        assert found.least[each] == min(levels, default=0)
        assert found.deviation[each] == pytest.approx(np.std(levels) if levels else 0)


@given(DRAWN, st.randoms(use_true_random=False))
def test_sums_are_exact_to_their_grain_and_know_no_order(drawn: Drawn, random: object) -> None:
    group, start, end, weight = columns(drawn)
    curve = sum_open(group, start, end, weight)
    is_proper(curve)
    largest = max((row[3] for row in drawn), default=0.0)
    for each in range(GROUPS):
        for time in range(FIRST, LAST):
            exact = sum(map(Fraction, weights_at(drawn, each, time)), Fraction(0))
            grain = Fraction(largest) * len(drawn) ** 2 * Fraction(1, 1 << 60)
            assert abs(Fraction(at(curve, each, time)) - exact) <= grain + exact * Fraction(1, 1 << 52)
    shuffled = list(drawn)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    group, start, end, weight = columns(shuffled)
    again = sum_open(group, start, end, weight)
    assert np.array_equal(curve.group, again.group)
    assert np.array_equal(curve.time, again.time)
    assert np.array_equal(curve.level, again.level)


def test_nothing_is_left_when_all_have_closed() -> None:
    # In float64 0.1 + 0.7 − 0.1 − 0.7 is not 0, and 934.0 + 1e-3 − 934.0 is 1e-3 to 11 digits.
    zeros = np.zeros(3, np.int32)
    curve = sum_open(zeros[:2], np.array([0, 1]), np.array([2, 3]), np.array([0.1, 0.7]))
    assert curve.time.tolist() == [0, 1, 2, 3]
    assert curve.level[[0, 2, 3]].tolist() == [0.1, 0.7, 0.0]
    curve = sum_open(zeros[:2], np.array([0, 1]), np.array([2, 3]), np.array([934.0, 1e-3]))
    assert curve.level[[0, 1, 3]].tolist() == [934.0, 934.001, 0.0]
    assert curve.level[2] == pytest.approx(1e-3, rel=1e-12)


def test_weights_may_be_huge_and_many() -> None:
    many = 1000
    group = np.zeros(many, np.int32)
    start = np.zeros(many, np.int64)
    curve = sum_open(group, start, start + 5, np.full(many, 1e300))
    assert curve.level.tolist() == [pytest.approx(1e303), 0.0]
    curve = sum_open(group, start, start + 5, np.full(many, 1e-300))
    assert curve.level.tolist() == [pytest.approx(1e-297), 0.0]


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_weights_that_are_none_are_refused(weight: float) -> None:
    one = np.ones(1, np.int64)
    with pytest.raises(ValueError, match="negative or not finite"):
        sum_open(np.zeros(1, np.int32), one, one + 1, np.array([weight]))


@given(DRAWN, st.lists(st.integers(FIRST - 3, LAST + 3), min_size=1, max_size=6))
def test_integrals_add_up_each_instant(drawn: Drawn, edges: list[int]) -> None:
    edges.sort()
    one = [(0, *row[1:]) for row in drawn]
    group, start, end, weight = columns(one)
    counts = overlaps(start, end, np.array(edges, np.int64))
    levels = integrals(count_open(group, start, end), np.array(edges, np.int64))
    sums = integrals(sum_open(group, start, end, weight), np.array(edges, np.int64))
    for k in range(len(edges) - 1):
        inside = [weights_at(one, 0, time) for time in range(edges[k], edges[k + 1])]
        assert counts[k] == levels[k] == sum(map(len, inside))
        assert sums[k] == pytest.approx(sum(map(sum, inside)), rel=1e-12, abs=1e-4)
    assert len(counts) == len(sums) == len(edges) - 1


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9), st.floats(0.9, 1.0)), min_size=1, max_size=30))
def test_what_never_exceeds_1_does_not_do_so_in_the_mean(drawn: list[tuple[int, int, float]]) -> None:
    group, start, end, weight = columns([(0, *row) for row in drawn])
    curve = sum_open(group, start, end, weight)
    full = curve._replace(level=np.minimum(curve.level, 1.0))
    edges = np.array([0, 7, 50])
    assert (integrals(full, edges) <= np.diff(edges)).all()


def test_times_since_1970_do_not_overflow() -> None:
    start = np.full(1000, 1_700_000_000_000_000_000) + np.arange(1000)
    edges = np.array([start[0] - 5, start[0] + 1000, start[0] + 5000])
    assert overlaps(start, start + 100, edges).tolist() == [901 * 100 + 99 * 100 // 2, 99 * 100 // 2]


def test_long_curves_are_taken_in_blocks() -> None:
    start = np.arange(0, 300_000, 3)
    curve = count_open(np.zeros(100_000, np.int32), start, start + 1 + start % 2)
    assert curve.time.size == 200_000
    edges = np.array([-10, 7, 150_001, 300_000])
    assert integrals(curve, edges).tolist() == overlaps(start, start + 1 + start % 2, edges).tolist()


def test_many_groups() -> None:
    group = np.arange(40_000, dtype=np.int32)[::-1].copy()
    start = np.zeros(40_000, np.int64)
    curve = count_open(group, start, start + 1 + group)
    assert curve.group.tolist() == np.repeat(np.arange(40_000), 2).tolist()
    assert time_at_least(curve, 40_000, 1).tolist() == list(range(1, 40_001))
