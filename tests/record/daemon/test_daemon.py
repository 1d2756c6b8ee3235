"""The daemon's datagrams, and a job that knows nothing of us."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kinetoscope.cli import main
from kinetoscope.errors import InputError
from kinetoscope.record.always_on import mailbox
from kinetoscope.record.daemon.daemon import Daemon, RecordingOrder, descendants, environment_of
from kinetoscope.record.output.leftovers import is_alive
from tests.record.processes import ended_here, environment, run
from tests.record.programs import TRAIN, kinetoscope, names, traces, until

pytestmark = pytest.mark.skipif(not hasattr(socket, "SO_PASSCRED"), reason="needs Linux, whose sockets tell who sends")


LATE = "a trace has not come within 2 s"


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    monkeypatch.setenv("KINETO_IPC_SOCKET_DIR", str(tmp_path))
    daemon = Daemon(tmp_path)
    with daemon.listening():
        yield daemon


@pytest.fixture
def short() -> Iterator[str]:
    """A folder for sockets: their names have 108 bytes at most, and Kineto's are long."""
    with tempfile.TemporaryDirectory(prefix="k") as folder:
        yield folder


@pytest.fixture
def job(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "job"))
        channel.connect(str(tmp_path / "dynolog"))
        channel.settimeout(1)
        yield channel


def datagram(word: bytes, body: bytes) -> bytes:
    return struct.pack("=Q32s", len(body), word) + body


def request(kind: int = 3) -> bytes:
    return datagram(b"req", struct.pack("=iiqi", kind, 1, 0, os.getpid()))


def answer(daemon: Daemon, job: socket.socket, sent: bytes) -> bytes:
    job.send(sent)
    daemon.serve(0.05)
    received = job.recv(1 << 16)
    size, word = struct.unpack_from("=Q32s", received)
    assert word.rstrip(b"\0") == sent[8:40].rstrip(b"\0")
    assert len(received) == 40 + size
    return received[40:]


def test_a_job_is_told_once_what_to_record(daemon: Daemon, job: socket.socket, tmp_path: Path) -> None:
    assert answer(daemon, job, datagram(b"ctxt", struct.pack("=iiq", 0, os.getpid(), 0))) == struct.pack("=i", 1)
    assert answer(daemon, job, request()) == b""
    assert set(daemon.seen) == {os.getpid()}
    daemon.order(os.getpid(), RecordingOrder(steps=5, with_stack=True))
    assert answer(daemon, job, request(1)) == b""  # it takes counters only, as it records already
    lines = dict(line.split("=") for line in answer(daemon, job, request()).decode().splitlines())
    assert lines["ACTIVITIES_ITERATIONS"] == "5"
    assert lines["PROFILE_WITH_STACK"] == "true"
    assert answer(daemon, job, request()) == b""
    assert daemon.busy
    file = Path(lines["ACTIVITIES_LOG_FILE"])
    assert file.parent == tmp_path
    file.with_name(f"{file.stem}_{os.getpid()}.json").write_text('{"traceEvents": []}')
    (trace,) = daemon.arrived()
    assert f"_{os.getpid()}.rank0of1." in trace.name
    assert traces(tmp_path) == [{"traceEvents": []}]
    assert not daemon.busy


def test_a_time_instead_of_steps() -> None:
    text = RecordingOrder(steps=0, milliseconds=250).text(Path("/x"))
    assert "ACTIVITIES_DURATION_MSECS=250\n" in text
    assert "ITERATIONS" not in text


@pytest.mark.parametrize(
    "sent", [b"", b"x", b"\0" * 40, datagram(b"req", b""), datagram(b"no", b"1"), datagram(b"\xff" * 32, b"x" * 999)]
)
def test_odd_datagrams_are_left_unanswered(daemon: Daemon, job: socket.socket, sent: bytes) -> None:
    job.send(sent)
    daemon.serve(0.05)
    assert answer(daemon, job, request()) == b""


