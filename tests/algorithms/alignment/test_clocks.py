from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.alignment.clocks import components, fit


@given(edges=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 12)), max_size=30))
def test_components_are_those_of_a_search(edges: list[tuple[int, int]]) -> None:
    clock = np.array([edge[0] for edge in edges], np.int64)
    event = np.array([edge[1] for edge in edges], np.int64)
    label = list(range(10))
    for _ in range(10):  # the slow twin: pull labels together until nothing changes
        for one, first in edges:
            for other, second in edges:
                if first == second:
                    label[one] = label[other] = min(label[one], label[other])
    assert components(clock, event, 10).tolist() == label


@pytest.mark.parametrize(("clocks", "events", "outliers"), [(2, 100, 0.0), (8, 200, 0.05), (40, 100, 0.02)])
def test_offset_and_rate_are_recovered(clocks: int, events: int, outliers: float) -> None:
    draw = np.random.default_rng(clocks)
    offset, rate = draw.uniform(-1e7, 1e7, clocks), draw.uniform(-2e-5, 2e-5, clocks)
    offset[0] = rate[0] = 0
    true = np.sort(draw.uniform(-5e8, 5e8, events))
    clock, event = np.tile(np.arange(clocks), events), np.repeat(np.arange(events), clocks)
    time = true[event] + offset[clock] + rate[clock] * true[event] + draw.normal(0, 3_000, len(clock))
    wrong = draw.random(len(clock)) < outliers
    time[wrong] += draw.uniform(0, 1e6, wrong.sum())
    found = fit(clock, event, time, np.arange(clocks) > 0)
    ends = np.array([-5e8, 0, 5e8])
    error = (found.offset - offset)[:, None] + (found.rate - rate)[:, None] * ends
    assert np.abs(error).max() < 5_000
    assert found.spread == pytest.approx(3_000, rel=0.5)
    assert set(found.component.tolist()) == {0}


def test_clocks_that_nothing_joins_are_their_own_reference() -> None:
    clock = np.array([0, 1, 2, 3], np.int64)
    event = np.array([0, 0, 1, 1], np.int64)
    found = fit(clock, event, np.array([10.0, 30.0, 100.0, 50.0]), np.zeros(5, np.bool_))
    assert found.component.tolist() == [0, 0, 2, 2, 4]
    assert found.offset.tolist() == pytest.approx([0, 20, 0, -50, 0])
    assert not found.rate.any()


def test_without_observations_nothing_moves() -> None:
    found = fit(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.zeros(3, np.bool_))
    assert not found.offset.any()
    assert found.spread == 0
