"""What the engines for clusters have in common: which worker is asked about which rank, and what if one dies.

A worker that has read a trace keeps it, and is asked about it again. New workers are given work, and the ranks of one
that died go to others: first along with everything else; those that were there at several deaths come last, one at a
time, and one that then still ends its worker is given up, as a Failure. Only files are read by workers: a trace is
never sent, and what comes back are small frames.
"""

from __future__ import annotations

import pickle
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from kinetoscope.engines.kept import Kept
from kinetoscope.engines.tree import folded
from kinetoscope.engines.worker import Files, packed, unpacked
from kinetoscope.errors import InputError
from kinetoscope.model.job import Combine, Failure, Partial, Task
from kinetoscope.model.source import Source
from kinetoscope.model.trace import Trace

TRIES: Final = 2
"""How often a rank is asked about again along with others when its worker died."""

ABSENCE: Final = 300.0
"""Seconds without any worker after which it is given up."""

PATIENCE: Final = 1.0
"""Seconds after which it is looked whether workers came or went."""


class DiedError(Exception):
    """The worker that had the rank is no more."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: from which worker, what is wrong with it ("": nothing), and an `Answer`, pickled."""

    worker: str
    fault: str
    answer: bytes


class Question(Protocol):
    """A question that is being put to ranks, on the workers of one engine."""

    def workers(self) -> Mapping[str, int]:
        """The workers that are there, and how many ranks each is asked about at a time."""
        ...

    def ask(self, worker: str, source: bytes) -> Hashable:
        """Ask a worker about a rank; what is returned stands for the answer."""
        ...

    def finished(self, seconds: float) -> Collection[Hashable]:
        """Those that are finished since the last time, or whose worker is gone; waits so long for the first."""
        ...

    def reply(self, handle: Hashable) -> Reply:
        """What came back.

        Raises:
            DiedError: the worker died.
        """
        ...


class Workers(Protocol):
    """What an engine knows of its cluster.

    Attributes:
        name: what the cluster is called in messages.
        cloudpickle: what sends functions.
        users: which engines are there.
    """

    name: str
    cloudpickle: Any
    users: set[int]

    @property
    def alive(self) -> bool:
        """Is the connection there?"""
        ...

    def question(self, question: bytes, version: str) -> AbstractContextManager[Question]:
        """Begin one, for workers of that version; what is left of it at the end is cancelled."""
        ...

    def close(self) -> None:
        """Leave the cluster, and end it if it is ours."""
        ...


_open: WeakValueDictionary[Hashable, Workers] = WeakValueDictionary()
_lock = threading.Lock()


def shared(key: Hashable, connect: Callable[[], Workers]) -> Workers:
    """The workers that another job of this process has already, else those that `connect` gives.

    So that two jobs do not take the cluster from one another.
    """
    with _lock:
        workers = _open.get(key)
        if workers is None or not workers.alive:
            workers = _open[key] = connect()
        return workers


