"""Series of samples: integrals over any time against a sum over each nanosecond, and bounds of their error."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinetoscope
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.model.counters.sampled import SampledCounter, counter_series
from kinetoscope.model.counters.totals import totals
from kinetoscope.model.steps.selection import Selection
from tests.drawn import Event, annotation, kernel, launch, written
from tests.readers.texts import read_text

SAMPLES = st.lists(st.tuples(st.integers(1, 40), st.floats(-100, 100)), min_size=1, max_size=12)


def counter(
    time: int, value: object, *, name: str = "Power (W)", source: object = "GPU 0 Counters", key: str = ""
) -> Event:
    return {
        "ph": "C",
        "cat": "hardware_counters",
        "name": name,
        "pid": source,
        "tid": 0,
        "ts": time / 1000,
        "args": {key: value},
    }


def series_of(folder: Path, *events: Event) -> tuple[SampledCounter, ...]:
    return counter_series(kinetoscope.read(written(folder / "trace.json", *events)).trace())


def held(samples: list[tuple[int, float]], distances: list[int]) -> dict[int, float]:
    """The value at each nanosecond, said plainly."""
    interval = int(np.median(distances)) if distances else 0
    values: dict[int, float] = {}
    for place, (time, value) in enumerate(samples):
        until = time + interval
        if place + 1 < len(samples) and samples[place + 1][0] - time <= 1.5 * interval:
            until = samples[place + 1][0]
        values |= dict.fromkeys(range(time, until), value)
    return values


@given(SAMPLES, st.integers(0, 500), st.integers(1, 300))
def test_integrals_are_sums_over_nanoseconds(steps: list[tuple[int, float]], begin: int, length: int) -> None:
    times = np.cumsum([step for step, _ in steps]).tolist()
    samples = [(time, round(value, 3)) for time, (_, value) in zip(times, steps, strict=True)]
    [series] = _made(samples)
    plain = held(samples, np.diff(times).tolist())
    window = Intervals(np.array([begin]), np.array([begin + length]))
    inside = [plain[time] for time in range(begin, begin + length) if time in plain]
    total = totals(series, window)
    assert total.integral[0] * 1e9 == pytest.approx(sum(inside), abs=1e-6)
    assert (total.duration[0], total.sampled[0]) == (length, len(inside))
    assert np.allclose(
        [total.least[0], total.greatest[0]], [min(inside), max(inside)] if inside else np.nan, equal_nan=True
    )


@given(st.lists(st.floats(0, 700), min_size=3, max_size=30), st.lists(st.floats(0, 1), min_size=40, max_size=40))
def test_the_error_bounds_what_lies_between_samples(values: list[float], parts: list[float]) -> None:
    """A signal that stays between two samples, wherever it is there, integrates to no more and no less."""
    interval = 10
    [series] = _made([(interval * place, value) for place, value in enumerate(values)])
    window = Intervals(np.array([0]), np.array([interval * (len(values) - 1)]))
    pairs = zip(values, values[1:], parts, strict=False)
    true = sum(interval * (one + part * (other - one)) for one, other, part in pairs)
    total = totals(series, window)
    assert abs(total.integral[0] * 1e9 - true) <= total.error[0] * 1e9 + 1e-6


def _made(samples: list[tuple[int, float]]) -> tuple[SampledCounter, ...]:
    events = [counter(time, value) for time, value in samples]
    return counter_series(read_text(json.dumps({"traceEvents": events}).encode()))


def test_a_gap_is_not_sampled(tmp_path: Path) -> None:
    [series] = series_of(tmp_path, *(counter(time, 100.0) for time in (0, 1000, 2000, 9000, 10_000)))
    assert (series.interval, series.unit, series.device) == (1000, "W", 0)
    assert totals(series, Intervals(np.array([0]), np.array([20_000]))).sampled[0] == 5000
    total = totals(series, Intervals(np.array([2500]), np.array([9500])))
    assert total.integral[0] == pytest.approx(100 * (500 + 500) / 1e9)


def test_energy_of_steps_and_of_idle_time(tmp_path: Path) -> None:
    events = [
        annotation("ProfilerStep#1", 0, 100_000),
        annotation("ProfilerStep#2", 100_000, 100_000),
        launch(1000, 500, 1),
        launch(101_000, 500, 2),
        kernel("gemm", 10_000, 50_000, 1),
        kernel("gemm", 110_000, 50_000, 2),
        *(
            counter(time, 400.0 if time % 100_000 in range(10_000, 60_000) else 100.0)
            for time in range(0, 200_000, 1000)
        ),
    ]
    job = kinetoscope.read(written(tmp_path / "trace.json", *events))
    [row] = kinetoscope.counters(job).frame.iter_rows(named=True)
    assert (row["counter"], row["unit"], row["min"], row["max"]) == ("Power (W)", "W", 100.0, 400.0)
    assert (row["busy_mean"], row["idle_mean"]) == (pytest.approx(400.0), pytest.approx(100.0))
    by_step = kinetoscope.counters(job, by="step").frame
    assert by_step["step"].to_list() == [1, 2]
    assert by_step["integral"].sum() == pytest.approx(row["integral"])
    one = kinetoscope.counters(job, select=Selection(steps=(2,))).frame
    assert one["integral"].item() == pytest.approx(by_step["integral"][1])


def test_odd_samples_do_no_harm(tmp_path: Path) -> None:
    events = [
        counter(0, "much"),
        counter(5, float("nan")),
        counter(10, 1e308),
        counter(10, 2.0),
        counter(7, 3.0, source=None),
        counter(8, {"a": 1}),
    ]
    names = [(each.source, each.value.tolist()) for each in series_of(tmp_path, *events)]
    assert names == [("", [3.0]), ("GPU 0 Counters", [2.0])]
