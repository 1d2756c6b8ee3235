"""Totals of counters over groups of intervals, against sums over each nanosecond, and the bound of their error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinetoscope
from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.model.counters.sampled import SampledCounter, of_samples
from kinetoscope.model.counters.totals import totals
from tests.drawn import Event, annotation, kernel, launch, op, written
from tests.model.counters.test_sampled import counter

SERIES = st.lists(st.tuples(st.integers(1, 9), st.integers(-50, 50)), min_size=1, max_size=20)
PIECES = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 12), st.integers(0, 2)), min_size=1, max_size=20)


def series_of(samples: list[tuple[int, int]]) -> SampledCounter:
    time = np.cumsum([distance for distance, _ in samples])
    return of_samples("GPU 0", 0, "Power (W)", time, np.array([value for _, value in samples], np.float64))


def windows(pieces: list[tuple[int, int, int]]) -> tuple[Intervals, Int64s]:
    """Intervals of three groups, after one another, in no order of the groups."""
    edges = np.cumsum([each for gap, length, _ in pieces for each in (gap, length)])
    return Intervals(edges[::2], edges[1::2]), np.array([code for _, _, code in pieces])


@given(SERIES, PIECES)
def test_totals_of_groups_are_those_of_their_nanoseconds(
    samples: list[tuple[int, int]], pieces: list[tuple[int, int, int]]
) -> None:
    series, (times, codes) = series_of(samples), windows(pieces)
    holding = {
        time: place
        for place, (start, end) in enumerate(zip(series.start.tolist(), series.end.tolist(), strict=True))
        for time in range(start, end)
    }
    result = totals(series, times, codes, 3)
    for code in range(3):
        instants = [
            time
            for start, end, own in zip(times.start.tolist(), times.end.tolist(), codes.tolist(), strict=True)
            for time in range(start, end)
            if own == code
        ]
        places = [holding[time] for time in instants if time in holding]
        assert (result.duration[code], result.sampled[code]) == (len(instants), len(places))
        assert result.samples[code] == len({*places})
        assert result.integral[code] * 1e9 == pytest.approx(sum(series.value[places]), abs=1e-6)
        values = series.value[places] if places else np.array([np.nan])
        assert np.array_equal([result.least[code], result.greatest[code]], [values.min(), values.max()], equal_nan=True)


@given(SERIES, PIECES, st.randoms(use_true_random=False))
def test_no_signal_between_the_samples_is_beyond_the_error(
    samples: list[tuple[int, int]], pieces: list[tuple[int, int, int]], random: np.random.Generator
) -> None:
    """Any signal that lies, at each nanosecond, between the samples around it; gaps included."""
    series, (times, codes) = series_of(samples), windows(pieces)
    true = np.zeros(int(max(times.end[-1], series.end[-1])))
    for place, (start, end) in enumerate(zip(series.start.tolist(), series.end.tolist(), strict=True)):
        one, other = series.value[place], series.value[min(place + 1, len(series.value) - 1)]
        true[start:end] = [one + random.random() * (other - one) for _ in range(start, end)]
    result = totals(series, times, codes, 3)
    for code in range(3):
        own = np.flatnonzero(codes == code)
        integral = sum(true[times.start[place] : times.end[place]].sum() for place in own.tolist())
        assert abs(result.integral[code] * 1e9 - integral) <= result.error[code] * 1e9 + 1e-6


MICRO = 1000


def stepped() -> list[Event]:
    """Two steps of 100 µs: an operator computes for 40 (400 W), the other copies for 20 (200 W), the rest is idle."""
    events: list[Event] = []
    for step in (0, 1):
        at = step * 100 * MICRO
        events += [
            annotation(f"ProfilerStep#{step}", at, 100 * MICRO),
            op("aten::mm", at + MICRO, 3 * MICRO),
            launch(at + 2 * MICRO, MICRO, 2 * step + 1),
            op("aten::copy_", at + 5 * MICRO, 3 * MICRO),
            launch(at + 6 * MICRO, MICRO, 2 * step + 2, name="cudaMemcpyAsync"),
            kernel("gemm", at + 10 * MICRO, 40 * MICRO, 2 * step + 1),
            kernel("Memcpy HtoD", at + 60 * MICRO, 20 * MICRO, 2 * step + 2, category="gpu_memcpy"),
        ]
    events += [
        counter(time * MICRO, 400.0 if time % 100 in range(10, 50) else 200.0 if time % 100 in range(60, 80) else 100.0)
        for time in range(200)
    ]
    return events


def test_energy_of_kinds_of_work_operators_and_kernels(tmp_path: Path) -> None:
    job = kinetoscope.read(written(tmp_path / "trace.json", *stepped()))
    kinds = {row["kind"]: row for row in kinetoscope.counters(job, by="kind").frame.iter_rows(named=True)}
    assert {kind: row["duration"] for kind, row in kinds.items()} == {
        "computation": 80 * MICRO,
        "communication": 0,
        "copies": 40 * MICRO,
        "idle": 80 * MICRO,
    }
    assert {kind: row["mean"] for kind, row in kinds.items() if row["mean"]} == pytest.approx(
        {"computation": 400.0, "copies": 200.0, "idle": 100.0}
    )
    assert kinds["computation"]["energy"] == pytest.approx(400 * 80e-6)
    each = kinetoscope.counters(job, by="step_kind").frame
    assert each["step"].to_list() == [0] * 4 + [1] * 4
    assert each["energy"].sum() == pytest.approx(kinetoscope.counters(job).frame["energy"].item())
    operators = kinetoscope.counters(job, by="operator").frame
    assert operators["name"].to_list() == ["aten::mm", "aten::copy_"]
    assert operators["energy"].to_list() == pytest.approx([400 * 80e-6, 200 * 40e-6])
    assert kinetoscope.counters(job, by="kernel").frame["name"].to_list() == ["gemm"]


def test_what_the_sampling_does_not_tell_apart_is_said(tmp_path: Path) -> None:
    events = [each for each in stepped() if each["ph"] != "C" or each["ts"] % 50 == 0]
    events += [counter(time * MICRO, 1.0, name="reads", source="the host") for time in range(200)]
    result = kinetoscope.counters(kinetoscope.read(written(tmp_path / "trace.json", *events)), by="operator")
    assert {"SAMPLED_COARSELY", "COUNTERS_OF_NO_DEVICE"} <= {note.code for note in result.notes}
