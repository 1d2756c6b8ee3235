"""Idle gaps: drawn, and against the breakdown of the same time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope import idle_breakdown, idle_gaps, read
from tests import drawn
from tests.catalog.samples import SHARED, required

EVENTS = [
    drawn.annotation("ProfilerStep#4", 0, 9000),
    drawn.op("aten::mm", 100, 50),
    drawn.launch(110, 10, 1),
    drawn.kernel("first", 200, 800, 1),
    drawn.op("aten::stack", 1100, 700),
    drawn.op("aten::copy_", 1900, 200),
    drawn.launch(1950, 50, 2),
    drawn.kernel("second", 2100, 100, 2),
    drawn.launch(2000, 5, 3),
    drawn.kernel("third", 2300, 100, 3, stream=8),
]


def rows(folder: Path, **how: Any) -> list[tuple[Any, ...]]:
    return idle_gaps(drawn.job(folder, *EVENTS), **how).frame.drop("rank", "row").rows()


def test_each_gap_has_its_largest_reason_and_what_ended_it(tmp_path: Path) -> None:
    assert rows(tmp_path) == [
        (0, None, 1000, 1100, "launch late", "host operator", 750, 4, "second", "aten::copy_"),
        (0, None, 2200, 100, "launch latency", "launched just before", 100, 4, "third", "aten::copy_"),
    ]
    result = idle_gaps(drawn.job(tmp_path, *EVENTS), min_duration=200)
    assert result.frame.get_column("duration").to_list() == [1100]
    assert "1 of 2 gaps are shorter than min_duration, or empty." in result.notes


def test_by_stream(tmp_path: Path) -> None:
    assert [row[1:6] for row in rows(tmp_path, by="stream")] == [(7, 1000, 1100, "host wait", "launched late")]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["device", "stream"])
@pytest.mark.parametrize("path", ["owlv2_h100", "resnet_ddp_mi300", "queue_length", "eager_b200"])
def test_the_gaps_are_the_idle_time(path: str, by: Any) -> None:
    required(SHARED / path)
    job = read(SHARED / path)
    found = idle_gaps(job, by=by).frame
    assert found.get_column("duration").sum() == idle_breakdown(job, by=by).frame.get_column("time").sum()
    assert (found.get_column("detail_time") <= found.get_column("duration")).all()


def test_quartiles_of_the_breakdown_are_over_gaps(tmp_path: Path) -> None:
    kernels = [drawn.kernel(f"k{i}", at, 10, 0) for i, at in enumerate((0, 20, 50, 90, 140))]  # 10, 20, 30, 40
    row = idle_breakdown(drawn.job(tmp_path, *kernels)).frame.to_dicts()[0]
    names = ("gaps", "mean", "min", "p25", "median", "p75", "longest")
    assert [row[name] for name in names] == [4, 25, 10, 18, 25, 33, 40]
    assert row["std"] == pytest.approx(125**0.5)
