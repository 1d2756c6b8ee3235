"""Each planted hang, once: stacks, dumps and notes are there without anyone's help. The score is `tests.hangs.real`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kinetoscope.model.hangs.of_hosts import combined, host_records
from kinetoscope.model.trace.source import Source
from kinetoscope.readers.job.host_files import host_file_at, is_named
from tests.hangs.real.planted import FAULTS, Planted, planted, run

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.xdist_group("real hangs")]

BESIDE = 3
"""Jobs at once: most of a job is waiting for time to pass."""

ABORTS = ("other shape", "other type")
"""Gloo aborts a process that receives more than it expects."""

AT_END: dict[str, dict[str, str]] = {
    "killed": {"ended": "killed by signal 9"},
    "os._exit": {"ended": "exit code 3"},
    "exhausted loader": {"ended": "exit code 0"},
    "checkpoint": {"activity": "checkpoint"},
    "host asleep": {"activity": "sleep"},
    "unmatched send": {"activity": "send"},
    "unmatched receive": {"activity": "receive"},
}
"""What the host of the planted rank must show."""


def hosts(folder: Path) -> dict[int, dict[str, Any]]:
    files = [host_file_at(Source(str(each), 0), str(each)) for each in folder.iterdir() if is_named(each.name)]
    rows = [host_records(file.rank or 0, [other for other in files if other.rank == file.rank]) for file in files]
    return {row["rank"]: row for row in combined(pl.concat(rows)).iter_rows(named=True)}


Left = tuple[Planted, subprocess.CompletedProcess[str], Path]
"""What was planted in a job, how it ended, and its folder."""


@pytest.fixture(scope="module")
def jobs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Left]]]:
    """The jobs of all causes that are asked about; each runs some time."""

    def left(cause: str) -> Left:
        what, folder = planted(cause, 0, most=3), tmp_path_factory.getbasetemp() / f"hang of {cause}"
        return what, run(what, folder), folder

    items: list[Any] = request.session.items
    asked = [each.callspec.params["cause"] for each in items if each.path == request.path]
    with ThreadPoolExecutor(BESIDE) as pool:
        yield {cause: pool.submit(left, cause) for cause in asked}


@pytest.mark.parametrize("cause", FAULTS)
def test_a_hang_leaves_what_shows_it(cause: str, jobs: dict[str, Future[Left]]) -> None:
    what, done, folder = jobs[cause].result()
    if not FAULTS[cause].is_hang:
        assert done.returncode == 0
        assert (folder / "late" / f"stacks_rank_{what.rank}.txt").read_text()
        return
    assert done.returncode != 0
    rows = hosts(folder / "hang")
    assert {*rows} == {*range(what.world)}, done.stderr[-2000:]
    left = {each.name for each in (folder / "hang").iterdir()}
    for rank in range(what.world):
        if cause not in ABORTS and not (rank == what.rank and cause in ("killed", "os._exit")):
            assert {f"stacks_rank_{rank}.txt", f"note_rank_{rank}.txt", f"fr_trace_rank_{rank}"} <= left
    assert {name: rows[what.rank][name] for name in AT_END.get(cause, {})} == AT_END.get(cause, {})
    assert json.loads((folder / "truth.json").read_text())["rank"] == what.rank
