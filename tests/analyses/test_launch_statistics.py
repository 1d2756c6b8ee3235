from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from kinetoscope import Selection, launch_statistics, launches, read
from kinetoscope.model.trace.recording import not_recorded
from tests import drawn
from tests.catalog.samples import GOLDEN, SHARED, required

EVENTS = [
    drawn.launch(0, 10, 1),
    drawn.kernel("a", 15, 4, 1),  # delay 5, short by 6
    drawn.launch(20, 70, 2),
    drawn.kernel("b", 300, 100, 2),  # delay 210
    drawn.launch(100, 40, 3),  # its work was not recorded
    drawn.launch(200, 31, 4, name="hipModuleLaunchKernel"),
    drawn.kernel("c", 400, 30, 4, stream=8),  # delay 169, short by 1
]


def test_numbers_of_each_name_and_of_all(tmp_path: Path) -> None:
    frame = launch_statistics(drawn.job(tmp_path, *EVENTS), slow_call=39, long_delay=169).frame
    assert frame.drop("rank").rows(named=True) == [
        {
            "name": "(all)",
            "calls": 4,
            "total": 151,
            "mean": 38,
            "median": 31,
            "p99": 70,
            "max": 70,
            "delay_mean": 128,
            "delay_median": 169,
            "delay_p99": 210,
            "delay_max": 210,
            "short_kernels": 2,
            "short_excess": 7,
            "slow_calls": 2,
            "slow_excess": 32,
            "long_delays": 1,
        },
        {
            "name": "cudaLaunchKernel",
            "calls": 3,
            "total": 120,
            "mean": 40,
            "median": 40,
            "p99": 70,
            "max": 70,
            "delay_mean": 108,
            "delay_median": 5,
            "delay_p99": 210,
            "delay_max": 210,
            "short_kernels": 1,
            "short_excess": 6,
            "slow_calls": 2,
            "slow_excess": 32,
            "long_delays": 1,
        },
        {
            "name": "hipModuleLaunchKernel",
            "calls": 1,
            "total": 31,
            **dict.fromkeys(("mean", "median", "p99", "max"), 31),
            **dict.fromkeys(("delay_mean", "delay_median", "delay_p99", "delay_max"), 169),
            "short_kernels": 1,
            "short_excess": 1,
            "slow_calls": 0,
            "slow_excess": 0,
            "long_delays": 0,
        },
    ]


def test_delays_that_are_not_known_are_null(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, *EVENTS)
    rows = launch_statistics(job, select=Selection(time=(100, 150))).frame.rows(named=True)
    assert [(row["calls"], row["delay_mean"], row["delay_max"], row["long_delays"]) for row in rows] == [
        (1, None, None, None)
    ] * 2


def test_without_launches_there_are_no_rows(tmp_path: Path) -> None:
    result = launch_statistics(drawn.job(tmp_path, drawn.op("aten::mm", 0, 9)))
    assert len(result) == 0
    assert result.notes == (not_recorded("device work"),)
    nothing = launch_statistics(drawn.job(tmp_path, *EVENTS), select=Selection(time=(500, 600)))
    assert nothing.notes[-1] == "No launch is selected."


HTAS_NAMES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync")


@pytest.mark.parametrize(
    ("name", "trace", "tolerance"),
    [
        ("trace_diff__control", "trace_diff/control", 1),
        ("negative_queue_length_values_check", "queue_length", 1),
        ("ns_exact/nccl_parser_config", "ddp_nccl_a100", 300),  # HTA's doubles hold time to 250 ns
    ],
)
def test_it_equals_htas_statistics(name: str, trace: str, tolerance: int) -> None:
    golden = json.loads(required(GOLDEN / "hta" / f"{name}.json").read_text())["results"]
    answer = golden["last__cuda_kernel_launch_stats"]["result"]["include_memory_events=True"]
    [its] = answer.values()
    job = read(required(SHARED / trace))
    linked = launches(job).frame.filter(pl.col("name").is_in(HTAS_NAMES) & pl.col("delay").is_not_null())
    assert len(linked) == its["n"]
    for column, key in (("duration", "cpu_duration"), ("work_duration", "gpu_duration"), ("delay", "launch_delay")):
        values = linked[column].cast(pl.Float64)
        for mine, theirs in ((values.mean(), "mean"), (values.max(), "max"), (values.median(), "50%")):
            assert mine == pytest.approx(1000 * its[key][theirs], rel=0, abs=tolerance)
    # HTA counts a kernel as short only where the call was not slow.
    short = linked.filter((pl.col("duration") <= 50_000) & (pl.col("work_duration") < pl.col("duration")))
    assert len(short) == its["short_kernels"]
    frame = launch_statistics(job).frame.filter(pl.col("name").is_in(HTAS_NAMES))
    assert (
        frame["slow_calls"].sum() >= its["runtime_outliers_gt50us"] == len(linked.filter(pl.col("duration") > 50_000))
    )
    assert frame["long_delays"].sum() == its["launch_delay_outliers_gt100us"]


@pytest.mark.parametrize("trace", ["owlv2_h100", "mi250_train", "resnet_ddp_mi300"])
def test_names_sum_to_all(trace: str) -> None:
    job = read(required(SHARED / trace))
    frame = launch_statistics(job).frame
    whole, parts = frame.head(1), frame.tail(-1)
    assert whole["name"].item() == "(all)"
    sums = ("calls", "total", "short_kernels", "short_excess", "slow_calls", "slow_excess", "long_delays")
    assert parts.select(pl.col(sums).sum()).rows() == whole.select(sums).rows()
    assert parts.select(pl.col("max", "delay_max").max()).rows() == whole.select("max", "delay_max").rows()
    assert whole["calls"].item() == len(launches(job))


def test_what_is_waiting_of_it_is_said(tmp_path: Path) -> None:
    copy = drawn.kernel("Memcpy HtoD (Host -> Device)", 4_999_000, 1000, 1, category="gpu_memcpy")
    events = [drawn.launch(0, 5_000_000, 1, name="hipMemcpyWithStream"), copy, drawn.launch(5_000_000, 5, 2)]
    note = "In 1 of 2 calls the host waits for a copy: of their 5 ms all but some µs are waiting, see synchronizations."
    assert note in launch_statistics(drawn.job(tmp_path, *events)).notes
