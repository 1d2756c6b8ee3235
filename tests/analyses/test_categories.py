"""Categories: drawn, and against the table of kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from kinetoscope import categories, kernels, operators
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.recording import not_recorded
from tests.drawn import annotation, job, kernel, launch, op

EVENTS = [
    annotation("ProfilerStep#1", 0, 100),
    op("aten::linear", 0, 40),
    op("aten::addmm", 5, 30),
    launch(10, 5, 1),
    kernel("a_name_that_says_nothing", 50, 20, 1),
    op("my::operator", 60, 20),
    launch(65, 5, 2),
    kernel("void softmax_warp_forward<float>", 75, 10, 2),
    annotation("ProfilerStep#2", 100, 100),
    launch(110, 5, 3),
    kernel("triton_poi_fused_add_0", 120, 30, 3),
    kernel("triton_poi_fused_add_0", 130, 30, 4, stream=8),
    launch(111, 5, 4),
    launch(130, 5, 5),
    kernel("Memcpy HtoD", 170, 10, 5, category="gpu_memcpy"),
]


def rows(folder: Path, **params: Any) -> list[tuple[Any, ...]]:
    return categories(job(folder, *EVENTS), **params).frame.drop("rank").rows()


def test_the_operator_decides_and_then_the_kernel(tmp_path: Path) -> None:
    assert rows(tmp_path) == [
        (None, "elementwise", 2, 60, 0.6, 40, 30, 0, 0),
        (None, "GEMM", 1, 20, 0.2, 20, 10, 2, 40),
        (None, "copy", 1, 10, 0.1, 10, 5, 0, 0),
        (None, "softmax", 1, 10, 0.1, 10, 5, 0, 0),
        (None, "other", 0, 0, 0.0, 0, 0, 1, 20),
    ]


def test_by_step_work_is_where_it_was_launched(tmp_path: Path) -> None:
    assert rows(tmp_path, by="step") == [
        (1, "GEMM", 1, 20, 2 / 3, 20, 20, 2, 40),
        (1, "softmax", 1, 10, 1 / 3, 10, 10, 0, 0),
        (1, "other", 0, 0, 0.0, 0, 0, 1, 20),
        (2, "elementwise", 2, 60, 6 / 7, 40, 60, 0, 0),
        (2, "copy", 1, 10, 1 / 7, 10, 10, 0, 0),
    ]


def test_a_range_of_time_cuts_the_work(tmp_path: Path) -> None:
    found = rows(tmp_path, select=Selection(time=(60, 80)))
    assert [(row[1], row[3]) for row in found if row[3]] == [("GEMM", 10), ("softmax", 5)]


def test_it_sums_to_the_table_of_kernels_and_of_sql(tmp_path: Path) -> None:
    traced = job(tmp_path, *EVENTS)
    ours = dict(categories(traced).frame.filter(pl.col("total") > 0).select("category", "total").iter_rows())
    by_name = kernels(traced, copies=True).frame.group_by("category").agg(pl.col("total").sum())
    assert dict(by_name.iter_rows()) == ours
    sql = traced.sql("SELECT category, sum(duration) AS total FROM kernels GROUP BY category").frame
    assert dict(sql.iter_rows()) == ours
    assert dict(operators(traced).frame.select("name", "category").iter_rows()) == {
        "aten::linear": "GEMM",
        "aten::addmm": "GEMM",
        "my::operator": "softmax",
        "cudaLaunchKernel": None,
        "ProfilerStep*": None,
    }


def test_without_a_device_there_is_time_on_the_host(tmp_path: Path) -> None:
    result = categories(job(tmp_path, op("aten::mm", 0, 10), op("aten::relu", 20, 4)))
    found = result.frame.select("category", "total", "host_self").rows()
    assert found == [("GEMM", None, 10), ("elementwise", None, 4)]
    assert result.notes == (not_recorded("device work", "the columns of device time are empty"),)
