"""The runs that are served: found again and again, opened when asked for, their traces kept within a budget of bytes.

A run whose files change is another version of itself: whatever was kept of it is asked anew. What cannot be read now
is tried again when its files change; until then the reason is told.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kinetoscope.engines.cluster import Cluster
from kinetoscope.engines.kept import Kept
from kinetoscope.engines.threads import Threads
from kinetoscope.errors import KinetoscopeError
from kinetoscope.model.job import Job
from kinetoscope.model.source import Source
from kinetoscope.model.trace import Trace
from kinetoscope.reading import load, read
from kinetoscope.server.answers import Answers
from kinetoscope.server.finding import Finder, RunFiles
from kinetoscope.server.progress import Progress
from kinetoscope.server.refusals import MissingError

GROWING: Final = 3.0
"""Seconds since the last change of a file during which a run is said to grow."""

_LOOK_AGAIN: Final = 1.0
"""Seconds before folders are looked through again; longer where that takes long."""

_SLOW: Final = 0.3
"""Seconds of looking from which on nobody waits for it."""

_EASE: Final = 20
"""So many times as long as looking took it is left alone."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How runs are read: keywords of `reading.read`."""

    ranks: tuple[int, ...] | None = None
    jobs: int | None = None
    engine: str = "threads"
    address: str | None = None
    max_size: int | None = None
    cache: str | None = None
    cache_size: int | None = None

    def keywords(self) -> dict[str, Any]:
        """Those that are set."""
        fields = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return {name: value for name, value in fields.items() if value is not None}


class Run:
    """One version of a run; a change of its files makes another one.

    Attributes:
        files: what its folder lists.
        version: changes with its files; parts of keys for what is kept.
        progress: of its traces that are being read.
        error: why it cannot be opened or read; "" where nothing is known to be wrong.
    """

    def __init__(self, files: RunFiles, reading: Reading, traces: Kept) -> None:
        self.files = files
        self.version = files.stamp
        self.progress = Progress()
        self.error = ""
        self._reading = reading
        self._traces = traces
        self._job: Job | None = None
        self._lock = threading.Lock()

    @property
    def id(self) -> str:
        """As URLs have it."""
        return self.files.id

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

    def close(self) -> None:
        """Let go of a cluster, if it is asked of one."""
        if self._job is not None and isinstance(self._job.engine, Cluster):
            self._job.engine.close()

    def _opened(self) -> Job:
        found = [file.found for file in self.files.files]
        job = read(self.files.path, files=found, progress=self.progress.more, **self._reading.keywords())
        if isinstance(job.engine, Threads):
            jobs = self._reading.jobs or os.cpu_count() or 1
            job = dataclasses.replace(job, engine=_Remembering(self, self._traces, jobs))
        return job


class _Remembering(Threads):
    """Threads that keep traces together with those of all other runs, within one budget."""

    def __init__(self, run: Run, traces: Kept, jobs: int) -> None:
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
            if run.ranks is not None and len(run.job) == 1:
                run.error = str(error)
            raise
        return trace


@dataclass(frozen=True, slots=True)
class Listed:
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
    """

    paths: tuple[str, ...]
    reading: Reading = Reading()
    memory: int = 0
    answers: Answers = field(default_factory=lambda: Answers(256 << 20))

    def __post_init__(self) -> None:
        self._finder = Finder(self.paths)
        self._traces = Kept(self.memory or half_of_memory(), lambda trace: trace.nbytes + trace.nbytes_derived)
        self._runs: dict[str, Run] = {}
        self._listed = Listed((), ())
        self._looked = -1e9
        self._took = 0.0
        self._looking = False
        self._lock = threading.Lock()
        self._lock_of_asking = threading.Lock()
        self._asking = 0
        self._asked = 0.0

    def runs(self) -> Listed:
        """The runs; folders are looked through again if that is long enough ago."""
        with self._lock:
            if time.monotonic() - self._looked > max(_LOOK_AGAIN, _EASE * self._took) and not self._looking:
                if self._took < _SLOW:
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
            said = f"; {listed.wrong[0]}" if listed.wrong else ""
            raise MissingError(
                f"there is no run {identity[:80]!r}{said}", "It may have been moved or removed; see the list of runs."
            )
        return run

    def begin(self) -> None:
        """Read the first trace of the newest run, which is what a page opens with."""
        for run in self.runs().runs[:1]:
            with suppress(KinetoscopeError, MemoryError):  # told when it is asked for
                run.trace()

    def close(self) -> None:
        """Let go of clusters."""
        for run in self._runs.values():
            run.close()

    def _look_meanwhile(self) -> None:
        try:
            self._look()
        finally:
            self._looking = False

    def _look(self) -> None:
        begin = time.monotonic()
        found, wrong = self._finder.look()
        runs = {}
        for files in found:
            old = self._runs.get(files.id)
            runs[files.id] = old if old and old.version == files.stamp else Run(files, self.reading, self._traces)
        self._runs = runs
        newest = sorted(runs.values(), key=lambda run: (-run.files.modified, run.files.name))
        self._listed = Listed(tuple(newest), tuple(wrong))
        self._looked = time.monotonic()
        self._took = self._looked - begin

    # --- so that what can wait does not get into the way of what is asked

    @contextmanager
    def asked(self) -> Iterator[None]:
        """While it is open, somebody waits for an answer."""
        with self._lock_of_asking:
            self._asking += 1
        try:
            yield
        finally:
            with self._lock_of_asking:
                self._asking -= 1
                self._asked = time.monotonic()

    def is_idle(self, seconds: float) -> bool:
        """Has nobody asked for so long?"""
        return not self._asking and time.monotonic() - self._asked > seconds


def state_of(run: Run) -> str:
    """What the list of runs says: `ready`, `growing` (its files are being written), `error`."""
    if time.time() - run.files.modified < GROWING:
        return "growing"
    return "error" if run.error else "ready"


def half_of_memory() -> int:
    """Half of what this machine, or the container, can give to traces."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(file).read_text(encoding="ascii")))
        except (OSError, ValueError):  # no container, or "max"
            continue
    return total // 2