def test_who_does_not_wait_for_the_answer_does_no_harm(daemon: Daemon, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as gone:
        gone.bind(str(tmp_path / "gone"))
        gone.sendto(request(), str(tmp_path / "dynolog"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as nameless:
        nameless.sendto(request(), str(tmp_path / "dynolog"))
    daemon.serve(0.1)


def test_two_daemons_exclude_each_other(daemon: Daemon, tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="another daemon, dynolog perhaps, answers on this machine"),
        Daemon(tmp_path).listening(),
    ):
        pass


_ASKS = """
import os, socket, struct, sys, time
at = os.environ["KINETO_IPC_SOCKET_DIR"]
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
    channel.bind(f"{at}/{os.getpid()}")
    while not os.path.exists(f"{at}/dynolog"): time.sleep(0.01)
    channel.sendto(struct.pack("=Q32siiq", 16, b"ctxt", 0, os.getpid(), 0), f"{at}/dynolog")
    channel.recv(100)
time.sleep(float(sys.argv[1]))
"""
"""A job that asks the daemon once, and lives on for so long."""


@contextlib.contextmanager
def asking(seconds: float, given: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", _ASKS, str(seconds)], env=given) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("seconds", "line"), [(0, "process N ended before its trace was there"), (100, LATE)])
def test_a_trace_that_does_not_come_is_said(
    short: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, seconds: float, line: str
) -> None:
    monkeypatch.setenv("KINETO_IPC_SOCKET_DIR", short)
    with asking(seconds, environment(KINETO_IPC_SOCKET_DIR=short)) as process:
        options = ["--now", "--patience", "8s", "--timeout", "2", "--count", "1"]
        assert main(["daemon", "-o", f"{short}/out", *options]) == 1
    assert capsys.readouterr().err == f"kinetoscope: {line.replace('N', str(process.pid))}\n"


def test_a_daemon_that_nobody_asks_says_so(
    short: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINETO_IPC_SOCKET_DIR", short)
    assert main(["daemon", "-o", f"{short}/out", "--now", "--patience", "0.3s"]) == 1
    line = "no job asked within 0.3 s; start it with KINETO_USE_DAEMON=1"
    assert capsys.readouterr().err == f"kinetoscope: {line}\n"


def test_a_daemon_that_cannot_work_says_why(
    short: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINETO_IPC_SOCKET_DIR", short)
    (Path(short) / ".kinetoscope").write_text("a file where its notes are to be")
    for folder in ("/dev/null/a", short):
        assert main(["daemon", "-o", folder]) == 1
        assert capsys.readouterr().err.endswith("; -o DIR names another place for traces\n")
    monkeypatch.delattr(socket, "SO_PASSCRED")
    assert main(["daemon", "-o", short]) == 1
    assert "the daemon needs Linux; `kinetoscope record --idle` records on demand anywhere" in capsys.readouterr().err


def test_a_daemon_says_who_can_be_recorded_and_what_came_of_a_request(short: str) -> None:
    folder = Path(short) / "out"
    control = folder / ".kinetoscope"
    given = environment(KINETO_IPC_SOCKET_DIR=short)
    command = kinetoscope("daemon", "-o", folder)
    with subprocess.Popen(command, env=given, stderr=subprocess.PIPE, text=True) as daemon:
        try:
            with asking(100, given) as process:
                until(lambda: mailbox.read_all(control / "ranks"))
                number = mailbox.ask(control, {})
                time.sleep(1)  # it passes the request on
            until(lambda: mailbox.read_all(control / number, "done."))
            (note,) = mailbox.read_all(control / number, "done.").values()
        finally:
            daemon.send_signal(signal.SIGINT)
        _, said = daemon.communicate(timeout=60)
    assert (note["pid"], note["problem"]) == (process.pid, "it ended before its trace was there")
    assert said.splitlines()[:2] == [
        f"kinetoscope: answering; `kinetoscope trigger {folder}` asks for recordings, Ctrl-C ends this",
        f"kinetoscope: process {process.pid} can be recorded",
    ]


def test_a_job_that_ends_before_its_trace_is_told(daemon: Daemon) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    daemon.order(ended.pid, RecordingOrder())
    assert daemon.gone() == [ended.pid]
    assert not daemon.busy


def test_processes_are_looked_into() -> None:
    assert is_alive(os.getpid())
    assert environment_of(os.getpid()).keys() & {"PATH", "HOME"}
    assert environment_of(2**22 + 1) == {}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert child.pid in list(descendants(os.getpid()))


@pytest.mark.torch
def test_an_unmodified_job_is_recorded(tmp_path: Path, short: str) -> None:
    """On a machine that is very busy Kineto sometimes records nothing between its start and its stop: asked again."""
    with ended_here() as mark, contextlib.ExitStack() as stack:
        given = environment(KINETO_USE_DAEMON="1", KINETO_IPC_SOCKET_DIR=short, **mark)
        for attempt in range(3):
            folder = tmp_path / str(attempt)
            options = ["--now", "--steps", "2", "--count", "1", "--patience", "300s"]
            daemon = kinetoscope("daemon", "-o", folder, *options)
            with subprocess.Popen(daemon, env=given, stdout=subprocess.PIPE, text=True) as process:
                until((Path(short) / "dynolog").exists)
                if not attempt:
                    job = subprocess.Popen([sys.executable, "-W", "ignore", "-c", TRAIN, "100000", "0.1"], env=given)
                    stack.callback(job.wait)
                    stack.callback(job.kill)
                said, _ = process.communicate(timeout=400)
            assert process.returncode == 0
            assert len(said.split()) == 1
            assert run(kinetoscope("doctor", folder)).returncode == 0
            (trace,) = traces(folder)
            if names(trace):
                break
    assert names(trace).count("Optimizer.step#Adam.step") >= 2
