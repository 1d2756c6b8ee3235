"""Sampled use of a device in the tables of utilization and roofline, by the names of each source."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import polars as pl
import pytest

import kinetoscope
from kinetoscope.model.counters.quantities import Quantity, known_counter
from kinetoscope.model.job import Job
from tests.drawn import annotation, job, kernel, launch, op
from tests.model.counters.test_sampled import counter, series_of

A100 = {"id": 0, "name": "NVIDIA A100-SXM4-40GB", "computeMajor": 8, "computeMinor": 0, "numSms": 108,
        "totalGlobalMem": 42_505_273_344}  # fmt: skip
US = 1000
N = 1 << 20


def drawn(folder: Path, **levels: float) -> Job:
    """An addition of 40 µs in 100 µs, and counters a microsecond: levels while it runs, by name; else 0."""
    shape: dict[str, Any] = {
        "Input Dims": [[N], [N], []],
        "Input type": ["float", "float", "Scalar"],
        "Concrete Inputs": ["", "", "1"],
    }
    events = [
        annotation("ProfilerStep#0", 0, 100 * US),
        op("aten::add", US, 5 * US, **shape),
        launch(2 * US, US, 1),
        kernel("add_kernel", 10 * US, 40 * US, 1),
        *(
            counter(time * US, level if 10 <= time < 50 else 0.0, name=name)
            for name, level in levels.items()
            for time in range(100)
        ),
    ]
    return job(folder, *events, deviceProperties=[A100])


@pytest.mark.parametrize(
    ("name", "level"),
    [("SMACT", 0.3), ("SMs Active [Throughput %]", 30), ("sm__cycles_active.avg.pct_of_peak_sustained_elapsed", 30)],
)
def test_a_kernel_runs_and_most_of_the_device_does_nothing(tmp_path: Path, name: str, level: float) -> None:
    row = kinetoscope.device_utilization(drawn(tmp_path, **{name: level})).frame.row(0, named=True)
    assert row["utilization"] == pytest.approx(0.4)
    assert (row["sm_active"], row["sm_active_in_kernels"]) == (pytest.approx(0.12), pytest.approx(0.3))


@pytest.mark.parametrize(
    "levels",
    [
        {"dram__bytes.sum.per_second": 311e9},
        {"dram__bytes_read.sum.per_second": 200e9, "dram__bytes_write.sum.per_second": 111e9},
        {"DRAM Read Bandwidth [Throughput %]": 15, "DRAM Write Bandwidth [Throughput %]": 5},
        {"DRAMA": 0.2, "dram__bytes_unknown": 3.0},
    ],
)
@pytest.mark.parametrize("by", ["op", "kernel"])
def test_traffic_that_was_counted_stands_beside_the_computed_one(
    tmp_path: Path, levels: dict[str, float], by: Literal["op", "kernel"]
) -> None:
    row = kinetoscope.roofline(drawn(tmp_path, **levels), by=by).frame.row(0, named=True)
    assert row["sampled_bandwidth"] == pytest.approx(311e9, rel=1e-6)
    assert row["bandwidth"] == pytest.approx(3 * 4 * N / 40e-6, rel=1e-6)


def test_without_counters_both_are_null(tmp_path: Path) -> None:
    run = drawn(tmp_path)
    assert kinetoscope.device_utilization(run).frame["sm_active"].null_count() == 1
    frame = kinetoscope.roofline(run).frame
    assert frame.select(pl.col("sampled_bandwidth").is_null().all()).item()


@pytest.mark.parametrize(
    ("name", "quantity", "scale"),
    [
        ("power.draw.instant (W)", "power", 1.0),
        ("socket_power", "power", 1.0),
        ("POWER", "power", 1.0),
        ("board power (mW)", None, 0.0),
        ("clocks.current.sm (MHz)", "sm_clock", 1.0),
        ("GPC Clock Frequency [MHz]", "sm_clock", 1.0),
        ("gpc__cycles_elapsed.avg.per_second", "sm_clock", 1e-6),
        ("clocks.max.sm [MHz]", "greatest_sm_clock", 1.0),
        ("clocks_throttle_reasons.active", "clock_reasons", 1.0),
        ("clocks.mem (MHz)", None, 0.0),
    ],
)
def test_names_say_what_a_counter_is_of(tmp_path: Path, name: str, quantity: Quantity | None, scale: float) -> None:
    [series] = series_of(tmp_path, counter(0, 1.0, name=name))
    known = known_counter(series)
    assert (known.quantity, known.scale) == (quantity, scale) if known else quantity is None
