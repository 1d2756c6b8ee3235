"""One run of a program: its end, its time limit, and that nothing of it stays, wherever its processes went."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kinetoscope.trying.processes import Ended, run_once

ORPHANS = """
import subprocess, sys
child = "import time; open({file!r} + str(__import__('os').getpid()), 'w'); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN);" + child])
import time
while len(__import__("glob").glob({file!r} + "*")) < 2: time.sleep(0.01)
"""


def ended(tmp_path: Path, program: str, limit: float = 60.0) -> Ended:
    return run_once([sys.executable, "-c", program], dict(os.environ), tmp_path / "log", limit)


def test_its_code_and_its_last_word(tmp_path: Path) -> None:
    assert ended(tmp_path, "print('well')").last_line == "well"
    failed = ended(tmp_path, "import warnings\nraise ValueError('no such layer')")
    assert (failed.code, failed.last_line) == (1, "ValueError: no such layer")
    assert ended(tmp_path, "import os; os.kill(os.getpid(), 9)").code == -9


def test_it_can_read_no_input(tmp_path: Path) -> None:
    assert ended(tmp_path, "input('name? ')").last_line.startswith("EOFError")


def test_it_is_ended_at_its_limit(tmp_path: Path) -> None:
    program = "import signal, time; signal.signal(15, signal.SIG_IGN); print('on', flush=True); time.sleep(600)"
    began = time.monotonic()
    assert ended(tmp_path, program, limit=1.0).code is None
    assert time.monotonic() - began < 60


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only Linux tells the environment of processes")
def test_no_process_stays_whatever_session_it_is_in(tmp_path: Path) -> None:
    done = ended(tmp_path, ORPHANS.format(file=str(tmp_path / "child-")))
    assert (done.code, done.left) == (0, 2)
    for child in tmp_path.glob("child-*"):
        state = subprocess.run(["ps", "-o", "stat=", "-p", child.name[6:]], capture_output=True, text=True, check=False)
        assert state.stdout.strip()[:1] in ("", "Z")


def test_what_runs_beside_it_ends_with_it(tmp_path: Path) -> None:
    beside = [sys.executable, "-c", f"import time; open({str(tmp_path / 'beside')!r}, 'w'); time.sleep(600)"]
    program = f"import os, time\nwhile not os.path.exists({str(tmp_path / 'beside')!r}): time.sleep(0.01)"
    done = run_once([sys.executable, "-c", program], dict(os.environ), tmp_path / "log", 60, load=beside)
    assert done.code == 0
    assert done.left == 1
