"""A run in numbers: what each metric was in each step."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope.compare.statistics.numbers import MetricSeries, numbers
from kinetoscope.model.steps.selection import Selection
from kinetoscope.reading import read
from tests.compare.drawing import call, loop
from tests.conftest import OURS
from tests.drawn import annotation, memory, op, written

V100 = [{"id": 0, "name": "Tesla V100"}]


def test_times_of_each_step_to_the_nanosecond(tmp_path: Path) -> None:
    one = [op("aten::outer", 90, 200), *call("aten::mm", 100, 50, "gemm", 160, 300, 1)]
    two = [*call("aten::mm", 100, 50, "gemm", 160, 200, 1), *call("aten::add", 300, 50, "add", 400, 100, 2)]
    found = numbers(loop(tmp_path, one, two, deviceProperties=V100))
    assert found.series == {
        "step_time": MetricSeries((1000.0, 1000.0)),
        "op:aten::outer": MetricSeries((300.0, 0.0), "device"),
        "op:aten::mm": MetricSeries((300.0, 200.0), "device"),
        "op:aten::add": MetricSeries((0.0, 100.0), "device"),
        "kernel:gemm": MetricSeries((300.0, 200.0), "device"),
        "kernel:add": MetricSeries((0.0, 100.0), "device"),
    }
    assert found.environment.devices == ("Tesla V100",)
    assert found.steps == 2


def test_without_a_device_operators_have_their_time_on_the_host(tmp_path: Path) -> None:
    inside = [op("aten::linear", 100, 500), op("aten::addmm", 200, 300)]
    found = numbers(loop(tmp_path, inside, inside))
    assert found.series["op:aten::linear"] == MetricSeries((500.0, 500.0), "host")
    assert found.series["op:aten::addmm"] == MetricSeries((300.0, 300.0), "host")
    assert found.environment.devices == ()
    assert not found.has("kernel:")


def test_what_runs_after_its_step_counts_where_it_was_launched(tmp_path: Path) -> None:
    found = numbers(loop(tmp_path, call("aten::mm", 900, 50, "gemm", 990, 100, 1), []))
    assert found.series["kernel:gemm"].values == (100.0, 0.0)
    assert found.series["step_time"].values == (1090.0, 910.0)


def test_warm_up_does_not_count_unless_it_is_selected(tmp_path: Path) -> None:
    slow = call("aten::mm", 100, 50, "gemm", 990, 2000, 1)
    job = loop(tmp_path, slow, [], [], [], [], [], [], [])
    assert numbers(job).steps < numbers(job, select=Selection(steps=range(100))).steps == 8


def test_of_several_ranks_times_are_means_and_the_peak_is_the_greatest(tmp_path: Path) -> None:
    for rank, length in enumerate((300, 500)):
        events = [annotation("ProfilerStep#0", 0, 1000 + 200 * rank), op("aten::mm", 100, length)]
        events += [memory(50, 100 * (rank + 1), device=0), memory(60, -10, device=0)]
        written(tmp_path / f"rank{rank}.json", *events, distributedInfo={"rank": rank, "world_size": 2})
    found = numbers(read(tmp_path, jobs=1))
    assert found.environment.ranks == 2
    assert found.series["step_time"].values == (1100.0,)
    assert found.series["op:aten::mm"].values == (400.0,)
    assert found.series["memory_peak"] == MetricSeries((200.0,), "device")


def test_throughput_is_what_the_recorder_counted(tmp_path: Path) -> None:
    facts = {"steps": [{"step": 10, "samples": 32}, {"step": 11, "samples": 64}], "versions": {"torch": "2.9"}}
    found = numbers(loop(tmp_path, [], [], [], kinetoscope=facts))
    assert found.series["throughput"].values == (32 / 1e-6, 64 / 1e-6)
    assert found.environment.versions == {"torch": "2.9"}


def test_a_name_that_is_no_metric_of_ours_is_an_operator_all_the_same(tmp_path: Path) -> None:
    found = numbers(loop(tmp_path, [op("a=b;c`|\n", 0, 10)], [op("ProfilerStep#nobody", 0, 10)]))
    assert found.series["op:a=b;c`|\n"].values == (10.0, 0.0)


@pytest.mark.parametrize("name", ["mlp", "conv", "dataloader", "no_steps", "threads", "ddp2"])
def test_recordings_have_numbers_that_hang_together(name: str) -> None:
    path = OURS / name
    found = numbers(read(path if path.is_dir() else OURS / f"{name}.pt.trace.json.gz"))
    assert found.steps >= 1
    for metric, series in found.series.items():
        assert len(series.values) == (1 if metric == "memory_peak" else found.steps)
        assert min(series.values) >= 0
    assert found.series["step_time"].mean > 0


def test_operators_agree_with_the_table_of_operators(shared_traces: Path) -> None:
    import polars as pl

    from kinetoscope import operators

    job = read(shared_traces / "resnet50_v100" / "num_workers_0", jobs=1)
    select = Selection(steps=range(1000))
    table = operators(job, select=select).frame.filter(pl.col("name") == "aten::conv2d")
    found = numbers(job, select=select)
    assert sum(found.series["op:aten::conv2d"].values) == pytest.approx(table.get_column("device_total").sum())
