from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kinetoscope import Selection, device_utilization, device_utilization_series, read
from kinetoscope.errors import UsageError
from tests import drawn
from tests.catalog.samples import SHARED, required

# --- drawn


def series(folder: Path, *events: drawn.Event, bucket: int | None = None, **selected: object) -> pl.DataFrame:
    select = Selection(**selected)  # type: ignore[arg-type]
    return device_utilization_series(drawn.job(folder, *events), select=select, bucket=bucket).frame


def kernel(start: int, duration: int, blocks: float, occupancy: float, *, device: int = 0) -> drawn.Event:
    args: dict[str, Any] = {"blocks per SM": blocks, "est. achieved occupancy %": occupancy}
    return drawn.kernel("gemm", start, duration, start + 1, device=device, **args)


HOST = drawn.op("aten::mm", 0, 250)
NAMES = ("device", "time", "duration", "utilization", "sm_efficiency", "occupancy")


def test_buckets_cut_kernels(tmp_path: Path) -> None:
    frame = series(tmp_path, HOST, kernel(50, 100, 0.5, 50), kernel(90, 20, 0.75, 100), bucket=100)
    assert frame.select(NAMES).rows() == [
        (0, 0, 100, 0.5, (40 * 0.5 + 10) / 100, (50 * 0.5 + 10) / 60),
        (0, 100, 100, 0.5, (10 + 40 * 0.5) / 100, (50 * 0.5 + 10) / 60),
        (0, 200, 50, 0.0, 0.0, None),
    ]


@pytest.mark.parametrize(
    ("length", "size"), [(100, 1_000), (100_000, 1_000), (100_001, 10_000), (1_000_000, 10_000), (1_000_001, 100_000)]
)
def test_the_default_is_the_least_power_of_ten_with_100_buckets_at_most(tmp_path: Path, length: int, size: int) -> None:
    frame = series(tmp_path, drawn.op("aten::mm", 0, length), kernel(0, 10, 1, 1))
    assert frame.height == -(-length // size) <= 100
    assert frame["duration"].max() == min(size, length)
    assert frame["duration"].sum() == length


def test_selections_choose_the_window(tmp_path: Path) -> None:
    steps = [drawn.annotation(f"ProfilerStep#{number}", 100 * number, 100) for number in range(3)]
    launches = [drawn.launch(100 * number, 1, 100 * number + 11) for number in range(3)]
    drawing = [*steps, *launches, *(kernel(100 * number + 10, 50, 1, 50) for number in range(3))]
    frame = series(tmp_path, *drawing, bucket=40, steps=(1,))
    assert frame.select("time", "duration", "utilization").rows() == [
        (100, 40, 30 / 40),
        (140, 40, 20 / 40),
        (180, 20, 0.0),
    ]
    frame = series(tmp_path, *drawing, bucket=40, time=(30, 120))
    assert frame.select("time", "duration", "utilization").rows() == [
        (30, 40, 30 / 40),
        (70, 40, 0.0),
        (110, 10, 1.0),
    ]


def test_devices_follow_one_another(tmp_path: Path) -> None:
    frame = series(tmp_path, HOST, kernel(0, 100, 1, 50, device=1), kernel(100, 50, 1, 50), bucket=200)
    assert frame.select("device", "time", "utilization").rows() == [
        (0, 0, 0.25),
        (0, 200, 0.0),
        (1, 0, 0.5),
        (1, 200, 0.0),
    ]


def test_buckets_sum_to_the_whole() -> None:
    job = read(required(SHARED) / "owlv2_h100", jobs=1)
    [whole] = device_utilization(job).frame.to_dicts()
    select = Selection(time=(whole["start"], whole["end"]))
    for bucket in (7_777_777, 10**9, 10**10):
        frame = device_utilization_series(job, select=select, bucket=bucket).frame
        assert frame["duration"].sum() == whole["window"]
        for name in ("utilization", "sm_efficiency"):
            total = (frame[name] * frame["duration"]).sum() / whole["window"]
            assert total == pytest.approx(whole[name], rel=1e-9)


@pytest.mark.parametrize("bucket", [0, -5, 1])
def test_buckets_that_cannot_be_are_refused(tmp_path: Path, bucket: int) -> None:
    with pytest.raises(UsageError, match="bucket"):
        series(tmp_path, drawn.op("aten::mm", 0, 10**9), kernel(0, 10, 1, 1), bucket=bucket)
