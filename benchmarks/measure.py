"""Runs a command in a process of its own and says what it took: time, processor time, memory at its peak.

The peak is what the kernel says of the process that used most of it (`ru_maxrss`), or the sum over the process and its
children as seen twenty times a second, whichever is more: a tool that forks a worker has both in memory at once.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_POLL = 0.05  # seconds
_LAUNCHER = Path(__file__).with_name("launcher.py")
_PAGE = resource.getpagesize()

Status = Literal["done", "failed", "timeout", "memory"]


@dataclass(frozen=True, slots=True)
class Measured:
    """What a command took.

    Attributes:
        status: "done" when it exited with 0, else why not: it exited otherwise, or was ended at one of the limits.
        wall: seconds from start to end.
        cpu: seconds of processor time, of it and of its children, until the end.
        peak: bytes of resident memory.
        out: what it printed.
        error: the end of what it wrote to stderr.
    """

    status: Status
    wall: float
    cpu: float
    peak: int
    out: str
    error: str


def measured(
    command: Sequence[str | os.PathLike[str]],
    *,
    timeout: float = 600.0,
    memory: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Measured:
    """Runs `command` and waits for it.

    Args:
        command: program and arguments.
        timeout: seconds after which it and its children are killed.
        memory: bytes of resident memory at which they are killed; None for no limit.
        environment: variables to set beside those of this process.
    """
    with tempfile.TemporaryDirectory() as folder:
        report, out, error = (Path(folder) / name for name in ("report", "out", "error"))
        launch = [sys.executable, "-I", "-S", str(_LAUNCHER), str(report), *(os.fspath(word) for word in command)]
        everything = {**os.environ, **(environment or {})}
        with out.open("wb") as out_file, error.open("wb") as error_file:
            child = subprocess.Popen(launch, stdout=out_file, stderr=error_file, env=everything)
            ended, seen = _watched(child, timeout, memory)
        took = json.loads(report.read_text())
        return Measured(
            status=ended or ("done" if took["code"] == 0 else "failed"),
            wall=took["wall"],
            cpu=took["cpu"],
            peak=max(took["peak"], seen),
            out=out.read_text(errors="replace"),
            error=error.read_text(errors="replace")[-2000:],
        )


def _watched(
    launcher: subprocess.Popen[bytes], timeout: float, memory: int | None
) -> tuple[Literal["timeout", "memory"] | None, int]:
    """Waits for the end; which limit was met, if any, and the most memory that the command and its children had."""
    began, most = time.perf_counter(), 0
    ended: Literal["timeout", "memory"] | None = None
    while True:
        try:
            launcher.wait(_POLL)
            return ended, most
        except subprocess.TimeoutExpired:
            family = _descendants(launcher.pid)
        most = max(most, sum(map(_resident, family)))
        late = time.perf_counter() - began > timeout
        if ended is None and (late or (memory is not None and most > memory)):
            ended = "timeout" if late else "memory"
            for pid in family:  # not the launcher, which has yet to report
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _descendants(root: int) -> list[int]:
    """The children of a process, their children, and so on."""
    found: list[int] = []
    waiting = [root]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            with suppress(OSError):  # it ended meanwhile
                children = [int(pid) for pid in task.read_text().split()]
                found += children
                waiting += children
    return found


def _resident(pid: int) -> int:
    """Bytes of resident memory of a process; what it shares with others counts."""
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    return 0
