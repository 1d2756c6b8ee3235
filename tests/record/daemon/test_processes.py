"""That what tests start ends with them."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kinetoscope.record.output.leftovers import is_alive
from tests.record import processes
from tests.record.programs import until

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc, as Linux has it")

_RANKS = """
import subprocess, sys, time
apart = {"start_new_session": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
ranks = [subprocess.Popen(["sleep", "1000"], **apart) for _ in range(2)]
print(*(rank.pid for rank in ranks), flush=True)
END
"""


@pytest.mark.slow
def test_sessions_of_their_own_end_too() -> None:
    with processes.ended_here() as mark:
        command = [sys.executable, "-c", _RANKS.replace("END", "time.sleep(1000)")]
        given = {**processes.environment(), **mark}
        job = subprocess.Popen(command, env=given, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert job.stdout is not None
        ranks = [int(word) for word in job.stdout.readline().split()]
        assert len(ranks) == 2
        assert all(map(is_alive, ranks))
    job.stdout.close()
    assert job.wait(10) == -signal.SIGKILL
    until(lambda: not any(map(is_alive, ranks)))


@pytest.mark.slow
def test_what_a_command_left_behind_ends_with_it() -> None:
    done = processes.run([sys.executable, "-c", _RANKS.replace("END", "")])
    until(lambda: not any(is_alive(int(word)) for word in done.stdout.split()))


@pytest.mark.torch
@pytest.mark.parametrize("fresh", [False, True])
def test_a_python_ends_as_it_should(tmp_path: Path, fresh: bool) -> None:
    out = tmp_path / "out"
    ends = {
        "print(sys.argv[1:])": 0,
        "sys.exit(3)": 3,
        "sys.exit('no')": 1,
        "raise ValueError('no')": 1,
        "import os; os.kill(os.getpid(), 15)": -signal.SIGTERM,
        "import atexit; atexit.register(print, 'end')": 0,
    }
    with out.open("w") as target:
        for script, expected in ends.items():
            with processes.python(
                f"import sys; {script}", ["a", "b"], target.fileno(), target.fileno(), fresh=fresh
            ) as job:
                assert job.wait(60) == expected, script
    assert out.read_text().split("\n")[0] == "['a', 'b']"
    assert "ValueError: no" in out.read_text()
    assert out.read_text().endswith("end\n")


@pytest.mark.torch
def test_what_a_python_forked_ends_with_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = "import os, time; os.fork(); os.write(1, b'%d ' % os.getpid()); time.sleep(1000)"
    with out.open("w") as target, processes.python(script, [], target.fileno(), target.fileno()) as job:
        until(lambda: len(out.read_text().split()) == 2)
    assert job.wait(10) == -signal.SIGKILL
    until(lambda: not any(is_alive(int(word)) for word in out.read_text().split()))
