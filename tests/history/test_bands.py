"""Step times at any scale are what a plain computation over the steps gives."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.errors import BrokenTraceError
from kinetoscope.model.history.bands import Bands, RankLevels, bands, size_for, step_times
from kinetoscope.model.history.overview import Overview
from tests.history.test_answers import series

Series = dict[int, dict[int, float]]
"""Times by step, by rank."""


@st.composite
def additions(draw: st.DrawFn) -> tuple[list[RankLevels], Series]:
    """Ranks to which stretches of steps were added, one after the other; some were run again."""
    ranks, known = [], Series()
    for rank in range(draw(st.integers(1, 5))):
        ranks.append(RankLevels(rank))
        known[rank] = {}
        for _ in range(draw(st.integers(0, 4))):
            first, count = draw(st.integers(0, 150)), draw(st.integers(1, 90))
            times = np.random.default_rng(draw(st.integers(0, 99))).integers(1, 1000, count)
            ranks[-1].add(np.arange(first, first + count), times, times)
            known[rank] |= dict(zip(range(first, first + count), times.tolist(), strict=True))
    return ranks, known


def plainly(known: Series, size: int, low: int, high: int) -> list[tuple[float, float, float, int]]:
    """Fastest, median, slowest and whose that is, of each bucket."""
    rows = []
    for bucket in range(low, high):
        inside = {
            rank: [time for step, time in steps.items() if step // size == bucket] for rank, steps in known.items()
        }
        times = {rank: each for rank, each in inside.items() if each}
        if not times:
            rows.append((np.nan, np.nan, np.nan, -1))
            continue
        means = [sum(each) / len(each) for each in times.values()]
        worst = max(times, key=lambda rank: (max(times[rank]), -rank))
        least = min(min(each) for each in times.values())
        rows.append((least, float(np.median(means)), max(times[worst]), worst))
    return rows


@given(additions(), st.sampled_from([1, 4, 16, 64, 256, 1024]), st.integers(0, 6), st.integers(0, 40))
def test_buckets_are_those_of_a_plain_computation(
    drawn: tuple[list[RankLevels], Series], size: int, low: int, count: int
) -> None:
    ranks, known = drawn
    found = bands(ranks, size, low, low + count, 8)
    of_buckets = zip(found.fastest, found.median, found.slowest, found.rank, strict=True)
    for one, other in zip(of_buckets, plainly(known, size, low, low + count), strict=True):
        assert one == pytest.approx(other, rel=1e-5, nan_ok=True)


def levels(*ranks: list[int]) -> list[RankLevels]:
    made = []
    for number, times in enumerate(ranks):
        made.append(RankLevels(number))
        made[-1].add(np.arange(len(times)), np.array(times, np.int64), np.array(times, np.int64))
    return made


def test_a_rank_is_behind_the_median_of_all() -> None:
    found = bands(levels([10] * 8, [10] * 8, [15] * 8), 4, 0, 2, 10)
    assert found.behind == pytest.approx(np.array([[0, 0], [0, 0], [0.5, 0.5]]))


def test_of_ranks_in_one_row_the_slowest_counts() -> None:
    found: Bands = bands(levels([10] * 4, [20] * 4, [10] * 4, [10] * 4, [10] * 4), 4, 0, 1, 2)
    assert found.rows.tolist() == [0, 3, 5]
    assert found.behind[:, 0] == pytest.approx([1, 0])


def test_sizes_fit() -> None:
    assert [size_for(steps, 100) for steps in (1, 100, 101, 400, 401)] == [1, 1, 4, 4, 16]


def test_the_gap_before_a_step_is_its_time_from_one_look_to_the_next() -> None:
    frame, before = series([10, 10, 10, 10], gap=5), dict[tuple[int, int], int]()
    steps, times, _ = zip(*(step_times(part, before) for part in (frame.head(2), frame.tail(2))), strict=True)
    assert np.concatenate(steps).tolist() == [0, 1, 2, 3]
    assert np.concatenate(times).tolist() == [10, 15, 15, 15]


def test_numbers_that_are_none_are_refused() -> None:
    with pytest.raises(BrokenTraceError, match="has steps from"):
        RankLevels(3).add(np.array([0, 10**12]), np.array([1, 1]), np.array([1, 1]))


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 900)), min_size=1, max_size=4), st.integers(1, 60))
def test_an_overview_has_the_buckets_of_all_levels(spans: list[tuple[int, int]], columns: int) -> None:
    shown, ranks = Overview(columns), []
    for rank, (first, count) in enumerate(spans):
        times = np.random.default_rng(rank).integers(1, 1000, count)
        frame = series(times, rank=rank, first=first).with_columns(backward=pl.lit(0, pl.Int64))
        shown.add([frame])
        ranks.append(RankLevels(rank))
        ranks[-1].add(*step_times(frame, {}))
    found = shown.bands()
    assert found is not None
    assert len(found.median) <= columns + 1
    low = found.first // found.size
    expected = bands(ranks, found.size, low, low + len(found.median), len(ranks))
    for name in ("fastest", "median", "slowest", "rank", "behind"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-4, abs=1e-4, nan_ok=True)


def test_who_makes_others_wait_is_behind() -> None:
    ranks = [RankLevels(rank) for rank in range(3)]
    for each, own in zip(ranks, (5, 5, 8), strict=True):
        each.add(np.arange(16), np.full(16, 10), np.full(16, own))
    assert bands(ranks, 16, 0, 1, 3).behind[:, 0] == pytest.approx([0, 0, 0.3])
