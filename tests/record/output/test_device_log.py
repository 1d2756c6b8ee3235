"""Logs of devices beside a recording. The vendor's program is a stand-in: what is tested is how it is run and ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import kinetoscope
from kinetoscope.cli import main
from kinetoscope.record.output.device_log import DeviceLogger
from kinetoscope.record.session.options import rank_identity
from tests.drawn import annotation, kernel, written

SMI = f"""#!{sys.executable}
import os, sys, time
print("timestamp, index, power.draw [W]", flush=True)
open(os.environ["STAND_IN_PID"], "w").write(str(os.getpid()))
while True:
    print(time.strftime("%Y/%m/%d %H:%M:%S.000") + ", 0, 100.00 W", flush=True)
    time.sleep(0.02)
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a program of this text on the path as nvidia-smi; the file is where it notes its process."""

    def put(text: str = SMI) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "nvidia-smi").write_text(text)
        (folder / "nvidia-smi").chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setenv("STAND_IN_PID", str(tmp_path / "pid"))
        return tmp_path / "pid"

    return put


def is_running(pid: Path) -> bool:
    try:
        os.kill(int(pid.read_text()), 0)
    except ProcessLookupError:
        return False
    return True


def until(true: Callable[[], bool]) -> None:
    for _ in range(500):
        if true():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come to that")


def test_the_log_is_written_while_the_program_runs_and_its_writer_ends_with_it(
    tmp_path: Path, stand_in: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    pid = stand_in(SMI)
    program = f"import time, os\nwhile not os.path.exists({str(pid)!r}): time.sleep(0.01)\ntime.sleep(0.2)"
    assert main(["record", "--device-log", "-o", str(tmp_path / "run"), "--", sys.executable, "-c", program]) == 0
    [log] = (tmp_path / "run" / "device_log").iterdir()
    assert log.name.startswith(f"{rank_identity().host}.")
    assert len(log.read_text().splitlines()) > 2
    assert not is_running(pid)
    assert "power and clocks of the devices are in" in capfd.readouterr().err


def test_a_log_lies_in_a_folder(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "--device-log", "-o", "s3://bucket/run", "--", sys.executable, "-c", "pass"]) == 2
    assert "--device-log writes into a folder: no URL" in capfd.readouterr().err


def test_a_machine_without_such_a_program_records_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["record", "--device-log", "-o", str(tmp_path / "run"), "--", sys.executable, "-c", "pass"]) == 0
    assert "no log of devices: neither nvidia-smi nor amd-smi is on this machine" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"#!{sys.executable}\nraise SystemExit(9)", "ended with code 9"),
        (f"#!{sys.executable}\nprint('head, alone')", "it has no line"),
        ("#!/nowhere", "No such file"),
    ],
)
def test_a_program_that_fails_leaves_no_log(
    tmp_path: Path, stand_in: Callable[[str], Path], text: str, problem: str
) -> None:
    stand_in(text)
    with DeviceLogger(tmp_path, "host") as log:
        if log._process is not None:
            log._process.wait()
    assert problem in log.problem
    assert not log.path.exists()


def test_a_log_has_a_greatest_size(tmp_path: Path, stand_in: Callable[[str], Path]) -> None:
    pid = stand_in(SMI)
    with DeviceLogger(tmp_path, "host", max_bytes=100) as log:
        until(lambda: bool(log.problem))
        until(lambda: not is_running(pid) or log._process is None or log._process.poll() is not None)
    assert "it ended at" in log.problem
    assert 100 < log.path.stat().st_size < 1000


def test_the_writer_ends_where_the_recorder_is_killed(tmp_path: Path, stand_in: Callable[[str], Path]) -> None:
    pid = stand_in(SMI)
    held = "import sys, time; from pathlib import Path; from kinetoscope.record.output.device_log import DeviceLogger\n"
    held += f"with DeviceLogger(Path({str(tmp_path)!r}), 'host'): time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", held])
    until(lambda: pid.exists() and pid.read_text() != "")
    process.kill()
    process.wait()
    until(lambda: not is_running(pid))


def test_a_log_belongs_to_the_traces_of_its_machine(tmp_path: Path) -> None:
    for rank, host in enumerate(("one", "two")):
        events = (annotation("ProfilerStep#1", 0, 10**9), kernel("gemm", 0, 10**9, 1))
        name = f"{host}_7.rank{rank}of2.step1.1.pt.trace.json"
        written(tmp_path / name, *events, baseTimeNanoseconds=10**18, distributedInfo={"rank": rank, "world_size": 2})
    (tmp_path / "device_log").mkdir()
    for watts, log in ((100, "one.5.csv"), (200, "two.5.csv"), (300, "other.csv")):
        lines = ["timestamp,gpu,socket_power", *(f"{10**9 + place / 10},0,{watts}" for place in range(-5, 15))]
        (tmp_path / "device_log" / log).write_text("\n".join(lines))
    frame = kinetoscope.counters(kinetoscope.read(tmp_path)).frame
    assert sorted(zip(frame["rank"], frame["mean"].round(), strict=True)) == [(0, 100), (0, 300), (1, 200), (1, 300)]
