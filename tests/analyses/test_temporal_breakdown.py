from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope import Selection, read, temporal_breakdown
from kinetoscope.model.trace.recording import not_recorded
from tests import drawn
from tests.catalog.samples import SHARED, required


@pytest.mark.parametrize("name", ["cpu_only", "hostile/rank_not_found.json.gz", "hostile/rank_non_gpu.json.gz"])
def test_without_device_work_hta_fails_and_we_have_no_row(name: str) -> None:
    result = temporal_breakdown(read(required(SHARED) / name, jobs=1))
    assert len(result) == 0
    assert result.notes == (not_recorded("device work"),)


# --- drawn


def breakdown(folder: Path, *events: drawn.Event, **selected: object) -> list[dict[str, Any]]:
    select = Selection(**selected)  # type: ignore[arg-type]
    return temporal_breakdown(drawn.job(folder, *events), select=select).frame.to_dicts()


def numbers(row: dict[str, Any]) -> tuple[float, ...]:
    names = ("device", "window", "computation", "exposed_communication", "exposed_memory", "idle", "non_computation")
    return tuple(row[name] for name in names)


WORK = [
    drawn.kernel("gemm", 10, 20, 1),
    drawn.kernel("ncclDevKernel_AllReduce", 20, 30, 2, stream=8),
    drawn.kernel("Memcpy DtoH", 40, 20, 3, stream=9, category="gpu_memcpy"),
    drawn.kernel("gemm", 90, 10, 4),
]


def test_each_instant_of_the_window_is_charged_once(tmp_path: Path) -> None:
    [row] = breakdown(tmp_path, *WORK)
    assert numbers(row) == (0, 90, 30, 20, 10, 30, 30)
    assert (row["computation_share"], row["idle_share"]) == (30 / 90, 30 / 90)


def test_each_device_has_its_own_window(tmp_path: Path) -> None:
    rows = breakdown(tmp_path, *WORK, drawn.kernel("gemm", 0, 5, 5, device=1), drawn.kernel("gemm", 7, 5, 6, device=1))
    assert [numbers(row) for row in rows] == [(0, 90, 30, 20, 10, 30, 30), (1, 12, 10, 0, 0, 2, 0)]


def test_waits_on_streams_and_shadows_of_annotations_are_no_work(tmp_path: Path) -> None:
    wait = drawn.kernel("Stream Wait Event", 0, 500, 8, category="cuda_sync")
    shadow = drawn.kernel("ProfilerStep#1", 0, 500, 9, category="gpu_user_annotation")
    assert breakdown(tmp_path, *WORK, wait, shadow) == breakdown(tmp_path, *WORK)


def test_work_of_no_duration_has_no_shares(tmp_path: Path) -> None:
    [row] = breakdown(tmp_path, drawn.kernel("gemm", 10, 0, 1))
    assert (row["window"], row["computation_share"], row["idle_share"]) == (0, None, None)


def test_a_range_of_time_clips(tmp_path: Path) -> None:
    assert [numbers(row) for row in breakdown(tmp_path, *WORK, time=(5, 85))] == [(0, 80, 20, 20, 10, 30, 30)]


def test_the_window_of_selected_steps_is_the_devices_time_in_them(tmp_path: Path) -> None:
    steps = [drawn.annotation(f"ProfilerStep#{number}", 100 * number, 100) for number in range(3)]
    launches = [drawn.launch(50, 5, 1), drawn.launch(160, 5, 2), drawn.launch(250, 5, 3)]
    work = [drawn.kernel("gemm", 60, 60, 1), drawn.kernel("gemm", 170, 50, 2), drawn.kernel("gemm", 260, 10, 3)]
    drawing = [*steps, *launches, *work]
    assert [numbers(row) for row in breakdown(tmp_path, *drawing, steps=(1,))] == [(0, 220 - 120, 50, 0, 0, 50, 0)]
    assert [numbers(row) for row in breakdown(tmp_path, *drawing, steps=(0, 2))] == [(0, 120 + 80, 70, 0, 0, 130, 0)]


def test_work_of_a_step_that_ran_in_the_step_before_is_outside_the_window(tmp_path: Path) -> None:
    steps = [drawn.annotation(f"ProfilerStep#{number}", 100 * number, 100) for number in range(2)]
    launches = [drawn.launch(50, 5, 1), drawn.launch(110, 5, 2), drawn.launch(160, 5, 3)]
    work = [
        drawn.kernel("gemm", 60, 90, 1),
        drawn.kernel("gemm", 120, 20, 2, stream=8),
        drawn.kernel("gemm", 170, 10, 3),
    ]
    assert [numbers(row) for row in breakdown(tmp_path, *steps, *launches, *work, steps=(1,))] == [
        (0, 200 - 150, 10, 0, 0, 40, 0)
    ]


def test_the_window_of_a_range_of_time_is_that_range_whatever_runs_in_it(tmp_path: Path) -> None:
    events = (drawn.op("aten::mm", 0, 100), drawn.kernel("gemm", 20, 10, 1), drawn.kernel("gemm", 80, 10, 2))
    job = drawn.job(tmp_path, *events)
    for time, window, computation in (((40, 60), 20, 0), ((25, 85), 60, 10), ((70, 900), 30, 10)):
        [row] = temporal_breakdown(job, select=Selection(time=time)).frame.to_dicts()
        assert (row["window"], row["computation"], row["idle"]) == (window, computation, window - computation)


def test_nothing_selected_is_not_nothing_recorded(tmp_path: Path) -> None:
    nobody = Selection(annotation="forward")
    result = temporal_breakdown(drawn.job(tmp_path, drawn.annotation("forward", 0, 1), *WORK), select=nobody)
    assert len(result) == 0
    assert result.notes[-1].code == "NO_WORK_SELECTED"