class Cluster:
    """The engine for workers of any kind.

    Args:
        files: how files are read.
        workers: where.
        progress: told how many more bytes the workers have read.
    """

    def __init__(self, files: Files, workers: Workers, progress: Any = None) -> None:
        self._files = files
        self._workers = workers
        self._progress = progress or (lambda _: None)
        self._asked: dict[Source, str] = {}  # by whom it was read, in the order of asking
        self._here = Kept(1, lambda _: 1)
        workers.users.add(id(self))
        self._leave = weakref.finalize(self, _left, workers, id(self))

    def close(self) -> None:
        """Leave the cluster, unless another job is there, too. Happens by itself when nobody has the engine."""
        self._leave()

    def trace(self, source: Source) -> Trace:
        """The trace, read in this process: it is not sent."""
        return self._here.get(source, lambda: self._files.load(source, progress=self._progress))

    def reduce(
        self, sources: Sequence[Source], task: Task, combine: Combine
    ) -> tuple[Partial | None, dict[Source, Failure]]:
        """See `Engine.reduce`: answers are folded here as they come, by a tree."""
        return folded(sources, self.map(sources, task), combine)

    def map(self, sources: Sequence[Source], task: Task) -> Iterator[tuple[Source, Partial | Failure]]:
        """See `Engine.map`.

        Raises:
            InputError: a worker has no Kinetoscope, or another version of it; or the cluster is gone, or its workers.
        """
        sent = packed(self._files, task, self._workers.cloudpickle)
        with self._workers.question(sent, self._files.version) as question:
            waiting = _Waiting(sources, self._asked)
            running: dict[Hashable, tuple[Source, str]] = {}
            seen = time.monotonic()
            while waiting or running:
                if there := question.workers():
                    seen = time.monotonic()
                elif time.monotonic() - seen > ABSENCE:
                    raise InputError(f"{self._workers.name} has had no worker for {ABSENCE:.0f} s; start some")
                busy = Counter(worker for _, worker in running.values())
                for worker, source in waiting.given(there, busy):
                    running[question.ask(worker, pickle.dumps(source))] = source, worker
                for handle in question.finished(PATIENCE):
                    source, _ = running.pop(handle)
                    try:
                        answer = self._answer(source, question.reply(handle))
                    except DiedError:
                        if waiting.again(source):
                            continue
                        answer = Failure(f"{source.url}: each worker that read it died; give workers more memory")
                    yield source, answer

    def _answer(self, source: Source, reply: Reply) -> Partial | Failure:
        if reply.fault:
            raise InputError(
                f"{self._workers.name}, worker {reply.worker}: {reply.fault}; all workers need version"
                f" {self._files.version}: pip install kinetoscope=={self._files.version}"
            )
        self._asked.pop(source, None)
        self._asked[source] = reply.worker
        answer = unpacked(reply.answer)
        self._progress(answer.read)
        return answer.answer


def _left(workers: Workers, user: int) -> None:
    workers.users.discard(user)
    if not workers.users:
        workers.close()


@dataclass
class _Waiting:
    """The ranks that nobody has been asked about yet.

    A worker keeps what it was asked last, so it is asked about that first: else, where not all of its traces have room,
    each would be dropped just before its turn.
    """

    sources: Sequence[Source]
    asked: Mapping[Source, str]
    own: dict[str, list[Source]] = field(default_factory=dict)
    rest: deque[Source] = field(default_factory=deque)
    alone: deque[Source] = field(default_factory=deque)
    deaths: Counter[Source] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        wanted = set(self.sources)
        for source, worker in self.asked.items():
            if source in wanted:
                self.own.setdefault(worker, []).append(source)
        self.rest.extend(source for source in self.sources if source not in self.asked)

    def __len__(self) -> int:
        return sum(map(len, self.own.values())) + len(self.rest) + len(self.alone)

    def given(self, there: Mapping[str, int], busy: Counter[str]) -> Iterator[tuple[str, Source]]:
        """Who is asked about which rank now; `busy` says how many each has."""
        for gone in set(self.own) - set(there):
            self.rest.extend(self.own.pop(gone))
        running = busy.total()
        for turn in range(max(there.values(), default=0)):  # the first rank of all workers, then their second
            for worker, most in there.items():
                if turn < most and busy[worker] <= turn and (source := self._next(worker)) is not None:
                    busy[worker] += 1
                    running += 1
                    yield worker, source
        if not running and self.alone and there:
            yield next(iter(there)), self.alone.popleft()

    def _next(self, worker: str) -> Source | None:
        if mine := self.own.get(worker):
            return mine.pop()
        if self.rest:
            return self.rest.popleft()
        others = max(self.own.values(), key=len, default=[])
        return others.pop(0) if len(others) > 1 else None

    def again(self, source: Source) -> bool:
        """Put back a rank whose worker died; false if it must be given up."""
        self.deaths[source] += 1
        if self.deaths[source] > TRIES + 1:
            return False
        (self.alone if self.deaths[source] > TRIES else self.rest).append(source)
        return True
