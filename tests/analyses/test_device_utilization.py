from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kinetoscope import Selection, device_utilization, kernels
from kinetoscope.schema import Result
from tests import drawn

# --- drawn


def utilization(folder: Path, *events: drawn.Event, **selected: object) -> Result:
    return device_utilization(drawn.job(folder, *events), select=Selection(**selected))  # type: ignore[arg-type]


def kernel(start: int, duration: int, correlation: int, blocks: object, occupancy: object, **more: Any) -> drawn.Event:
    args: dict[str, Any] = {"blocks per SM": blocks, "est. achieved occupancy %": occupancy}
    return drawn.kernel(more.pop("name", "gemm"), start, duration, correlation, **args, **more)


STEPS = [drawn.annotation(f"ProfilerStep#{number}", 100 * number, 100) for number in range(3)]


def test_numbers_of_one_device(tmp_path: Path) -> None:
    result = utilization(
        tmp_path,
        *STEPS,
        *(drawn.launch(10 * correlation, 1, correlation) for correlation in range(1, 5)),
        kernel(10, 40, 1, 0.5, 50),
        kernel(30, 40, 2, 0.75, 0, stream=8),
        kernel(200, 50, 3, 7, 100, name="sm90_xmma_gemm_bf16"),
        drawn.kernel("Memcpy HtoD", 260, 40, 4, category="gpu_memcpy"),
    )
    [row] = result.frame.to_dicts()
    assert (row["start"], row["end"], row["window"], row["calls"]) == (0, 300, 300, 3)
    assert row["kernel_time"] == 60 + 50
    assert row["utilization"] == 110 / 300
    # 20 ns of 0.5, 20 ns of both, which is more than 1, 20 ns of 0.75, 50 ns of 7
    assert row["sm_efficiency"] == pytest.approx((20 * 0.5 + 20 * 1 + 20 * 0.75 + 50) / 300, rel=1e-12)
    assert row["occupancy"] == pytest.approx((40 * 0.5 + 40 * 0 + 50 * 1) / 130, rel=1e-12)
    assert row["matrix_unit_share"] == 1.0  # of what is told by name; the other is unknown
    assert result.notes == ("Step 0 warms up and counts here; --steps steady leaves the warm-up out.",)


def test_kernels_before_and_after_the_steps_do_not_count(tmp_path: Path) -> None:
    before, within, late = kernel(0, 50, 1, 1, 50), kernel(150, 10, 2, 1, 50), kernel(320, 30, 3, 1, 50)
    result = utilization(tmp_path, *STEPS[1:], drawn.launch(140, 1, 2), before, within, late)
    [row] = result.frame.to_dicts()
    assert (row["start"], row["window"], row["calls"], row["kernel_time"]) == (100, 200, 1, 10)
    assert result.notes == ("2 of 3 kernels on device 0 ran before or after the steps and do not count.",)


def test_the_last_step_ends_with_its_work(tmp_path: Path) -> None:
    [row] = utilization(tmp_path, *STEPS, drawn.launch(250, 1, 1), kernel(290, 110, 1, 1, 50)).frame.to_dicts()
    assert (row["window"], row["kernel_time"]) == (400, 110)


def test_selected_steps_are_the_window(tmp_path: Path) -> None:
    launches = [drawn.launch(10 + 100 * step, 1, step + 1) for step in range(3)]
    work = [kernel(20 + 100 * step, 10 * (step + 1), step + 1, 0.5, 50) for step in range(3)]
    [row] = utilization(tmp_path, *STEPS, *launches, *work, steps=(0, 2)).frame.to_dicts()
    assert (row["start"], row["end"], row["window"], row["kernel_time"]) == (0, 300, 200, 10 + 30)
    assert row["sm_efficiency"] == pytest.approx(20 / 200)
    [row] = utilization(tmp_path, *STEPS, *launches, *work, time=(115, 225)).frame.to_dicts()
    assert (row["start"], row["window"], row["kernel_time"], row["calls"]) == (115, 110, 20 + 5, 2)


def test_each_device_has_a_row(tmp_path: Path) -> None:
    result = utilization(
        tmp_path,
        *STEPS,
        kernel(10, 30, 1, 1, 50),
        kernel(10, 60, 2, 1, 50, device=3),
        kernel(50, 60, 3, 1, 5, device=3),
    )
    assert result.frame.select("device", "kernel_time").rows() == [(0, 30), (3, 100)]


@pytest.mark.parametrize("bad", ["0.5", float("inf"), -1, None])
def test_what_is_no_number_is_missing_and_counted(tmp_path: Path, bad: object) -> None:
    result = utilization(tmp_path, *STEPS, kernel(10, 30, 1, bad, bad), kernel(50, 30, 2, 0.5, 40))
    [row] = result.frame.to_dicts()
    assert row["sm_efficiency"] == pytest.approx(15 / 300)
    assert row["occupancy"] == pytest.approx(0.4)
    assert result.notes == (
        "1 of 2 kernels on device 0 have no blocks per multiprocessor and count as empty.",
        "1 of 2 kernels on device 0 have no occupancy and are left out of the mean.",
    )


