"""One run of the user's program: started with a change in it, watched, and ended with all that it started."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

_MARK: Final = "KINETOSCOPE_TRIAL_RUN"
"""The variable by which the processes of a run are known, whatever group or parent they have."""

_POLL_SECONDS: Final = 0.05
_GRACE_SECONDS: Final = 3.0
"""Seconds that a process has to end by SIGTERM."""

_TAIL_BYTES: Final = 1 << 14


@dataclass(frozen=True)
class Ended:
    """How a run ended.

    Attributes:
        code: exit code of the command, negative for a signal; None if it was ended at its time limit.
        seconds: that it took.
        last_line: the last line that it printed.
        left: processes that were still there when the command had ended, and were ended then.
    """

    code: int | None
    seconds: float
    last_line: str
    left: int


def run_once(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    limit: float,
    *,
    load: Sequence[str] = (),
) -> Ended:
    """Run a command to its end, or to its time limit. What it prints goes to a file; it can read no input.

    Args:
        command: to run.
        environment: all variables of it.
        log: file for its output.
        limit: seconds after which it is ended.
        load: a command that runs beside it, such as one that sends requests to a server; ended with it.

    Raises:
        OSError: the command cannot be started, or the file not be written.
    """
    mark = secrets.token_hex(8)
    marked = {**environment, _MARK: mark}
    began = time.monotonic()
    with log.open("wb") as output:
        started = [_started(command, marked, output)]
        try:
            if load:
                started.append(_started(load, marked, output))
            code = _waited(started[0], began + limit)
            seconds = time.monotonic() - began
        finally:
            left = end_all(mark, started)
    return Ended(code, seconds, last_line(log), left if code is not None else 0)


def _started(command: Sequence[str], environment: Mapping[str, str], output: BinaryIO) -> subprocess.Popen[bytes]:
    """A command that runs in a session of its own: Ctrl-C is for whoever ends it."""
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
    )


def _waited(process: subprocess.Popen[bytes], until: float) -> int | None:
    """Its exit code, None if it has none by then."""
    try:
        return process.wait(max(until - time.monotonic(), 0.0))
    except subprocess.TimeoutExpired:
        return None


def end_all(mark: str, started: Sequence[subprocess.Popen[bytes]]) -> int:
    """End all processes of a run, wherever they went; how many there were besides those that have ended."""
    there = {*_marked(mark), *(each.pid for each in started if each.poll() is None)}
    count = len(there)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in there:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        for each in started:
            with contextlib.suppress(OSError):  # where no system tells the environment of processes
                os.killpg(each.pid, number)
        last = time.monotonic() + _GRACE_SECONDS
        while there and time.monotonic() < last:
            for each in started:
                each.poll()
            there = {*_marked(mark), *(each.pid for each in started if each.poll() is None)}
            if there:
                time.sleep(_POLL_SECONDS)
        if not there:
            break
    return count


def _marked(mark: str) -> Iterator[int]:
    """Numbers of the processes, zombies left out, whose environment has the mark; none where no system tells."""
    wanted = f"{_MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)


def last_line(log: Path) -> str:
    """The last line of a program's output that says something: of a traceback, its error."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(log.stat().st_size - _TAIL_BYTES, 0))
        lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines()]
        errors = [line for line in lines if _is_error(line)]
        return next(iter(reversed(errors or [line for line in lines if line])), "")[:300]
    return ""


def _is_error(line: str) -> bool:
    head = line.partition(":")[0]
    name = head.rpartition(".")[2]
    return name.endswith(("Error", "Exception", "Interrupt")) and " " not in head
