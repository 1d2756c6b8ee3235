"""Rows of hosts, of what they left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from kinetoscope.model.hangs.activity import activity_of
from kinetoscope.model.hangs.host_file import HostExit, HostFile, HostNote, ThreadStack
from kinetoscope.model.hangs.of_hosts import combined, host_records, with_hosts
from kinetoscope.model.hangs.records import CALLS, GROUPS, HOSTS

PACKAGES = "/usr/lib/python3/site-packages"
LOADER = (
    f"train.py(9): <module>;{PACKAGES}/torch/utils/data/dataloader.py(80): __next__;/lib/python3/queue.py(171): get"
)
WAITING = f"train.py(12): <module>;{PACKAGES}/torch/distributed/distributed_c10d.py(3252): all_reduce"


def stacks(rank: int, *frames: str) -> HostFile:
    return HostFile(
        f"stacks_rank_{rank}.txt", rank, tuple(ThreadStack(f"0x{n}", each) for n, each in enumerate(frames))
    )


def noted(note: HostNote) -> HostFile:
    return HostFile("note", note.rank, note=note)


def row(rank: int, *files: HostFile) -> dict[str, Any]:
    return host_records(rank, files, source="").row(0, named=True)


@pytest.mark.parametrize(
    ("stack", "code", "activity"),
    [
        (LOADER, "", "data loading"),
        (WAITING, "", "collective"),
        (WAITING.replace("all_reduce", "isend"), "", "send"),
        (f"train.py(1): f;{PACKAGES}/torch/serialization.py(90): save;train.py(2): write", "", "checkpoint"),
        ("train.py(1): <module>", "time.sleep(9)", "sleep"),
        ("train.py(1): <module>", "total += loss.item()", "synchronization"),
        ("train.py(1): <module>", "x = f(y)", None),
        ("", "", None),
    ],
)
def test_an_activity_is_where_the_innermost_known_frame_is(stack: str, code: str, activity: str | None) -> None:
    assert activity_of(stack, code) == activity


def test_the_main_thread_is_the_one_of_the_note_else_the_last() -> None:
    files = stacks(0, "a.py(1): f", LOADER)
    assert row(0, files)["line"] == "train.py:9"
    assert row(0, files, noted(HostNote(0, main_thread="0x0")))["line"] == "a.py:1"


@pytest.mark.parametrize(
    ("note", "code", "ended"),
    [
        (None, -9, "killed by signal 9"),
        (None, 3, "exit code 3"),
        (None, -15, None),
        (None, -6, "killed by signal 6"),
        (HostNote(0, why="step"), -6, None),
        (HostNote(0, why="step"), None, None),
        (HostNote(0, why="end", is_over=True), None, "the program ended"),
        (HostNote(0, why="exception", exception="ValueError: bad"), 1, "exception ValueError: bad"),
        (HostNote(0, why="exception", exception="RuntimeError: [gloo/x.cc] Connection closed by peer"), 1, None),
        (HostNote(0, why="exception", exception="torch.OutOfMemoryError: CUDA out of memory"), 1, "out of memory"),
    ],
)
def test_who_ends_since_others_did_not_come_has_not_ended_by_itself(
    note: HostNote | None, code: int | None, ended: str | None
) -> None:
    files = [noted(note)] if note else []
    files += [HostFile("exit", 0, exits=(HostExit(0, code),))] if code is not None else []
    assert row(0, *files)["ended"] == ended


def test_a_file_may_speak_of_ranks_that_left_nothing() -> None:
    log = HostFile("log", None, exits=(HostExit(5, -9),), is_log=True)
    found = host_records(0, [stacks(0, WAITING), log], last_time=7)
    assert found.select("rank", "ended", "source", "last_time").rows() == [
        (0, None, "flight recorder, stacks", 7),
        (5, "killed by signal 9", "log", None),
    ]
    again = host_records(5, [], last_time=3)
    assert combined(pl.concat([found, again])).filter(pl.col("rank") == 5).row(0)[-3:-1] == (
        "killed by signal 9",
        "log, flight recorder",
    )


def records(*names: str) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    group = "gloo:0 (default_pg)"
    facts = {"rank": 0, "group": group, "is_p2p": False, "state": "completed", "created": 1}
    calls = [{**facts, "name": name, "seq": n + 1, "order": n} for n, name in enumerate(names)]
    groups = [{"rank": 0, "group": group, "called": len(names), "done": len(names), "first_seq": 1}]
    full = ((CALLS, calls), (GROUPS, groups), (HOSTS, [{"rank": 0, "last_time": 1, "source": "flight recorder"}]))
    made = [schema.frame([{**dict.fromkeys(schema.names), **each} for each in rows]) for schema, rows in full]
    return made[0], made[1], made[2]


FAILED = HostNote(0, why="exception", exception="RuntimeError: gloo/ timed out", failed_call="all_reduce")


@pytest.mark.parametrize(
    ("name", "note", "state", "done"),
    [
        ("all_reduce", FAILED, "scheduled", 1),
        ("broadcast", FAILED, "completed", 2),
        ("all_reduce", replace(FAILED, failed_call=""), "completed", 2),
        ("all_reduce", replace(FAILED, exception="ValueError: no"), "completed", 2),
    ],
)
def test_the_collective_that_raised_at_the_end_is_not_done(name: str, note: HostNote, state: str, done: int) -> None:
    note = replace(note, members={"0": (0, 1)})
    calls, groups, _ = with_hosts(0, records("barrier", name), [noted(note)])
    assert calls["state"].to_list() == ["completed", state]
    assert groups.select("done", "ranks").row(0) == (done, [0, 1])
