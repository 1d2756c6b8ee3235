from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinetoscope import Selection, memory_bandwidth, read
from kinetoscope.model.device.copies import copies
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace import arguments
from kinetoscope.schema import Result
from tests import drawn
from tests.catalog.samples import SHARED, required


def bandwidths(folder: Path, *events: drawn.Event, **selected: object) -> Result:
    return memory_bandwidth(drawn.job(folder, *events), select=Selection(**selected))  # type: ignore[arg-type]


def copy(
    start: int, duration: int, size: object, *, name: str = "Memcpy HtoD (Pinned -> Device)", **more: Any
) -> drawn.Event:
    category = "gpu_memset" if name.startswith("Memset") else "gpu_memcpy"
    args: dict[str, Any] = {} if size is None else {"bytes": size}
    return drawn.kernel(name, start, duration, more.pop("correlation", start + 1), category=category, **args, **more)


def test_the_mean_is_of_time_and_the_maximum_of_all_that_run(tmp_path: Path) -> None:
    events = [
        *(copy(0, 100, 1000), copy(50, 100, 3000, stream=8)),  # 10 and 30 bytes a ns
        copy(300, 100, 500, name="Memcpy DtoH (Device -> Pageable)"),
        copy(420, 80, 80, name="Memset (Device)"),
        drawn.kernel("gemm", 0, 500, 999),
    ]
    result = bandwidths(tmp_path, *events)
    rows = {row["direction"]: row for row in result.frame.to_dicts()}
    assert list(rows) == ["DtoH", "HtoD", "memset"]
    both = rows["HtoD"]
    assert (both["calls"], both["bytes"], both["total"], both["busy"]) == (2, 4000, 200, 150)
    assert both["busy_share"] == 150 / 500
    assert both["copy_bandwidth"] == pytest.approx(20e9)
    assert both["bandwidth"] == pytest.approx(4000e9 / 150)
    assert both["max_bandwidth"] == pytest.approx(40e9)
    # 10 bytes a ns for 50 ns, 40 for 50 ns, 30 for 50 ns
    quartiles = [both[f"{name}_bandwidth"] for name in ("min", "p25", "median", "p75")]
    assert quartiles == pytest.approx([10e9, 10e9, 30e9, 40e9])
    assert both["std_bandwidth"] == pytest.approx((1400 / 9) ** 0.5 * 1e9)
    assert [both[f"{name}_bytes"] for name in ("mean", "median", "min", "max", "std")] == [2000, 2000, 1000, 3000, 1000]
    assert rows["DtoH"]["bandwidth"] == rows["DtoH"]["max_bandwidth"] == pytest.approx(5e9)
    assert rows["memset"]["bandwidth"] == pytest.approx(1e9)
    assert result.notes == ()


def test_without_a_size_or_a_duration_there_is_no_bandwidth(tmp_path: Path) -> None:
    result = bandwidths(tmp_path, copy(0, 100, None), copy(200, 100, 500), copy(400, 0, 7), copy(500, 50, "?"))
    [row] = result.frame.to_dicts()
    assert (row["calls"], row["unsized"], row["bytes"], row["total"], row["busy"]) == (4, 2, 507, 250, 250)
    assert row["bandwidth"] == row["copy_bandwidth"] == row["max_bandwidth"] == pytest.approx(5e9)
    assert result.notes == (
        "2 of 4 copies and sets have no recorded size; bandwidths leave them out.",
        "1 of 4 copies and sets took 0 ns; bandwidths leave them out.",
    )
    [row] = bandwidths(tmp_path, copy(0, 100, None)).frame.to_dicts()
    missing = [row[name] for name in ("bytes", "copy_bandwidth", "bandwidth", "max_bandwidth")]
    assert (row["calls"], row["unsized"], row["busy"], missing) == (1, 1, 100, [None] * 4)


def test_a_range_of_time_cuts_times_and_counts_what_starts_in_it(tmp_path: Path) -> None:
    events = [copy(0, 100, 1000), copy(150, 100, 3000), drawn.op("aten::mm", 0, 300)]
    [row] = bandwidths(tmp_path, *events, time=(50, 200)).frame.to_dicts()
    assert (row["calls"], row["bytes"], row["total"], row["busy"]) == (1, 3000, 100, 100)
    assert row["bandwidth"] == pytest.approx((50 * 10 + 50 * 30) * 1e9 / 100)
    assert row["busy_share"] == 100 / 150


def test_steps_choose_copies_by_their_launch(tmp_path: Path) -> None:
    steps = [drawn.annotation("ProfilerStep#0", 0, 100), drawn.annotation("ProfilerStep#1", 100, 100)]
    launches = [drawn.launch(90, 5, 1), drawn.launch(105, 5, 2)]
    events = [*steps, *launches, copy(95, 30, 300, correlation=1), copy(110, 60, 600, correlation=2, stream=8)]
    [row] = bandwidths(tmp_path, *events, steps=(1,)).frame.to_dicts()
    assert (row["calls"], row["bytes"], row["busy"]) == (1, 600, 60)
    assert row["busy_share"] == (170 - 125) / (200 - 125), "the device was in the step before until 125"


def test_devices_have_rows_of_their_own(tmp_path: Path) -> None:
    frame = bandwidths(tmp_path, copy(0, 100, 1000, device=1), copy(0, 50, 10), copy(60, 40, 10)).frame
    assert frame.select("device", "calls", "busy_share").rows() == [(0, 2, 0.9), (1, 1, 1.0)]


def test_nothing_to_tell_is_said(tmp_path: Path) -> None:
    assert bandwidths(tmp_path, drawn.kernel("gemm", 0, 5, 1)).notes == (
        "No copies or sets of device memory in what was selected.",
    )


def test_sums_are_those_of_the_trace() -> None:
    job = read(required(SHARED) / "trace_diff/test", jobs=1)
    trace = job.trace()
    found, work = copies(trace), device_work(trace)
    frame = memory_bandwidth(job).frame
    assert frame["calls"].sum() == len(found.work)
    assert frame["bytes"].sum() == found.bytes.sum()
    assert frame["total"].sum() == work.duration[found.work].sum()
    # 393 GB/s, where HTA's points are half of them a rest of rounding below 1e-6 and its mean 50.8 GB/s.
    [row] = frame.filter(direction="DtoD").to_dicts()
    recorded = arguments.floats(trace, "bandwidth", work.rows[found.work])[found.direction == 0]
    weight = work.duration[found.work][found.direction == 0]
    assert found.directions[0] == "DtoD"
    assert row["copy_bandwidth"] / 1e9 == pytest.approx(np.average(recorded, weights=weight), rel=0.02)
