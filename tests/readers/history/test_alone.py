"""A folder that has only a history is a run; beside traces the history belongs to them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kinetoscope.analyses import named
from kinetoscope.errors import KinetoscopeError
from kinetoscope.reading import read
from kinetoscope.server.runs.scan_runs import RunScanner
from tests.conftest import OURS
from tests.history.written import records, write


def test_ranks_of_a_history_are_those_of_a_run(tmp_path: Path) -> None:
    for rank in (0, 1, 11):
        write(tmp_path, records(20), rank=rank, world=12)
    job = read(tmp_path)
    assert job.ranks == (0, 1, 11)
    assert [note.code for note in job.notes] == ["RANKS_MISSING", "HISTORY_ALONE"]
    assert {len(source.files("history")) for source in job.sources} == {3}
    assert len(job.trace(11)) == 0
    assert job.trace(11).metadata["distributedInfo"]["world_size"] == 12


def test_attempts_of_a_rank_are_one_run(tmp_path: Path) -> None:
    write(tmp_path, records(20), began=1)
    write(tmp_path, records(30, first=10), began=10**12, attempt=1)
    job = read(tmp_path)
    assert (job.ranks, len(job.sources)) == ((0,), 1)
    lost = {row["cause"]: row["time"] for row in named("history_lost")(job)}
    assert lost["repeated"] == pytest.approx(10 * 110_000_000, rel=0.02)


def test_beside_traces_it_belongs_to_them_and_they_are_not_read(tmp_path: Path) -> None:
    trace = tmp_path / "rank0.pt.trace.json.gz"
    shutil.copy(OURS / "mlp.pt.trace.json.gz", trace)
    for rank in (0, 1):
        write(tmp_path, records(200), rank=rank, world=2)
    job = read(tmp_path)
    assert [source.name for source in job.sources] == [trace.name]
    trace.unlink()
    steps = named("history_steps")(job)
    assert steps["steps"].to_list() == [1] * 200
    with pytest.raises(KinetoscopeError):
        named("operators")(job)


def test_a_file_alone_is_its_rank(tmp_path: Path) -> None:
    write(tmp_path, records(20), rank=0)
    file = write(tmp_path, records(20), rank=3)
    job = read(file)
    assert job.ranks == (3,)
    assert named("history_ranks")(job)["rank"].unique().to_list() == [3]


def test_what_has_grown_is_answered_anew(tmp_path: Path) -> None:
    write(tmp_path, records(20))
    job = read(tmp_path)
    assert len(named("history_steps")(job)) == 20
    write(tmp_path, records(30))
    assert len(named("history_steps")(job)) == 30


def test_a_trace_without_history_says_so() -> None:
    answer = named("history_changes")(read(OURS / "mlp.pt.trace.json.gz"))
    assert (len(answer), [note.code for note in answer.notes]) == (0, ["NO_HISTORY"])


def test_what_only_claims_to_be_a_history_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "x.history").write_bytes(b"\x93KH\n" + bytes(40))
    with pytest.raises(KinetoscopeError) as error:
        named("history_steps")(read(tmp_path / "x.history"))
    assert "\n" not in str(error.value)


def test_the_server_lists_it_by_the_folder_of_the_run(tmp_path: Path) -> None:
    for rank in (0, 1):
        write(tmp_path / "one", records(20), rank=rank)
    write(tmp_path / "one", records(20), rank=1, began=10**12, attempt=1)
    write(tmp_path / "two", records(20))
    runs, wrong = RunScanner([str(tmp_path)]).scan()
    assert sorted((run.name, len(run.files)) for run in runs) == [("one", 3), ("two", 1)]
    assert wrong == []
