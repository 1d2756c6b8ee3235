"""Runs whose ranks were recorded by several tools are one job; of a rank that two recorded the richer is read."""

from __future__ import annotations

import json
from pathlib import Path

import kinetoscope
from tests.drawn import kernel, launch, op
from tests.readers.proton_trees import TREE


def kineto(file: Path) -> None:
    file.write_text(
        json.dumps({"traceEvents": [op(file.parent.name, 0, 90), launch(10, 5, 1), kernel("gemm", 20, 60, 1)]})
    )


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
    [without] = [note for note in busy.notes if note.code == "NO_TIMELINE"]
    assert without.lower().startswith("rank 1: triton proton")
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


def test_ranks_of_two_roles_are_not_the_same(tmp_path: Path) -> None:
    """Folders as verl's: phases of a role are cycles of its ranks, replicas of a role are ranks of their own."""
    for folder in ("actor_update", "actor_compute_log_prob", "rollout_replica_0", "rollout_replica_1", "ref_log_prob"):
        (tmp_path / folder).mkdir()
        kineto(tmp_path / folder / "rank0.json")
    kineto(tmp_path / "actor_update" / "rank1.json")
    job = kinetoscope.read(tmp_path)
    where = {(source.rank, source.cycle): Path(source.url).parent.name for source in job.sources}
    assert where[0, 0].startswith("actor")
    assert where[0, 1].startswith("actor")
    assert (where[2, 0], where[3, 0], where[4, 0]) == ("ref_log_prob", "rollout_replica_0", "rollout_replica_1")
    [said] = [note for note in job.notes if note.code == "ROLES"]
    assert "actor (ranks 0-1); reference (rank 2); rollout replica 0 (rank 3); rollout replica 1 (rank 4)" in said


def test_one_role_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "actor").mkdir()
    kineto(tmp_path / "actor" / "rank3.json")
    kineto(tmp_path / "rank4.json")
    job = kinetoscope.read(tmp_path)
    assert job.ranks == (3, 4)
    assert "ROLES" not in {note.code for note in job.notes}