def test_what_no_kernel_has_is_null_with_the_reason(tmp_path: Path) -> None:
    result = utilization(tmp_path, *STEPS, drawn.kernel("Cijk_MI16x16x1", 10, 30, 1))
    [row] = result.frame.to_dicts()
    assert (row["utilization"], row["sm_efficiency"], row["occupancy"]) == (0.1, None, None)
    assert [note.partition(":")[0] for note in result.notes] == [
        "No kernel has blocks per multiprocessor",
        "No kernel has occupancy",
    ]


def test_names_that_do_not_tell_stand_beside_the_share(tmp_path: Path) -> None:
    [row] = utilization(
        tmp_path, *STEPS, kernel(10, 30, 1, 1, 50, name="mystery"), kernel(50, 10, 2, 1, 50, name="nvjet_hsh_128")
    ).frame.to_dicts()
    assert (row["matrix_unit_share"], row["unknown_share"]) == (1.0, 0.75)


def test_a_device_that_only_copies_is_not_utilized(tmp_path: Path) -> None:
    [row] = utilization(
        tmp_path, *STEPS, drawn.kernel("Memcpy HtoD", 10, 40, 4, category="gpu_memcpy")
    ).frame.to_dicts()
    assert (row["calls"], row["utilization"], row["sm_efficiency"]) == (0, 0.0, 0.0)
    assert (row["occupancy"], row["matrix_unit_share"]) == (None, None)


def test_without_a_step_in_the_range_of_time_there_is_no_window(tmp_path: Path) -> None:
    result = utilization(tmp_path, *STEPS, kernel(400, 30, 1, 1, 50), time=(390, 420))
    assert (len(result), result.notes) == (
        0,
        ("No device step takes any time in what was selected: there is no window.",),
    )


def test_without_selected_device_work_there_is_no_row(tmp_path: Path) -> None:
    result = utilization(tmp_path, *STEPS, kernel(10, 30, 1, 1, 50), time=(150, 160))
    assert (len(result), result.notes) == (0, ("No device work was selected.",))


def test_of_kernels_whose_names_tell_nothing_the_share_is_not_known(tmp_path: Path) -> None:
    step = drawn.annotation("ProfilerStep#1", 0, 100)
    nameless = (drawn.launch(10, 5, 1), drawn.kernel("mystery", 20, 10, 1))
    [row] = device_utilization(drawn.job(tmp_path, step, *nameless)).frame.to_dicts()
    assert (row["matrix_unit_share"], row["unknown_share"]) == (None, 1.0)
    told = (drawn.launch(40, 5, 2), drawn.kernel("nvjet_hsh", 50, 30, 2))
    [row] = device_utilization(drawn.job(tmp_path, step, *nameless, *told)).frame.to_dicts()
    assert (row["matrix_unit_share"], row["unknown_share"]) == (1.0, 0.25)


def test_the_share_of_matrix_units_is_that_of_the_kernels_column(tmp_path: Path) -> None:
    """Collectives and names that do not tell are in neither: the pages of both say one number."""
    names = ["nvjet_hsh_128", "at::native::add", "mystery", "ncclDevKernel_AllReduce"]
    work = [kernel(10 + 50 * place, 10 * (place + 1), place, 1, 50, name=name) for place, name in enumerate(names)]
    job = drawn.job(tmp_path, *STEPS, *work)
    row = device_utilization(job).frame.row(0, named=True)
    assert (row["matrix_unit_share"], row["told_time"], row["computation_time"]) == (10 / 30, 30, 60)
    told = kernels(job).frame.filter((pl.col("kind") == "computation") & (pl.col("matrix_unit") != "unknown"))
    assert told.sort("total").select("matrix_unit", "total").rows() == [("yes", 10), ("no", 20)]


def test_a_device_without_matrix_units_has_no_share_of_them(tmp_path: Path) -> None:
    step = drawn.annotation("ProfilerStep#1", 0, 100)
    old = {"id": 0, "name": "Tesla P100", "computeMajor": 6, "computeMinor": 0}
    job = drawn.job(tmp_path, step, kernel(10, 30, 1, 1, 50, name="maxwell_sgemm_128x64_nn"), deviceProperties=[old])
    assert device_utilization(job).frame["matrix_unit_share"].to_list() == [None]
    of_mtia = drawn.kernel("maxwell_sgemm_128x64_nn", 10, 30, 1, category="mtia_ccp_events")
    row = device_utilization(drawn.job(tmp_path, step, of_mtia)).frame.row(0, named=True)
    assert (row["matrix_unit_share"], row["unknown_share"]) == (None, 1.0)
