"""SQL is run in a process of its own, with bounds on memory and time: a query can be as large as its author likes.

Polars ends the process in which memory runs out, and nothing stops a query that was begun. Both happen to a process
that nobody else waits for. It is handed the tables as files and hands back the answer as one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import polars as pl

from kinetoscope.errors import UsageError
from kinetoscope.server.errors import ForbiddenError
from kinetoscope.server.runs.workspace import half_of_memory

MAX_SECONDS: Final = 60.0
"""A query may take, once its tables are there."""

_PROGRAM: Final = Path(__file__).with_name("program.py")
_FILES_READ: Final = "SCAN ["
"""In a plan: that it reads a file."""

_SLOTS: Final = threading.BoundedSemaphore(2)

_RUNNING: Final[dict[str, ChildProcess]] = {}
"""Queries that wait or run, by the word that whoever asked gave them."""


class QueryStoppedError(UsageError):
    """Whoever asked ended the query."""

    is_passing = True

    def __init__(self) -> None:
        super().__init__("SQL: the query was stopped")


def stop(ticket: str) -> None:
    """End the query of this word; nothing where there is none."""
    if (apart := _RUNNING.get(ticket)) is not None:
        apart.stop()


class ChildProcess:
    """A process that runs one query: `execute` as `model.tables.sql` wants it. To be used in a `with`.

    Args:
        memory: bytes that it may take, besides the tables; a quarter of what there is if this is 0.
        seconds: that it may take.
        ticket: a word by which it can be stopped; "" for none.
    """

    def __init__(self, memory: int = 0, seconds: float = MAX_SECONDS, ticket: str = "") -> None:
        self._memory = memory or half_of_memory() // 2
        self._seconds = seconds
        self._ticket = ticket
        self._stopped = False
        self._process: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        """End it, from another thread."""
        self._stopped = True
        if (process := self._process) is not None:
            process.kill()

    def __enter__(self) -> ChildProcess:
        if self._ticket:
            _RUNNING[self._ticket] = self
        _SLOTS.acquire()
        self._folder = tempfile.TemporaryDirectory(prefix="kinetoscope-sql-")
        path = os.pathsep.join(each for each in sys.path if each)
        self._process = subprocess.Popen(
            [sys.executable, "-s", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._folder.name,
            env={**os.environ, "PYTHONPATH": path},
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _RUNNING.pop(self._ticket, None)
        assert self._process is not None
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()
        _SLOTS.release()

    def execute(self, query: str, tables: Mapping[str, pl.DataFrame], *, check: bool) -> pl.DataFrame:
        """The answer; with `check` only its columns.

        Raises:
            ValueError: Polars says that the query is wrong.
            ForbiddenError: it would read files.
            UsageError: it takes too much memory or time.
        """
        folder = Path(self._folder.name)
        places = {name: str(folder / f"{name}-{check}") for name in tables}
        for name, place in places.items():
            tables[name].write_ipc(place)
        size = sum(table.estimated_size() for table in tables.values())
        reply = self._reply(
            {
                "query": query,
                "tables": places,
                "check": check,
                "memory": self._memory + 3 * int(size),
                "answer": str(folder / "answer"),
            }
        )
        if "error" in reply:
            raise ValueError(reply["error"])
        if _FILES_READ in reply["plan"]:
            raise ForbiddenError("the query reads files, which the page may not")
        return pl.read_ipc(folder / "answer")

    def _reply(self, question: Mapping[str, Any]) -> dict[str, Any]:
        if self._stopped:
            raise QueryStoppedError
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = threading.Timer(self._seconds, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            late = timer.finished.is_set()
            timer.cancel()
        if line.endswith(b"\n"):
            reply: dict[str, Any] = json.loads(line)
            return reply
        if self._stopped:
            raise QueryStoppedError
        if late:
            raise UsageError(f"SQL: the query takes longer than {self._seconds:g} s; ask for less")
        raise UsageError(f"SQL: the query needs more than {self._memory >> 20:,} MiB of memory; ask for less")
