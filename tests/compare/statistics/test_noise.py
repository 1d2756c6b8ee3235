"""Verdicts on changes: how often they are wrong on runs drawn by chance, and what they do with odd numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.drawing import BETWEEN_RUNS, NOISES, Pair, Shape, pairs
from benchmarks.gate import BEGIN, END, PAGE, tables, with_tables
from kinetoscope.algorithms.statistics import benjamini_hochberg, normal_cdf
from kinetoscope.compare.statistics.noise import (
    MIN_CHANGE,
    Assumed,
    Verdict,
    Word,
    change,
    changes,
)
from kinetoscope.compare.statistics.run_statistics import run_statistics, variance_inflation, without_warm_up
from tests.conftest import few_examples

THREE = Shape(3, 3, 20)


def judged(found: list[Pair]) -> list[Verdict]:
    return changes(found, adjust=False)


def share(found: list[Pair], word: Word = "worse") -> float:
    words = [verdict.word for verdict in judged(found)]
    return words.count(word) / len(words)


def flat(value: float, runs: int = 3, steps: int = 20) -> list[list[float]]:
    return [[value] * steps for _ in range(runs)]


# --- how often it is wrong


@pytest.mark.slow
def test_of_a_thousand_comparisons_of_equals_one_percent_at_most_is_called_worse() -> None:
    verdicts = judged(list(pairs(1000, seed=1)))
    assert sum(verdict.word == "worse" for verdict in verdicts) <= 10
    assert sum(verdict.word == "better" for verdict in verdicts) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("noise", [noise for noise in NOISES if noise != "normal"])
def test_other_noise_does_not_deceive_it(noise: str) -> None:
    # Runs of two kinds vary by more than is assumed.
    assert share(list(pairs(600, seed=2, noise=noise))) <= (0.02 if noise == "runs of two kinds" else 0.01)


def test_runs_that_vary_as_much_as_is_assumed_are_rarely_called_worse() -> None:
    assert share(list(pairs(500, seed=3, between=BETWEEN_RUNS))) <= 0.015


@pytest.mark.slow
def test_three_runs_of_twenty_steps_find_five_percent() -> None:
    assert share(list(pairs(1000, THREE, seed=4, effect=0.05))) >= 0.95


def test_also_where_runs_vary_as_much_as_is_assumed_most_are_found() -> None:
    assert share(list(pairs(400, THREE, seed=5, effect=0.05, between=BETWEEN_RUNS))) >= 0.8


def test_a_machine_that_varies_far_more_is_noticed() -> None:
    """Three runs tell that they vary by 10 %: no more are called worse than the level says, or little more."""
    assert share(list(pairs(400, THREE, seed=6, between=0.1))) <= 0.05


def test_one_run_a_side_finds_only_what_is_far_outside() -> None:
    one = Shape(1, 1, 20)
    assert share(list(pairs(200, one, seed=7, effect=0.05)), "inconclusive") >= 0.95
    assert share(list(pairs(200, one, seed=8, effect=0.3))) >= 0.95


@pytest.mark.slow
def test_the_interval_holds_the_change_as_often_as_it_says() -> None:
    verdicts = judged(list(pairs(800, THREE, seed=9, effect=0.05)))
    assert (
        0.93 <= np.mean([v.low <= 0.05 <= v.high for v in verdicts if v.low is not None and v.high is not None]) <= 0.98
    )


def test_an_improvement_is_found_as_a_loss_is() -> None:
    back = [(new, base) for base, new in pairs(300, THREE, seed=10, effect=0.08)]
    assert share(back, "better") >= 0.95


@pytest.mark.slow
def test_the_tables_of_the_guide_are_those_that_the_benchmark_makes() -> None:
    """Line by line but for the numbers, which take minutes."""

    def labels(text: str) -> list[str]:
        return [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")]

    page = PAGE.read_text(encoding="utf-8")
    made = tables(2)
    assert labels(page.partition(BEGIN)[2].partition(END)[0]) == labels(made)
    assert with_tables(with_tables(page, made), made) == with_tables(page, made)


# --- words


def test_what_does_not_vary_is_told_exactly() -> None:
    found = change(flat(100.0), flat(110.0))
    assert found.word == "worse"
    assert [found.base, found.new, found.change] == pytest.approx([100, 110, 0.1])
    assert not found.why


def test_a_change_below_the_limit_does_not_count() -> None:
    assert change(flat(100.0), flat(101.0)).word == "same"
    assert change(flat(100.0), flat(101.0), limit=0.005).word == "worse"


def test_of_a_throughput_less_is_worse() -> None:
    assert change(flat(100.0), flat(90.0), higher_is_worse=False).word == "worse"
    assert change(flat(100.0), flat(120.0), higher_is_worse=False).word == "better"


def test_few_runs_and_few_steps_are_said() -> None:
    assert str(change(flat(100.0, 1), flat(100.0, 3)).why).startswith("1 run per side")
    assert str(change(flat(100.0, 3, 9), flat(100.0, 3)).why).startswith("A run has fewer than 10 steps")
    assert not change(flat(100.0, 3, 1), flat(100.0, 3, 1), assumed=Assumed(within=0.0)).why
    walk = (100 + np.cumsum(np.random.default_rng(0).normal(0, 1, 20))).tolist()
    assert str(change([walk] * 3, [walk] * 3).why).startswith("Consecutive steps resemble each other")


def test_few_runs_make_the_level_stricter() -> None:
    assert [change(flat(1.0, runs), flat(1.0, 3)).level for runs in (1, 2, 3)] == [0.01, 0.01, 0.05]


def test_noise_that_is_assumed_is_what_few_runs_are_held_against() -> None:
    base, new = flat(100.0, 1), flat(106.0, 1)
    assert change(base, new).word == "inconclusive"
    assert change(base, new, assumed=Assumed(between=0.001)).word == "worse"


# --- odd numbers


def test_what_was_nothing_before_is_worse_without_a_number() -> None:
    found = change(flat(0.0), flat(5.0))
    assert (found.word, found.change, found.p_value) == ("worse", math.inf, None)


def test_what_is_gone_is_better() -> None:
    found = change(flat(5.0), flat(0.0))
    assert (found.word, found.change) == ("better", -1.0)


def test_nothing_and_nothing_is_the_same() -> None:
    assert change(flat(0.0), flat(0.0)).word == "same"


def test_nothing_in_some_runs_cannot_be_told() -> None:
    assert change([*flat(0.0, 1), *flat(5.0, 2)], flat(5.0)).word == "inconclusive"


@pytest.mark.parametrize("side", [[], [[]], [[math.nan, math.inf, -1.0]]])
def test_no_value_at_all_cannot_be_told(side: list[list[float]]) -> None:
    found = change(side, flat(5.0))
    assert (found.word, found.base, found.change) == ("inconclusive", None, None)
    assert found.why == "No step has a value on one side."


def test_no_pairs_are_no_verdicts() -> None:
    assert changes([]) == []


VALUES = st.floats(1e-3, 1e12) | st.just(0.0) | st.just(math.nan)
SIDES = st.lists(st.lists(VALUES, max_size=12), max_size=4)


@given(base=SIDES, new=SIDES)
def test_any_numbers_have_a_verdict_that_hangs_together(base: list[list[float]], new: list[list[float]]) -> None:
    found = change(base, new)
    assert found == change(base, new)
    if found.p_value is None:
        return
    assert found.change is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.change + 1e-9 or found.p_value > 0.01
    assert found.low <= found.high
    assert 0 <= found.p_value <= 1
    if found.word in ("worse", "better"):
        assert abs(found.change) >= MIN_CHANGE
        assert (found.change > 0) == (found.word == "worse")


@few_examples
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-6, 1e-2, 1e3, 1e9]), effect=st.floats(0, 0.3))
def test_the_unit_does_not_matter_and_sides_mirror(seed: int, scale: float, effect: float) -> None:
    [(base, new)] = pairs(1, Shape(3, 3, 12), seed=seed, effect=effect)
    found = change(base, new)
    scaled = change([[scale * x for x in run] for run in base], [[scale * x for x in run] for run in new])
    assert found.p_value is not None
    assert scaled.p_value == pytest.approx(found.p_value, abs=1e-6)
    assert scaled.change == pytest.approx(found.change, abs=1e-9)
    back = change(new, base)
    assert found.change is not None
    assert back.change == pytest.approx(1 / (1 + found.change) - 1, abs=1e-9)
    assert back.p_value == pytest.approx(found.p_value, abs=1e-6)


# --- its parts


def test_warm_up_is_left_out() -> None:
    steps = [900.0, 300.0, 101.0, 100.0, 99.0, 100.0, 100.0, 102.0, 98.0, 100.0]
    assert without_warm_up(np.array(steps)).tolist() == steps[2:]


def test_a_long_step_later_is_no_warm_up() -> None:
    steps = np.array([100.0, 101.0, 99.0, 100.0, 900.0, 100.0, 100.0, 100.0])
    assert len(without_warm_up(steps)) == 8


def test_a_pause_does_not_move_the_typical_step() -> None:
    assert run_statistics([100.0, 102.0, 98.0, 101.0, 900.0, 99.0, 100.0, 100.0, 101.0, 99.0]).typical == pytest.approx(
        100, rel=0.01
    )


def test_neighbours_that_are_alike_widen() -> None:
    rng = np.random.default_rng(0)
    alone = [run_statistics((100 + rng.normal(0, 1, 60)).tolist()) for _ in range(3)]
    walks = [run_statistics((100 + np.convolve(rng.normal(0, 1, 64), np.ones(5), "valid")).tolist()) for _ in range(3)]
    assert variance_inflation(alone) == 1.0
    assert variance_inflation(walks) > 3


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_benjamini_and_hochberg_as_in_their_paper(values: list[float]) -> None:
    """The step-up procedure: all up to the largest k with p(k) ≤ q k / m are called."""
    adjusted = benjamini_hochberg(np.array(values))
    for q in (0.01, 0.05, 0.3):
        ordered = sorted(values)
        k = max((at for at, p in enumerate(ordered, 1) if p <= q * at / len(values)), default=0)
        called = set(ordered[:k])
        for value, after in zip(values, adjusted.tolist(), strict=True):
            if abs(after - q) > 1e-12:
                assert (value in called) == (after <= q)


def test_many_numbers_at_once_are_judged_more_strictly() -> None:
    found = list(pairs(200, THREE, seed=11, between=BETWEEN_RUNS))
    alone = sum(verdict.word == "worse" for verdict in judged(found))
    together = sum(verdict.word == "worse" for verdict in changes(found))
    assert together < alone


def test_the_normal_distribution() -> None:
    z = np.linspace(-8, 8, 401)
    exact = np.array([math.erfc(-each / math.sqrt(2)) / 2 for each in z])
    assert np.abs(normal_cdf(z) / exact - 1).max() < 1e-5
