"""`kinetoscope record --hang` on programs: what it leaves, and what it leaves alone."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

STEPS = """
import ctypes, os, subprocess, sys, time, torch
os.environ.setdefault("RANK", "0")
weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.1)
def step():
    weight.grad = torch.ones(3)
    optimizer.step()
for _ in range(3): step()
"""


def recording(folder: Path, program: str, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kinetoscope", "record", "--hang", "--hang-after", "1s", *options]
    command += ["-o", str(folder), "--", sys.executable, "-c", STEPS + program]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(job: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = job.communicate(timeout=200)
    return job.returncode, out, err


def test_of_a_program_that_ends_well_nothing_is_left(tmp_path: Path) -> None:
    job = recording(tmp_path, "print(weight.tolist())")
    code, out, err = ended(job)
    assert (code, err.splitlines()[-1]) == (0, "kinetoscope: nothing hung")
    assert out.startswith("[0.")
    assert [each.name for each in tmp_path.iterdir() if each.name in ("hang", "late")] == []


def test_a_step_that_does_not_end_is_written_and_the_exit_code_stays(tmp_path: Path) -> None:
    job = recording(tmp_path, "time.sleep(4)\nraise SystemExit(7)")
    assert ended(job)[0] == 7
    note = json.loads((tmp_path / "late" / "note_rank_0.txt").read_text())
    assert (note["why"], note["step"], note["code"]) == ("step", 3, "")  # `python -c` has no file
    assert note["went_on_after"] > 1
    assert "in <module>" in (tmp_path / "late" / "stacks_rank_0.txt").read_text()


def test_stacks_of_a_process_whose_interpreter_stood_still_are_there(tmp_path: Path) -> None:
    program = """
time.sleep(0.6)  # the watch has seen that it is a rank
subprocess.Popen(["sh", "-c", f"sleep 6; kill -9 {os.getpid()}"])
def frozen(): ctypes.PyDLL(None).sleep(60)
frozen()
"""
    job = recording(tmp_path, program)
    code, _, err = ended(job)
    assert code == 128 + 9, err
    assert "in frozen" in (tmp_path / "hang" / "stacks_rank_0.txt").read_text()
    assert json.loads((tmp_path / "hang" / "exit_rank_0.txt").read_text())["signal"] == "SIGKILL"


def test_a_timer_of_the_program_is_left_alone(tmp_path: Path) -> None:
    program = """
import faulthandler
faulthandler.dump_traceback_later(3)
ctypes.PyDLL(None).sleep(4)
"""
    job = recording(tmp_path, program)
    assert "Timeout (0:00:03)!" in ended(job)[2]


def test_trigger_asks_for_it_while_the_program_runs(tmp_path: Path) -> None:
    job = recording(tmp_path, "time.sleep(8)", "--hang-after", "60s")
    command = [sys.executable, "-m", "kinetoscope", "trigger", "--hang", str(tmp_path)]
    for _ in range(100):
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            break
        time.sleep(0.2)
    assert "what the ranks wait for" in asked.stderr
    assert asked.stdout.splitlines() == [str(tmp_path / "hang" / "note_rank_0.txt")]
    assert ended(job)[0] == 0
    assert (tmp_path / "asked" / "stacks_rank_0.txt").exists()
