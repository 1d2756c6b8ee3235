"""The watch for hangs, as far as it needs no torch."""

from __future__ import annotations

import json
import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.cli import record, trigger
from kinetoscope.errors import NotFoundError, UsageError
from kinetoscope.record.hangs import evidence, frozen
from kinetoscope.record.hangs.agent import leave_exit
from kinetoscope.record.hangs.collection import collected, put_aside, said
from kinetoscope.record.hangs.variables import set_variables
from kinetoscope.record.hangs.watch import WATCHED, HangWatch, StepClock
from kinetoscope.record.session.child_config import RecordPlan
from kinetoscope.record.session.options import rank_identity


def clock(*steps: float) -> StepClock:
    made = StepClock()
    for each in steps:
        made.last -= each
        made.tick()
    return made


@pytest.mark.parametrize(
    ("steps", "timeout", "limit"),
    [
        ((), math.inf, 300),
        ((90,), math.inf, 300),
        ((90, 2), math.inf, 60),
        ((90, 20, 3), math.inf, 200),
        ((90, 20, 3), 180, 90),
        ((90, 20, 3), 14, 60),
    ],
)
def test_a_step_hangs_after_ten_times_the_longest_but_the_first(
    steps: tuple[float, ...], timeout: float, limit: float
) -> None:
    assert clock(*steps).limit(60, timeout) == pytest.approx(limit, abs=1)


def test_variables_of_the_user_stay() -> None:
    environment = {"TORCH_NCCL_TRACE_BUFFER_SIZE": "50"}
    assert set_variables(Path("/r/hang"), of_all=True, environment=environment) == ["TORCH_FR_DUMP_TEMP_FILE"]
    assert environment["TORCH_FR_DUMP_TEMP_FILE"] == "/r/hang/nccl_trace_rank_"
    set_variables(Path("/r/hang-1"), of_all=True, environment=environment)  # the ranks were started again
    assert environment["TORCH_FR_DUMP_TEMP_FILE"] == "/r/hang-1/nccl_trace_rank_"
    theirs = {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/mine", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0"}
    assert set_variables(Path("/r/hang"), of_all=False, environment=theirs) == ["TORCH_NCCL_TRACE_BUFFER_SIZE"]


def plan_of(folder: Path) -> RecordPlan:
    return RecordPlan(dir=str(folder), control=str(folder / ".kinetoscope"), hang=True)


def noted(folder: Path, rank: int, why: str, name: str = "hang", **more: Any) -> None:
    (folder / name).mkdir(exist_ok=True)
    note = {"rank": rank, "world": 2, "host": rank_identity().host, "why": why, **more}
    (folder / name / f"note_rank_{rank}.txt").write_text(json.dumps(note))
    (folder / name / f"stacks_rank_{rank}.txt").write_text("")


def test_what_cannot_be_watched_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no --for, no URL"):
        record.run(["--hang", "--for", "5s", "--", "true"])
    (tmp_path / ".kinetoscope").mkdir()
    with pytest.raises(NotFoundError, match="no rank of"):
        trigger.run(["--hang", str(tmp_path)])


def test_of_a_job_that_ends_well_nothing_stays(tmp_path: Path) -> None:
    noted(tmp_path, 0, "end")
    noted(tmp_path, 1, "end")
    assert said(collected(plan_of(tmp_path), 1, 0)) == "nothing hung"
    assert not (tmp_path / "hang").exists()


def test_what_hung_stays_and_so_does_what_was_late(tmp_path: Path) -> None:
    noted(tmp_path, 0, "end")
    noted(tmp_path, 1, "step")
    text = said(collected(plan_of(tmp_path), 1, 1))
    assert text.startswith("stacks and collectives of 2 of 2 ranks are in")
    assert f"`kinetoscope hang {tmp_path}" in text
    put_aside(str(tmp_path))
    assert [each.name.startswith("earlier-hang-") for each in tmp_path.iterdir()] == [True]
    noted(tmp_path, 1, "step", evidence.LATE_FOLDER)
    assert "and ended" in said(collected(plan_of(tmp_path), 1, 0))


def test_stacks_of_a_process_that_stood_still_come_to_the_others(tmp_path: Path) -> None:
    control = tmp_path / ".kinetoscope"
    for folder in (control / frozen.FOLDER, control / WATCHED):
        folder.mkdir(parents=True)
    (control / frozen.FOLDER / "77").write_text("Timeout (0:00:05)!\nThread 0x1 (most recent call first):\n")
    (control / WATCHED / "3.77").write_text(json.dumps({"rank": 3, "world": 4, "pid": 77}))
    left = collected(plan_of(tmp_path), 77, -signal.SIGKILL)
    assert left is not None
    assert (left.ranks, left.world) == ((3,), 4)
    notes = {each.name: each.read_text() for each in left.folder.iterdir()}
    assert json.loads(notes["note_rank_3.txt"])["why"] == "the interpreter stood still"
    assert json.loads(notes["exit_rank_3.txt"])["signal"] == "SIGKILL"
    assert notes["stacks_rank_3.txt"].startswith("Timeout")


@pytest.mark.parametrize("rank", ["", "-1", "x", "9" * 12])
def test_an_exit_of_no_rank_leaves_nothing(tmp_path: Path, rank: str) -> None:
    leave_exit(str(tmp_path), rank, os.environ, 1, 1)
    assert not [*tmp_path.iterdir()]


def test_the_stack_of_an_exception_is_written_as_faulthandler_writes_it() -> None:
    with pytest.raises(ValueError, match="bad") as raised:
        raise ValueError("a bad batch")
    lines = evidence.stack_of(raised.value).splitlines()
    assert evidence.code_of(raised.value) == 'raise ValueError("a bad batch")'
    assert evidence.failure(raised.value) == {"exception": "ValueError: a bad batch", "failed_call": ""}
    assert lines[0].endswith(" (most recent call first):")
    assert lines[1].endswith("in test_the_stack_of_an_exception_is_written_as_faulthandler_writes_it")


def test_what_an_exception_left_stays_though_a_step_before_was_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    watch = HangWatch(plan_of(tmp_path))
    watch.clock.last -= 1000  # the first step takes a while
    watch._judge()
    watch.clock.tick()
    watch._over = True
    watch._end(RuntimeError("connection closed"))
    watch._judge()  # the thread comes to it once more
    why = {name: json.loads((tmp_path / name / "note_rank_2.txt").read_text())["why"] for name in ("hang", "late")}
    assert why == {"hang": "exception", "late": "before the first step"}
