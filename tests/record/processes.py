"""Processes that tests start: they end with the test, and those that need torch have it at once.

Importing torch takes seconds. So one process imports it, and each job is a fork of that one: it runs its text as
`python -c` would. Where fork does not do (a machine with a GPU, or threads that torch has started), a job is a process
of its own. Those that a job starts, in sessions of their own too (as torchrun does), are found by a variable that they
inherit.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

SOURCE: Final = Path(__file__).parents[2] / "src"
_MARK: Final = "TESTED_BY_KINETOSCOPE"

_SERVER: Final = """
import atexit, gc, json, os, signal, socket, sys, threading
def serve():
    import torch, torch._dynamo, torch.utils.data, kinetoscope.record.trace_handler, kinetoscope.record.profile
    channel = socket.socket(fileno=int(sys.argv[1]))
    fit = len(os.listdir("/proc/self/task")) == 1 and not torch.cuda.is_available()
    channel.send(b"fit" if fit else b"unfit")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    gc.freeze()
    while True:
        text, handles, *_ = socket.recv_fds(channel, 1 << 20, 3)
        if not text:
            os._exit(0)
        if not os.fork():
            break
        for handle in handles:
            os.close(handle)
    channel.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    out, errors, told = handles
    job = os.fork()
    if job:  # the keeper: it tells how the job ended
        os.write(told, b"%d\\n" % job)
        os.close(out), os.close(errors)
        os.write(told, b"%d\\n" % os.waitstatus_to_exitcode(os.waitpid(job, 0)[1]))
        os._exit(0)
    os.setsid()
    os.dup2(out, 1), os.dup2(errors, 2)
    for handle in handles:
        os.close(handle)
    task = json.loads(text)
    os.environ.update(task["environment"])
    sys.argv = ["-c", *task["arguments"]]
    return task["script"]
script, code = serve(), 0
try:
    exec(compile(script, "<string>", "exec"), {"__name__": "__main__"})
except SystemExit as end:
    code = end.code if isinstance(end.code, int) else int(end.code is not None)
except BaseException:
    sys.excepthook(*sys.exc_info())
    code = 1
# The end of an interpreter, but for freeing what it shares with the server, which takes a second.
threading._shutdown(), atexit._run_exitfuncs()
sys.stdout.flush(), sys.stderr.flush()
os._exit(code)
"""


class Process(Protocol):
    """What is wanted of a process that runs."""

    pid: int

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...


def environment(**more: str) -> dict[str, str]:
    """Ours, such that the package is found, one thread for each process, and torch's own remarks left out."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KINETO", "PYTHON"))}
    return {**kept, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "KINETO_LOG_LEVEL": "99", **more}


@contextlib.contextmanager
def ended_here() -> Iterator[Mapping[str, str]]:
    """What is to be in the environment of processes so that they, and all that they start, are ended after it."""
    mark = {_MARK: secrets.token_hex(8)}
    try:
        yield mark
    finally:
        until = time.monotonic() + 10
        while (left := _marked(mark[_MARK])) and time.monotonic() < until:
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.01)


def _marked(mark: str) -> list[int]:
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (each / "environ").read_bytes().split(b"\0"):
                found.append(int(each.name))
    return found


def run(command: Sequence[str], *, timeout: float = 400, **options: object) -> subprocess.CompletedProcess[str]:
    """Run to the end; what it left running is ended."""
    given = options.pop("env", None) or environment()
    assert isinstance(given, dict)
    with ended_here() as mark:
        return subprocess.run(  # type: ignore[call-overload, no-any-return]
            command, capture_output=True, text=True, timeout=timeout, check=False, env={**given, **mark}, **options
        )


# --- forks --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def python(script: str, arguments: Sequence[str], out: int, errors: int, *, fresh: bool = False) -> Iterator[Process]:
    """A Python that runs the script; `fresh`: one that was started for it. It has ended when the block has."""
    with ended_here() as mark:
        server = None if fresh else _server()
        if server is not None:
            job = server.start(script, arguments, mark, out, errors)
            try:
                yield job
            finally:
                job.end()
            return
        command = [sys.executable, "-c", script, *arguments]
        given = {**environment(), **mark}
        with subprocess.Popen(command, stdout=out, stderr=errors, env=given, start_new_session=True) as process:
            try:
                yield process
            finally:
                process.kill()


class _Fork:
    """A job that the server forked."""

    def __init__(self, told: int) -> None:
        self._told = os.fdopen(told, "rb", buffering=0)
        self.pid = int(self._told.readline())
        self._code: int | None = None
        self._ends = threading.Thread(target=self._wait, daemon=True)
        self._ends.start()

    def _wait(self) -> None:
        with self._told:
            self._code = int(self._told.readline() or b"-9")

    def wait(self, timeout: float | None = None) -> int:
        self._ends.join(timeout)
        if self._code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return self._code

    def send_signal(self, sig: int) -> None:
        if self._code is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def end(self) -> None:
        """With what it forked, which has its session: the variable says nothing of those."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.send_signal(signal.SIGKILL)
        self._ends.join()


class _Server:
    """The process that has torch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-c", _SERVER, str(theirs.fileno())]
            handles = (theirs.fileno(),)
            nowhere = subprocess.DEVNULL
            self._process = subprocess.Popen(
                command, env=environment(), pass_fds=handles, start_new_session=True, stdin=nowhere, stdout=nowhere
            )
        atexit.register(self.end)
        self.is_fit = self._channel.recv(16) == b"fit"

    def start(self, script: str, arguments: Sequence[str], given: Mapping[str, str], out: int, errors: int) -> _Fork:
        task = {"script": script, "arguments": list(arguments), "environment": dict(given)}
        told, tell = os.pipe()
        with self._lock:
            socket.send_fds(self._channel, [json.dumps(task).encode()], [out, errors, tell])
        os.close(tell)
        return _Fork(told)

    def end(self) -> None:
        self._channel.close()
        self._process.kill()
        self._process.wait()


_starting: Final = threading.Lock()


def _server() -> _Server | None:
    with _starting:
        return _started()


@functools.cache
def _started() -> _Server | None:
    if not hasattr(os, "fork") or not Path("/proc/self/task").is_dir():
        return None
    server = _Server()
    return server if server.is_fit else None
