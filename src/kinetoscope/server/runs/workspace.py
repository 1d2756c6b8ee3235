"""The runs that are served: found again and again, opened when asked for, their traces kept within a budget of bytes.

A run whose files have changed is another version of itself: whatever was kept of it is asked anew. While they are
being written it stays what it was, and is said to grow. What cannot be read is tried again when its files change.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from kinetoscope.algorithms.compile_events import on_compile
from kinetoscope.caching import SharedCache
from kinetoscope.engines.worker import memory_of_this_machine
from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.job import Job
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Result
from kinetoscope.server.errors import MissingError
from kinetoscope.server.runs.progress import ReadProgress
from kinetoscope.server.runs.run import ReadKeywords, Run
from kinetoscope.server.runs.scan_runs import JobScanner, RunFiles, RunScanner

COMPILING: Final = "compiling (first run only)"

_SCAN_SECONDS: Final = 1.0
"""Seconds before folders are looked through again; longer where that takes long."""

_SLOW_SCAN_SECONDS: Final = 0.3
"""Seconds of looking from which on nobody waits for it."""

_SCAN_PAUSE_RATIO: Final = 20
"""So many times as long as looking took it is left alone."""


RETRY_SECONDS: Final = 1.0
"""For which an error is the answer before the question is tried again."""


def bytes_of_answer(answer: Any) -> int:
    """The size of an answer: JSON, a table, or a few facts."""
    if isinstance(answer, bytes):
        return len(answer)
    frame = answer.frame if isinstance(answer, Result) else answer
    return 1000 + (int(frame.estimated_size()) if isinstance(frame, pl.DataFrame) else 0)


@dataclass(frozen=True, slots=True)
class RunList:
    """The runs that are there now, newest first, and what is wrong with the paths."""

    runs: tuple[Run, ...]
    wrong: tuple[str, ...]


@dataclass
class Workspace:
    """The runs below some paths.

    Attributes:
        paths: what the user named.
        reading: how runs are read.
        memory: bytes of traces, with what was derived from them, that are kept.
        answers: what was answered already, of all runs.
        job: the one run that there is, where it is open already; then the paths only name it.
    """

    paths: tuple[str, ...]
    reading: ReadKeywords = field(default_factory=ReadKeywords)
    memory: int = 0
    answers: SharedCache[Any] = field(
        default_factory=lambda: SharedCache(256 << 20, bytes_of_answer, retry_after=RETRY_SECONDS)
    )
    job: Job | None = None

    def __post_init__(self) -> None:
        self._scanner = RunScanner(self.paths) if self.job is None else JobScanner(self.job)
        self._traces: SharedCache[Trace] = SharedCache(
            self.memory or half_of_memory(), lambda trace: trace.nbytes + trace.nbytes_derived, grows=True
        )
        self._runs: dict[str, Run] = {}
        self._listed = RunList((), ())
        self._looked = -1e9
        self._took = 0.0
        self._looking = False
        self._lock = threading.Lock()
        self._lock_of_asking = threading.Lock()
        self._asking = 0
        self._asked = time.monotonic()
        self._compiling = ""
        self._watching = ExitStack()

    def runs(self) -> RunList:
        """The runs; folders are looked through again if that is long enough ago."""
        with self._lock:
            if (
                time.monotonic() - self._looked > max(_SCAN_SECONDS, _SCAN_PAUSE_RATIO * self._took)
                and not self._looking
            ):
                if self._took < _SLOW_SCAN_SECONDS:
                    self._look()
                else:  # far away, or many: what was there last is the answer until that is known
                    self._looking = True
                    threading.Thread(target=self._look_meanwhile, name="kinetoscope-look", daemon=True).start()
            return self._listed

    def run(self, identity: str) -> Run:
        """The run of this id, in its present version.

        Raises:
            MissingError: there is none.
        """
        listed = self.runs()
        if (run := self._runs.get(identity)) is None:
            reason = f"; {listed.wrong[0]}" if listed.wrong else ""
            raise MissingError(
                f"there is no run {identity[:80]!r}{reason}", "It may have been moved or removed; see the list of runs."
            )
        return run

    def begin(self) -> None:
        """Read the first trace of the newest run, which is what a page opens with."""
        for run in self.runs().runs[:1]:
            with suppress(KinetoscopeError, MemoryError):  # raised again when a request needs it
                run.trace()

    def watch(self) -> None:
        """Follow when code is being compiled, until this is closed."""
        self._watching.enter_context(on_compile(self._compiles))

    def _compiles(self, name: str, begins: bool) -> None:
        self._compiling = name if begins else ""

    def progress(self, run: Run) -> ReadProgress:
        """The bytes of a run's files that have been read, and the work that requests wait for."""
        now = run.progress.now()
        if self._compiling:
            return dataclasses.replace(now, what=COMPILING)
        return now if now.what or not self._asking else dataclasses.replace(now, what="analysing")

    def close(self) -> None:
        """Release clusters."""
        self._watching.close()
        for run in self._runs.values():
            run.close()

    def _look_meanwhile(self) -> None:
        try:
            self._look()
        finally:
            self._looking = False

    def _look(self) -> None:
        begin = time.monotonic()
        run_files, wrong = self._scanner.scan()
        self._runs = runs = {files.id: self._updated(files) for files in run_files}
        newest = sorted(runs.values(), key=lambda run: (-run.files.modified, run.files.name))
        self._listed = RunList(tuple(newest), tuple(wrong))
        self._looked = time.monotonic()
        self._took = self._looked - begin

    def _updated(self, files: RunFiles) -> Run:
        run = self._runs.get(files.id)
        if run is None:
            run = Run(files, self.reading, self._traces)
            if self.job is not None:
                run.hold(self.job)
            return run
        if run.files.stamp != files.stamp:
            run.files, run.changed = files, time.monotonic()
        if run.version != files.stamp and not run.is_growing:
            run.close()
            return Run(files, self.reading, self._traces)
        return run

    # --- requests come before work that can wait

    @contextmanager
    def asked(self) -> Iterator[None]:
        """A request waits for an answer while this is open."""
        with self._lock_of_asking:
            self._asking += 1
        try:
            yield
        finally:
            with self._lock_of_asking:
                self._asking -= 1
                self._asked = time.monotonic()

    def is_idle(self, seconds: float) -> bool:
        """Whether no request came for so many seconds."""
        return not self._asking and time.monotonic() - self._asked > seconds


def half_of_memory() -> int:
    """Half of the memory of this machine, or of its container: for traces."""
    return memory_of_this_machine() // 2
