"""A run in one version of its files: opened when it is first asked, its traces kept with those of all others."""

from __future__ import annotations

import dataclasses
import math
import os
import threading
import time
from collections.abc import Sequence
from typing import Final, Literal

from kinetoscope.caching import SharedCache
from kinetoscope.engines.threads import Threads
from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.job import Job
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.companions import CompanionPaths
from kinetoscope.readers.registry import load
from kinetoscope.reading import read
from kinetoscope.server.errors import MissingError
from kinetoscope.server.runs.progress import Progress
from kinetoscope.server.runs.scan_runs import RunFiles

GROWING_SECONDS: Final = 3.0
"""Seconds without a change after which files are complete, and a run is another version of itself."""


class ReadKeywords(CompanionPaths, total=False):
    """The options by which runs are read: keywords of `reading.read`."""

    ranks: tuple[int, ...]
    jobs: int
    engine: str
    address: str
    max_size: int
    max_event: int
    cache: str
    cache_size: int
    peak: Sequence[str]


class Run:
    """One version of a run; a change of its files makes another one.

    Attributes:
        files: what its folder lists now.
        version: changes with its files; part of the keys of what is kept.
        changed: when its files were last seen to change, on the monotonic clock.
        progress: of its traces that are being read.
        error: why it cannot be opened or read; "" where nothing is known to be wrong.
    """

    def __init__(self, files: RunFiles, reading: ReadKeywords, traces: SharedCache[Trace]) -> None:
        self.files = files
        self.version = files.stamp
        # The clock of whoever wrote the file may differ from ours: what lies in the future says nothing.
        just_now = 0 <= time.time() - files.modified < GROWING_SECONDS
        self.changed = time.monotonic() if just_now else -math.inf
        self.progress = Progress()
        self.error = ""
        self._reading = reading
        self._traces = traces
        self._job: Job | None = None
        self._lock = threading.Lock()

    @property
    def id(self) -> str:
        """The run's id in URLs."""
        return self.files.id

    @property
    def is_growing(self) -> bool:
        """Are its files being written?"""
        return time.monotonic() - self.changed < GROWING_SECONDS

    @property
    def ranks(self) -> tuple[int, ...] | None:
        """Its ranks; None before it was opened."""
        return self._job.ranks if self._job else None

    @property
    def job(self) -> Job:
        """All its traces; the beginnings of files are looked into when this is first asked for.

        Raises:
            KinetoscopeError: none of them is a trace, or the engine cannot be had.
        """
        with self._lock:
            if self._job is None:
                try:
                    self._job = self._opened()
                except KinetoscopeError as error:
                    self.error = str(error)
                    raise
                self.error = ""
            return self._job

    def part(self, ranks: Sequence[int] | None = None, cycle: int | None = 0) -> Job:
        """The job of these ranks (None: all) and of one cycle of the profiler (None: all).

        Raises:
            MissingError: there is no such rank or cycle.
        """
        job = self.job
        chosen = tuple(
            source
            for source in job.sources
            if (ranks is None or source.rank in ranks) and (cycle is None or source.cycle == cycle)
        )
        if not chosen:
            raise MissingError(f"{self.files.name} has no such rank or cycle")
        return job if len(chosen) == len(job.sources) else dataclasses.replace(job, sources=chosen)

    def trace(self, rank: int | None = None, cycle: int = 0) -> Trace:
        """The trace of a rank; of the first one if none is named.

        Raises:
            MissingError: there is no such rank or cycle.
            KinetoscopeError: it cannot be read.
        """
        job = self.part(None if rank is None else (rank,), cycle)
        return job.engine.trace(job.sources[0])

    def hold(self, job: Job) -> None:
        """This job, which is open already, is the one: its traces are not read again."""
        with self._lock:
            self._job = job

    def close(self) -> None:
        """Let go of a cluster, if it is asked of one."""
        if self._job is not None:
            self._job.engine.close()

    def tell(self, error: str) -> None:
        """Take note of a trace's error ("": none): of the only trace it is the error of the run."""
        if self._job is not None and len(self._job) == 1:
            self.error = error

    def _opened(self) -> Job:
        candidates = [file.candidate for file in self.files.files]
        job = read(self.files.path, files=candidates, progress=self.progress.more, **self._reading)
        if isinstance(job.engine, Threads):
            jobs = self._reading.get("jobs") or os.cpu_count() or 1
            job = dataclasses.replace(job, engine=_Remembering(self, self._traces, jobs))
        return job


class _Remembering(Threads):
    """Threads that keep traces together with those of all other runs, within one budget."""

    def __init__(self, run: Run, traces: SharedCache[Trace], jobs: int) -> None:
        super().__init__(load, jobs=jobs, keep=0)
        self._run = run
        self._traces = traces

    def trace(self, source: Source) -> Trace:
        """The trace, from memory if it was kept there."""
        return self._traces.get((self._run.id, self._run.version, source), lambda: self._read(source))

    def _read(self, source: Source) -> Trace:
        run = self._run
        try:
            with run.progress.reading(source.size) as more:
                trace = load(source, progress=more)
        except KinetoscopeError as error:
            run.tell(str(error))
            raise
        run.tell("")
        return trace


def state_of(run: Run) -> Literal["ready", "growing", "error"]:
    """The state in the list of runs: `ready`, `growing` (its files are being written), `error`."""
    if run.is_growing:
        return "growing"
    return "error" if run.error else "ready"
