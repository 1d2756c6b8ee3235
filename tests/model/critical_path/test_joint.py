"""Several what-ifs at once: each time goes once, and the step that remains is divided without a rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.intervals.intervals import Intervals, union
from kinetoscope.model.critical_path.joint import ReplayedChange, causes_of_replay, joined
from kinetoscope.model.critical_path.path import CAUSES, critical_path
from kinetoscope.model.critical_path.what_if import Factors, replayed
from kinetoscope.model.trace.trace import Trace
from kinetoscope.reading import read
from tests import drawn

TRACES = Path(__file__).parents[2] / "traces"

LOOP = [
    drawn.annotation("ProfilerStep#1", 0, 1000),
    drawn.op("aten::load", 100, 200),
    drawn.op("aten::slow", 400, 300),
]
"""A step of the host alone: 500 ns of Python and two calls."""


def change(trace: Trace, cut: Intervals | None = None, **host: float) -> ReplayedChange:
    """A change of calls by their names, and of stretches of their thread."""
    factors = Factors.all_one(trace)
    for name, factor in host.items():
        factors.host[trace.name == trace.strings.code(f"aten::{name}")] = factor
    if cut is not None:
        factors.cut[int(trace.track[0])] = cut
    return ReplayedChange.of(factors)


def spans(*times: tuple[int, int]) -> Intervals:
    start, end = np.array(times, np.int64).T
    return union(start, end)


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ([({"slow": 0.5}, None, 1.0)], 850),
        ([({"slow": 0.5}, None, 0.5)], 925),
        ([({"slow": 0.5}, None, 1.0), ({"slow": 0.2}, None, 1.0)], 760),  # the smaller of both, not a tenth
        ([({"slow": 0.5}, None, 1.0), ({"load": 0.0}, None, 1.0)], 650),
        ([({}, (100, 300), 1.0), ({"slow": 0.5}, None, 1.0)], 650),  # both are on one edge of the graph
        ([({}, (100, 300), 1.0), ({"load": 0.0}, None, 1.0)], 800),  # the same time
        ([({}, (100, 300), 0.5), ({}, (150, 350), 1.0)], 750),
    ],
)
def test_changes_together(
    tmp_path: Path, changes: list[tuple[dict[str, float], tuple[int, int] | None, float]], left: int
) -> None:
    trace = drawn.job(tmp_path, *LOOP).trace()
    begin = int(trace.start.min())
    parts = [
        (change(trace, spans((begin + cut[0], begin + cut[1])) if cut else None, **host), part)
        for host, cut, part in changes
    ]
    factors = joined(trace, parts)
    duration, _ = replayed(trace, factors)
    assert duration.tolist() == [left]
    assert causes_of_replay(trace, factors)[0].tolist() == [left, *[0] * (len(CAUSES) - 1)]


@pytest.mark.parametrize("file", sorted(TRACES.glob("*.pt.trace.json.gz")), ids=lambda file: file.name.split(".")[0])
def test_without_a_change_the_step_is_the_critical_path(file: Path) -> None:
    trace = read(file).trace()
    path = critical_path(trace)
    causes = causes_of_replay(trace, Factors.all_one(trace))
    expected = np.zeros_like(causes)
    np.add.at(expected, (path.step, path.cause), path.end - path.start)
    assert causes.tolist() == expected.tolist()


DDP = read(TRACES / "ddp2" / "rank0.pt.trace.json.gz").trace()


@given(st.lists(st.floats(0, 1), min_size=4, max_size=4), st.integers(0, 3), st.integers(1, 9))
def test_causes_sum_to_the_replayed_step(factor: list[float], first: int, every: int) -> None:
    factors = Factors.all_one(DDP)
    for name, share in zip(("host", "work", "delay", "gap"), factor, strict=True):
        getattr(factors, name)[first::every] = share
    factors.free[first::every] = factor[0]
    causes = causes_of_replay(DDP, factors)
    assert causes.sum(axis=1).tolist() == replayed(DDP, factors)[0].tolist()
