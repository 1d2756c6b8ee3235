"""Means and maxima of curves that step, against the same instant by instant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.layout.sampling import sample, sampled

curves = st.lists(st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 100))), max_size=400)


@given(curves, st.integers(-20, 200), st.integers(1, 60), st.integers(1, 30))
def test_each_unit_is_what_its_instants_are(
    steps: list[tuple[int, int | None]], first: int, unit: int, units: int
) -> None:
    time = np.cumsum([gap for gap, _ in steps]).astype(np.int64)
    level = np.array([np.nan if level is None else level for _, level in steps], np.float64)
    mean, greatest = sample(sampled(time, level), first, unit, units)
    instants = np.arange(first, first + unit * units)
    place = np.searchsorted(time, instants, side="right") - 1
    values = np.where(place >= 0, level[np.maximum(place, 0)] if len(level) else np.nan, np.nan).reshape(units, unit)
    known = ~np.isnan(values)
    total, count = np.where(known, values, 0).sum(axis=1), known.sum(axis=1)
    expected = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    assert mean.tolist() == pytest.approx(expected.tolist(), nan_ok=True)
    tops = np.where(known, values, -np.inf).max(axis=1)
    for at, value in zip(time.tolist(), level.tolist(), strict=True):  # those that hold for an instant only
        if first <= at < first + unit * units:
            tops[(at - first) // unit] = np.fmax(tops[(at - first) // unit], value)
    tops = np.where(count > 0, tops, np.nan)
    assert greatest.tolist() == pytest.approx(tops.tolist(), nan_ok=True)


def test_a_long_curve_at_once() -> None:
    time = np.arange(100_000, dtype=np.int64)
    level = (time % 7).astype(np.float64)
    curve = sampled(time, level)
    mean, greatest = sample(curve, 0, 70_000, 1)
    assert (mean.tolist(), greatest.tolist()) == ([3.0], [6.0])
    assert len(curve.area) < len(time) / 60


def test_a_level_that_began_before_all_times() -> None:
    mean, _ = sample(sampled(np.array([-(1 << 62), 10]), np.array([2.0, 4.0])), 0, 20, 2)
    assert mean.tolist() == [3.0, 4.0]
