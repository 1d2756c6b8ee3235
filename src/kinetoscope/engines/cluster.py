"""What the engines for clusters have in common: which worker is asked about which ranks, and what if one dies.

A worker that has read a trace keeps it, and is asked about it again. Where answers are folded, a worker is given
several ranks that are a subtree of the fold, and folds it: one answer comes back, not one a rank. New workers are given
work, and the ranks of one that died go to others: first along with everything else; those that were there at several
deaths come last, one at a time, and one that then still ends its worker is given up, as a Failure. Only files are read
by workers: a trace is never sent, and what comes back are small frames.
"""

from __future__ import annotations

import pickle
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol
from weakref import WeakValueDictionary

from kinetoscope.caching import SharedCache
from kinetoscope.engines.fold_tree import Tree
from kinetoscope.engines.worker import Answer, Files, packed, unpacked
from kinetoscope.errors import InputError
from kinetoscope.model.job import Combine, Failure, Partial, Task
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace

TRIES: Final = 2
"""How often a rank is asked about again along with others when its worker died."""

BLOCK: Final = 16
"""Ranks that a worker folds at a time at most, a power of two. So many are read again if it dies meanwhile."""

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

    def ask(self, worker: str, sources: bytes) -> Hashable:
        """Ask a worker about ranks; what is returned stands for the answer."""
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
        self._here: SharedCache[Trace] = SharedCache(1, lambda _: 1, grows=True)
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
        """See `Engine.reduce`: workers fold what they are asked, and what they answer is folded here as it comes."""
        tree = Tree(len(sources), combine)
        failures: dict[Source, Failure] = {}
        for block, answer in self._answers(sources, task, combine):
            tree.put(block.start // _width(block), answer.folded, _width(block).bit_length() - 1)
            failures |= {sources[block.start + place]: failure for place, failure in answer.failures.items()}
        return tree.root, {source: failures[source] for source in sources if source in failures}

    def map(self, sources: Sequence[Source], task: Task) -> Iterator[tuple[Source, Partial | Failure]]:
        """See `Engine.map`.

        Raises:
            InputError: a worker has no Kinetoscope, or another version of it; or the cluster is gone, or its workers.
        """
        for block, answer in self._answers(sources, task, None):
            found = answer.failures[0] if answer.folded is None else answer.folded
            yield sources[block.start], found

    def _answers(
        self, sources: Sequence[Source], task: Task, combine: Combine | None
    ) -> Iterator[tuple[range, Answer]]:
        """What workers say about blocks of places, each of them once; without `combine`, about one place at a time."""
        sent = packed(self._files, task, combine, self._workers.cloudpickle)
        with self._workers.question(sent, self._files.version) as question:
            waiting = _Waiting(sources, self._asked, BLOCK if combine else 1)
            running: dict[Hashable, tuple[range, str]] = {}
            seen = time.monotonic()
            while waiting or running:
                if there := question.workers():
                    seen = time.monotonic()
                elif time.monotonic() - seen > ABSENCE:
                    raise InputError(f"{self._workers.name} has had no worker for {ABSENCE:.0f} s; start some")
                busy = Counter(worker for _, worker in running.values())
                for worker, block in waiting.given(there, busy):
                    some = tuple(sources[block.start : block.stop])
                    running[question.ask(worker, pickle.dumps(some))] = block, worker
                for handle in question.finished(PATIENCE):
                    block, _ = running.pop(handle)
                    try:
                        yield block, self._answer(sources[block.start : block.stop], question.reply(handle))
                    except DiedError:
                        for place in waiting.again(block):
                            yield range(place, place + 1), _given_up(sources[place])

    def _answer(self, sources: Sequence[Source], reply: Reply) -> Answer:
        if reply.fault:
            raise InputError(
                f"{self._workers.name}, worker {reply.worker}: {reply.fault}; all workers need version"
                f" {self._files.version}: pip install kinetoscope=={self._files.version}"
            )
        for source in sources:
            self._asked.pop(source, None)
            self._asked[source] = reply.worker
        answer = unpacked(reply.answer)
        self._progress(answer.read)
        return answer


def _given_up(source: Source) -> Answer:
    return Answer(None, {0: Failure(f"{source.url}: each worker that read it died; give workers more memory")})


def _width(block: range) -> int:
    """Places of the subtree that a block is, of which the last one of all may not be full."""
    return 1 << (len(block) - 1).bit_length()


def _left(workers: Workers, user: int) -> None:
    workers.users.discard(user)
    if not workers.users:
        workers.close()


class _Waiting:
    """The places of ranks that nobody has been asked about yet.

    A worker keeps what it was asked last, so it is asked about that first: else, where not all of its traces have room,
    each would be dropped just before its turn.

    Args:
        sources: the ranks.
        asked: by whom some were read, in the order of asking.
        most: places that are given together at most.
    """

    def __init__(self, sources: Sequence[Source], asked: Mapping[Source, str], most: int) -> None:
        self._most = most
        self._count = len(sources)
        self._own: dict[str, _Places] = {}
        self._alone: deque[int] = deque()
        self._deaths: Counter[int] = Counter()
        place = {source: k for k, source in enumerate(sources)}
        for source, worker in asked.items():
            if source in place:
                self._own.setdefault(worker, _Places()).add(place[source])
        self._rest = _Places(k for k, source in enumerate(sources) if source not in asked)

    def __len__(self) -> int:
        return sum(map(len, self._own.values())) + len(self._rest) + len(self._alone)

    def given(self, there: Mapping[str, int], busy: Counter[str]) -> Iterator[tuple[str, range]]:
        """Who is asked about which places now; `busy` says how many blocks each has."""
        for gone in set(self._own) - set(there):
            for place in self._own.pop(gone):
                self._rest.add(place)
        running = busy.total()
        slots = sum(there.values())
        for turn in range(max(there.values(), default=0)):  # the first block of all workers, then their second
            # Large blocks first, small ones when few ranks are left: all workers are done at about the same time.
            width = max(1, min(self._most, len(self) // (2 * slots)))
            for worker, most in there.items():
                if turn < most and busy[worker] <= turn and (block := self._next(worker, width)) is not None:
                    busy[worker] += 1
                    running += 1
                    yield worker, block
        if not running and self._alone and there:
            place = self._alone.popleft()
            yield next(iter(there)), range(place, place + 1)

    def _next(self, worker: str, width: int) -> range | None:
        if mine := self._own.get(worker):
            return self._block(mine, mine.last(), width)
        if self._rest:
            return self._block(self._rest, self._rest.first(), width)
        others = max(self._own.values(), key=len, default=_Places())
        return self._block(others, others.first(), 1) if len(others) > 1 else None

    def _block(self, places: _Places, place: int, width: int) -> range:
        """Take the largest block at a place, of so many places at most, of which all wait and none saw a death."""
        width = 1 << (width.bit_length() - 1)
        while width > 1:
            begin = place // width * width
            block = range(begin, min(begin + width, self._count))
            if _width(block) == width and all(each in places and not self._deaths[each] for each in block):
                break
            width >>= 1
        else:
            block = range(place, place + 1)
        for each in block:
            places.discard(each)
        return block

    def again(self, block: range) -> Iterator[int]:
        """Put back what the worker that died was asked; gives the places that must be given up."""
        for place in block:
            self._deaths[place] += 1
            if self._deaths[place] > TRIES + 1:
                yield place
            elif self._deaths[place] > TRIES:
                self._alone.append(place)
            else:
                self._rest.add(place)


class _Places:
    """Places in the order of adding, which can be taken from both ends and from between."""

    def __init__(self, places: Iterable[int] = ()) -> None:
        self._there = set[int]()
        self._order = deque[int]()
        for place in places:
            self.add(place)

    def __len__(self) -> int:
        return len(self._there)

    def __contains__(self, place: int) -> bool:
        return place in self._there

    def __iter__(self) -> Iterator[int]:
        return (place for place in self._order if place in self._there)

    def add(self, place: int) -> None:
        """One more."""
        self._there.add(place)
        self._order.append(place)

    def discard(self, place: int) -> None:
        """One fewer."""
        self._there.discard(place)

    def first(self) -> int:
        """The one that was added first."""
        while self._order[0] not in self._there:
            self._order.popleft()
        return self._order[0]

    def last(self) -> int:
        """The one that was added last."""
        while self._order[-1] not in self._there:
            self._order.pop()
        return self._order[-1]
