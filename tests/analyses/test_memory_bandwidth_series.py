from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from kinetoscope import Selection, memory_bandwidth, memory_bandwidth_series, read
from tests import drawn
from tests.catalog.samples import SHARED, required


def copy(start: int, duration: int, size: int, *, stream: int = 7, name: str = "Memcpy HtoD") -> drawn.Event:
    return drawn.kernel(name, start, duration, start + 1, stream=stream, category="gpu_memcpy", bytes=size)


def test_bandwidths_of_concurrent_copies_add_up(tmp_path: Path) -> None:
    events = [copy(0, 100, 1000), copy(50, 100, 3000, stream=8), copy(60, 10, 7, name="Memcpy DtoH")]
    job = drawn.job(tmp_path, *events)
    assert memory_bandwidth_series(job).frame.select("direction", "time", "bandwidth").rows() == [
        ("DtoH", 60, pytest.approx(0.7e9)),
        ("DtoH", 70, 0.0),
        ("HtoD", 0, pytest.approx(10e9)),
        ("HtoD", 50, pytest.approx(40e9)),
        ("HtoD", 100, pytest.approx(30e9)),
        ("HtoD", 150, 0.0),
    ]
    cut = memory_bandwidth_series(job, select=Selection(time=(70, 110))).frame
    assert cut.select("time", "bandwidth").rows() == [
        (70, pytest.approx(40e9)),
        (100, pytest.approx(30e9)),
        (110, 0.0),
    ]


@pytest.mark.parametrize("name", ["trace_diff/test", "mtia", "queue_length", "eager_b200"])
def test_nothing_is_left_of_what_has_ended(name: str) -> None:
    # HTA's curve of trace_diff/test is "positive" at 3,814 points below 1e-6 GB/s.
    job = read(required(SHARED) / name, jobs=1)
    frame = memory_bandwidth_series(job).frame
    assert frame.filter(pl.col("bandwidth") > 0)["bandwidth"].min() > 1e3  # type: ignore[operator]
    assert (
        frame.group_by("direction").agg(pl.col("bandwidth").last())["bandwidth"].to_list()
        == [0.0] * frame["direction"].n_unique()
    )
    table = memory_bandwidth(job).frame
    greatest = frame.group_by("direction").agg(pl.col("bandwidth").max()).sort("direction")
    assert greatest["bandwidth"].to_list() == table["max_bandwidth"].to_list()


def test_the_area_is_the_bytes() -> None:
    job = read(required(SHARED) / "trace_diff/control", jobs=1)
    frame = memory_bandwidth_series(job).frame.with_columns(
        lasts=(pl.col("time").shift(-1).over("direction", order_by="time") - pl.col("time")).fill_null(0)
    )
    area = frame.group_by("direction").agg((pl.col("bandwidth") * pl.col("lasts")).sum() / 1e9).sort("direction")
    assert area["bandwidth"].to_list() == pytest.approx(memory_bandwidth(job).frame["bytes"].to_list(), rel=1e-12)
