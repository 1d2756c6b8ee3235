"""Noise and levels of plain arrays."""

from __future__ import annotations

import numpy as np
import pytest

from kinetoscope.model.history.levels import fit, limits_of, suspects
from kinetoscope.model.history.noise import cleaned, deviations, filled
from kinetoscope.model.history.spikes import period_of
from tests.history.drawn import autoregression


@pytest.mark.parametrize("correlation", [0, 0.5, 0.9])
def test_the_deviation_is_that_of_long_means(correlation: float) -> None:
    blocks = autoregression(np.random.default_rng(0), (50, 2000), correlation)
    true = np.sqrt((1 + correlation) / (1 - correlation))
    assert true <= np.median(deviations(blocks)) <= 1.4 * true


def test_a_shift_does_not_make_a_series_noisy() -> None:
    blocks = np.random.default_rng(0).standard_normal((1, 1000))
    shifted = blocks + np.where(np.arange(1000) < 500, 0, 100)
    assert deviations(shifted)[0] < 1.5 * deviations(blocks)[0]


def test_two_shifts_that_cancel_out_are_two() -> None:
    values = np.random.default_rng(1).normal(100, 1, 1000)
    values[400:430] += 5
    found = fit(values, limits_of(100, 1, 10, 1000, 1, 0.01))
    assert [abs(place - true) <= 1 for place, true in zip(found.shifts, (400, 430), strict=True)] == [True, True]
    assert found.slope == 0


def test_a_ramp_is_a_slope_and_no_stairs() -> None:
    values = np.random.default_rng(2).normal(100, 1, 1000) + np.linspace(0, 20, 1000)
    found = fit(values, limits_of(100, 1, 10, 1000, 1, 0.01))
    assert found.shifts == ()
    assert found.slope * 1000 == pytest.approx(20, rel=0.05)


def test_a_shift_within_a_ramp_is_both() -> None:
    values = np.random.default_rng(3).normal(100, 1, 1000) + np.linspace(0, 20, 1000) + 15 * (np.arange(1000) >= 600)
    found = fit(values, limits_of(100, 1, 10, 1000, 1, 0.01))
    assert [abs(place - 600) <= 2 for place in found.shifts] == [True]
    assert found.slope * 1000 == pytest.approx(20, rel=0.2)


def test_suspects_are_the_series_with_a_shift() -> None:
    blocks = np.random.default_rng(4).standard_normal((40, 500))
    blocks[[3, 17], 250:] += 2
    assert np.flatnonzero(suspects(blocks, deviations(blocks), 6.0)).tolist() == [3, 17]


def test_a_spike_is_no_level_and_a_level_no_spike() -> None:
    times = np.random.default_rng(5).normal(100, 1, 1000)
    times[430:] += 50
    times[200] = 10_000
    clean = cleaned(times)
    assert np.flatnonzero(clean.spike).tolist() == [200]
    assert clean.clipped[200] < 110
    assert clean.clipped[430:].min() > 140


def test_what_is_missing_is_as_before() -> None:
    nan = float("nan")
    assert filled(np.array([[nan, 1, nan, 3, nan]])).tolist() == [[1, 1, 1, 3, 3]]


def test_a_period_that_jitters_is_one() -> None:
    generator = np.random.default_rng(6)
    steps = np.cumsum(generator.integers(258, 274, 40))
    period = period_of(np.sort(np.concatenate([steps, generator.integers(0, 10_000, 10)])))
    assert period is not None
    assert period.steps == pytest.approx(266, rel=0.02)
    assert period.spread < 0.06


@pytest.mark.parametrize("seed", range(5))
def test_accidents_have_no_period(seed: int) -> None:
    assert period_of(np.unique(np.random.default_rng(seed).integers(0, 10_000, 150))) is None
