"""Runs whose ranks were recorded by several tools are one job; of a rank that two recorded the richer is read."""

from __future__ import annotations

import json
from pathlib import Path

import kinetoscope
from tests.drawn import kernel, launch, op
from tests.readers.test_proton import TREE


def kineto(file: Path) -> None:
    file.write_text(json.dumps({"traceEvents": [op("aten::mm", 0, 90), launch(10, 5, 1), kernel("gemm", 20, 60, 1)]}))


def test_ranks_by_several_tools_are_one_job(tmp_path: Path) -> None:
    kineto(tmp_path / "rank0.json")
    (tmp_path / "rank1.hatchet").write_text(json.dumps(TREE))
    job = kinetoscope.read(tmp_path)
    assert [(source.rank, source.reader) for source in job.sources] == [(0, "kineto"), (1, "proton")]
    [said] = [note for note in job.notes if note.code == "SEVERAL_TOOLS"]
    assert "kineto (rank 0); proton (rank 1)" in said
    names = kinetoscope.kernels(job).frame.filter(rank=1)["name"].to_list()
    assert "mm_kernel" in names
    busy = kinetoscope.device_utilization(job)
    assert set(busy.frame["rank"]) == {0}
    assert [note for note in busy.notes if note.startswith("Rank 1: Triton Proton")]
    assert kinetoscope.stragglers(job) is not None


def test_of_a_rank_recorded_twice_the_richer_is_read(tmp_path: Path) -> None:
    kineto(tmp_path / "rank0.json")
    kinetoscope.convert(tmp_path / "rank0.json", tmp_path / "rank0.pftrace", to="perfetto")
    (tmp_path / "proton.hatchet").write_text(json.dumps(TREE))
    job = kinetoscope.read(tmp_path)
    assert [(source.rank, source.reader) for source in job.sources] == [(0, "kineto")]
    [said] = [note for note in job.notes if note.code == "RECORDED_TWICE"]
    assert said == "Left out, as rank 0 was recorded with more by another tool: proton.hatchet, rank0.pftrace."


def test_a_copy_as_parquet_is_no_other_tool(tmp_path: Path) -> None:
    kineto(tmp_path / "rank0.json")
    kinetoscope.convert(tmp_path / "rank0.json", tmp_path / "copy", to="parquet")
    assert [source.reader for source in kinetoscope.read(tmp_path).sources] == ["kineto"]
