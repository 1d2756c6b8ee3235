from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from kinetoscope import Selection, device_utilization, device_utilization_series, read
from kinetoscope.errors import UsageError
from kinetoscope.model.trace.recording import not_recorded
from tests import drawn
from tests.catalog.samples import GOLDEN, SHARED, required

SAMPLES = [(workers, span) for workers in (0, 4) for span in (1, 2)]


def plugins_counters(workers: int, span: int, name: str) -> list[tuple[int, float]]:
    """Times in ns and values; without the two that only stretch the axis."""
    file = f"resnet50_num_workers_{workers}__worker0__span{span}_trace_gpu_counters.json.gz"
    events = json.loads(gzip.decompress(required(GOLDEN / "tensorboard_plugin" / file).read_bytes()))
    chosen = [event for event in events if event["name"] == f"GPU 0 {name}"][2:]
    return [(1000 * event["ts"], next(iter(event["args"].values()))) for event in chosen]


def ours(workers: int, span: int, **params: Any) -> tuple[pl.DataFrame, int]:
    """Our rows, and the time from which they count."""
    files = sorted((required(SHARED) / f"resnet50_v100/num_workers_{workers}").glob("*.json.gz"))
    job = read(files[span - 1], jobs=1)
    return device_utilization_series(job, **params).frame, int(job.trace().start.min())


@pytest.mark.parametrize(("workers", "span"), SAMPLES)
def test_utilization_equals_the_plugins_counter_but_for_its_long_last_bucket(workers: int, span: int) -> None:
    *counters, (end, _) = plugins_counters(workers, span, "Utilization")
    frame, _ = ours(workers, span)
    size = counters[1][0] - counters[0][0]
    assert frame["duration"][0] == size
    times = frame["time"].to_numpy()
    whole = len(counters) - 1
    assert (times[:whole] - times[0]).tolist() == [time - counters[0][0] for time, _ in counters[:whole]]
    assert frame["utilization"][:whole].to_list() == pytest.approx([value for _, value in counters[:whole]], rel=1e-12)
    rest = frame[whole:]
    busy = (rest["utilization"] * rest["duration"]).sum()
    assert busy / (end - counters[whole][0]) == pytest.approx(counters[whole][1], rel=1e-3)


@pytest.mark.parametrize(("workers", "span"), SAMPLES)
def test_sm_efficiency_is_the_mean_of_the_plugins_changes(workers: int, span: int) -> None:
    counters = plugins_counters(workers, span, "Est. SM Efficiency")
    frame, origin = ours(workers, span, bucket=10_000_000)
    edges = np.append(frame["time"].to_numpy(), frame["time"][-1] + frame["duration"][-1]) + origin
    start, end = (np.array([time for time, _ in counters[half::2]]) for half in (0, 1))
    value = np.array([value for _, value in counters[0::2]])
    for bucket in range(0, frame.height, 7):
        inside = np.minimum(end, edges[bucket + 1]) - np.maximum(start, edges[bucket])
        expected = (np.maximum(inside, 0) * value).sum() / (edges[bucket + 1] - edges[bucket])
        assert frame["sm_efficiency"][bucket] == pytest.approx(expected, abs=1e-9)


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


def test_without_device_work_there_is_no_row(tmp_path: Path) -> None:
    result = device_utilization_series(drawn.job(tmp_path, HOST))
    assert (len(result), result.notes) == (
        0,
        (not_recorded("device work"),),
    )
