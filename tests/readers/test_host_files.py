"""What hosts leave is read strictly: stacks of faulthandler, notes, logs."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.errors import BrokenTraceError
from kinetoscope.model.hangs.host_file import HostExit
from kinetoscope.model.trace.source import Source
from kinetoscope.readers.job.host_files import FILES, host_file_at
from kinetoscope.readers.job.host_texts import exit_of, exits_in_log, note_of, thread_stacks
from kinetoscope.reading import read
from tests import drawn

TEXT = """Timeout (0:01:00)!
Thread 0x00007f70be6546c0 [pt_main_thread] (most recent call first):
  File "/lib/python3.11/threading.py", line 331 in wait
  File "/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x7f70f0a02b80 (most recent call first):
  Garbage-collecting
  File "/home/me/my; train.py", line 9 in <module>
"""

LOG = """
[rank2]:[E1128] [PG ID 0 PG GUID 0(default_pg) Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)
[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
Failures:
[1]:
  rank      : 1 (local_rank: 1)
  exitcode  : -15 (pid: 27237)
[2]:
  rank      : 4 (local_rank: 4)
  exitcode  : 1 (pid: 27240)
Root Cause (first observed failure):
[0]:
  time      : 2026-11-28_19:56:14
  rank      : 0 (local_rank: 0)
  exitcode  : -9 (pid: 27236)
  traceback : Signal 9 (SIGKILL) received by PID 27236
"""


def test_stacks_are_outermost_first_and_the_last_state_of_a_thread_counts() -> None:
    threads = thread_stacks(TEXT + TEXT.replace("line 9", "line 10"), "stacks")
    assert [each.thread for each in threads] == ["0x00007f70be6546c0", "0x00007f70f0a02b80"]
    assert threads[0].stack == "/lib/python3.11/threading.py(1002): _bootstrap;/lib/python3.11/threading.py(331): wait"
    assert threads[1].stack == "/home/me/my  train.py(10): <module>"
    assert (threads[0].collects, threads[1].collects) == (False, True)


def test_what_this_python_writes_is_read(tmp_path: Path) -> None:
    with (tmp_path / "stacks").open("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        threads = {each.thread: each.stack for each in thread_stacks(file.read(), "stacks")}
    here = threads[f"0x{threading.get_ident():016x}"]
    assert here.split(";")[-1].endswith(": test_what_this_python_writes_is_read")


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    for function in (thread_stacks, note_of, exit_of):
        with contextlib.suppress(BrokenTraceError):
            function(text, "it")
    exits_in_log(text.splitlines())


@pytest.mark.parametrize("rank", [-1, True, None, "0", 1 << 40])
def test_a_note_of_no_rank_is_refused(rank: object) -> None:
    with pytest.raises(BrokenTraceError, match="names no rank"):
        note_of(json.dumps({"rank": rank}), "it")


def test_facts_of_other_types_are_left_out() -> None:
    groups = [{"name": "0", "ranks": [0, "1", -1, 2]}, {"name": 3, "ranks": []}, 7]
    note = note_of(json.dumps({"rank": 1, "world": "many", "why": 3, "since_step": None, "groups": groups}), "it")
    assert (note.world, note.why, note.since_step, note.members) == (0, "", 0.0, {"0": (0, 2)})


def test_a_log_tells_who_waited_who_had_no_memory_and_who_failed_first() -> None:
    found = exits_in_log(LOG.splitlines())
    assert found == (HostExit(2, None, "watchdog"), HostExit(3, None, "out of memory"), HostExit(0, -9))


def test_files_of_ranks_without_a_trace_belong_to_the_first(tmp_path: Path) -> None:
    for rank in (1, 2):
        drawn.written(tmp_path / f"rank{rank}.json", drawn.op("aten::mm", 0, 10), distributedInfo={"rank": rank})
    (tmp_path / "hang").mkdir()
    (tmp_path / "hang" / "exit_rank_0.txt").write_text(json.dumps({"rank": 0, "code": -9}))
    (tmp_path / "hang" / "stacks_rank_2.txt").write_text(TEXT)
    (tmp_path / "hang" / "job.log").write_text(LOG)
    job = read(tmp_path)
    names = {rank: [Path(each.url).name for each in job.trace(rank).companions("hang")] for rank in job.ranks}
    assert names == {1: ["exit_rank_0.txt", "job.log"], 2: ["stacks_rank_2.txt"]}


def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "note_rank_0.txt"
    path.write_text(TEXT)
    with pytest.raises(BrokenTraceError, match="note_rank_0"):
        host_file_at(Source(str(path), 0), str(path))


def test_stacks_of_any_name_are_recognised_by_their_text() -> None:
    assert FILES.recognises("dump", TEXT.encode)
    assert not FILES.recognises("dump", lambda: b"a text")
