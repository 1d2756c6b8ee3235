"""The common part of the engines for clusters: which worker is asked about which ranks, and what if one dies.

A worker that has read a trace keeps it, and is asked about it again. A worker is given several ranks that are a subtree
of the fold, and folds their answers: one message comes back, not one a rank. New workers are given work, and the ranks
of one that died go to others: first along with everything else; those that were there at several deaths come last, one
at a time, and one that then still ends its worker is given up, as a Failure. Only files are read by workers: a trace is
never sent, and what comes back are small frames.
"""

from __future__ import annotations

import pickle
import threading
import time
import weakref
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from weakref import WeakValueDictionary

from kinetoscope.caching import SharedCache
from kinetoscope.engines.fold_tree import Tree
from kinetoscope.engines.worker import Files, packed, unpacked
from kinetoscope.errors import InputError
from kinetoscope.model.analysis import Question, failed, together
from kinetoscope.model.answer import Answer, Failure
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace

MAX_SHARED_DEATHS: Final = 2
"""Deaths of its worker after which a rank is asked about alone."""

MAX_BLOCK_RANKS: Final = 16
"""Ranks that a worker folds at a time, a power of two. They are read again if it dies meanwhile."""

MAX_ABSENCE_S: Final = 300.0
"""Seconds without any worker after which the cluster is given up."""

POLL_S: Final = 0.2
"""Seconds after which it is checked whether workers came or went."""


class DiedError(Exception):
    """The worker that had the rank is no more."""


class WorkerRequest(NamedTuple):
    """A question to a worker: our version of Kinetoscope, `worker.packed`, and the pickled sources."""

    version: str
    question: bytes
    sources: bytes


class Reply(NamedTuple):
    """A reply of a worker: what is wrong with it ("": nothing), and a `RanksAnswer`, pickled."""

    fault: str
    answer: bytes


class Actors(Protocol):
    """The workers of a cluster: processes that are asked one request after the other, and keep what they read.

    Attributes:
        name: of the cluster, for messages.
        cloudpickle: the library that sends functions.
        users: ids of the engines that share them.
    """

    name: str
    cloudpickle: Any
    users: set[int]

    @property
    def alive(self) -> bool:
        """Whether the connection stands."""
        ...

    def capacity(self) -> Mapping[str, int]:
        """The workers that are ready, and how many requests each is given at a time."""
        ...

    def ask(self, worker: str, request: WorkerRequest) -> Future[Any]:
        """Ask a worker; the future is done when `reply` can be called, or never if the worker is gone."""
        ...

    def reply(self, future: Future[Any], worker: str) -> Reply:
        """The reply of a worker.

        Raises:
            DiedError: the worker died.
            InputError: the cluster is gone.
        """
        ...

    def cancel(self, futures: Collection[Future[Any]]) -> None:
        """Nobody wants these replies any more."""
        ...

    def close(self) -> None:
        """Leave the cluster, and end it if it is ours."""
        ...


def worker_program() -> Callable[[str, bytes, bytes, int], tuple[str, bytes]]:
    """The function that a worker runs with a `WorkerRequest` and the bytes of memory that it may use.

    It is sent as code because it is nested in a function: so it can reply that Kinetoscope is missing.
    """

    def answer(version: str, question: bytes, sources: bytes, memory: int) -> tuple[str, bytes]:
        import importlib

        try:
            installed = importlib.import_module("kinetoscope").__version__
        except ImportError:
            return "Kinetoscope is not installed there", b""
        if installed != version:
            return f"there Kinetoscope has version {installed}", b""
        from kinetoscope.engines.worker import answered

        return "", answered(question, sources, memory)

    return answer


_open: WeakValueDictionary[Hashable, Actors] = WeakValueDictionary()
_lock = threading.Lock()


def shared(key: Hashable, connect: Callable[[], Actors]) -> Actors:
    """The workers that another job of this process has already, else those that `connect` gives.

    So that two jobs do not take the cluster from one another.
    """
    with _lock:
        actors = _open.get(key)
        if actors is None or not actors.alive:
            actors = _open[key] = connect()
        return actors


class Cluster:
    """The engine for workers of any kind.

    Args:
        files: how files are read.
        actors: the workers.
        progress: called with the bytes that workers have read since.
    """

    def __init__(self, files: Files, actors: Actors, progress: Callable[[int], None] | None = None) -> None:
        self._files = files
        self._actors = actors
        self._progress = progress or (lambda _: None)
        self._reader_of: dict[Source, str] = {}  # by which worker it was read, in the order of asking
        self._here: SharedCache[Trace] = SharedCache(1, lambda _: 1, grows=True)
        actors.users.add(id(self))
        self._leave = weakref.finalize(self, _leave, actors, id(self))

    def close(self) -> None:
        """Leave the cluster, unless another job uses it, too. Happens by itself when nobody has the engine."""
        self._leave()

    def trace(self, source: Source) -> Trace:
        """The trace, read in this process: it is not sent."""
        return self._here.get(source, lambda: self._files.load(source, progress=self._progress))

    def ask(self, sources: Sequence[Source], questions: Sequence[Question]) -> tuple[Answer, ...]:
        """See `Engine.ask`: workers fold what they are asked, and what they answer is folded here as it comes.

        Raises:
            InputError: a worker has no Kinetoscope, or another version of it; or the cluster is gone, or its workers.
        """
        tree = Tree[tuple[Answer, ...]](len(sources), partial(together, questions))
        for block, answers in self._answers(sources, questions):
            tree.put(block.start // _width(block), answers, _width(block).bit_length() - 1)
        return tree.root or ()

    def _answers(
        self, sources: Sequence[Source], questions: Sequence[Question]
    ) -> Iterator[tuple[range, tuple[Answer, ...]]]:
        """The answers of workers about blocks of places, each once."""
        actors = self._actors
        question = packed(self._files, questions, actors.cloudpickle)
        waiting = _Waiting(sources, self._reader_of, MAX_BLOCK_RANKS)
        running: dict[Future[Any], tuple[range, str]] = {}
        last_seen = time.monotonic()
        try:
            while waiting or running:
                capacity = actors.capacity()
                if capacity:
                    last_seen = time.monotonic()
                elif time.monotonic() - last_seen > MAX_ABSENCE_S:
                    raise InputError(f"{actors.name} has had no worker for {MAX_ABSENCE_S:.0f} s; start some")
                for worker, block in waiting.given(capacity, Counter(worker for _, worker in running.values())):
                    pickled = pickle.dumps([_for_worker(source) for source in sources[block.start : block.stop]])
                    request = WorkerRequest(self._files.version, question, pickled)
                    running[actors.ask(worker, request)] = block, worker
                if not running:
                    time.sleep(POLL_S)
                done = wait(running, POLL_S, FIRST_COMPLETED).done
                there = actors.capacity()
                for future in [each for each, (_, worker) in running.items() if each in done or worker not in there]:
                    block, worker = running.pop(future)
                    try:
                        reply = actors.reply(future, worker)
                    except DiedError:
                        for place in waiting.again(block):
                            died = f"{sources[place].url}: each worker that read it died; give workers more memory"
                            lost = failed(sources[place], Failure(died))
                            yield range(place, place + 1), (lost,) * len(questions)
                    else:
                        yield block, self._answer(sources[block.start : block.stop], worker, reply)
        finally:
            if actors.alive:
                actors.cancel(running)

    def _answer(self, sources: Sequence[Source], worker: str, reply: Reply) -> tuple[Answer, ...]:
        if reply.fault:
            version = self._files.version
            raise InputError(
                f"{self._actors.name}, worker {worker}: {reply.fault}; all workers need version {version}: pip install"
                f" kinetoscope=={version}"
            )
        for source in sources:
            self._reader_of.pop(source, None)
            self._reader_of[source] = worker
        answer = unpacked(reply.answer)
        self._progress(answer.read)
        return answer.answers


def _for_worker(source: Source) -> Source:
    """The source as a worker finds it: it runs in another folder, and has one thread for it."""
    url = source.url if "://" in source.url else str(Path(source.url).absolute())
    return replace(source, url=url, options=replace(source.options, threads=1))


def _width(block: range) -> int:
    """Places of the subtree that a block is, of which the last one of all may not be full."""
    return 1 << (len(block) - 1).bit_length()


def _leave(actors: Actors, user: int) -> None:
    actors.users.discard(user)
    if not actors.users:
        actors.close()


class _Waiting:
    """The places of ranks that nobody has been asked about yet.

    A worker keeps what it was asked last, so it is asked about that first: else, where not all of its traces have room,
    each would be dropped just before its turn.

    Args:
        sources: the ranks.
        reader_of: the workers that read some of them, in the order of asking.
        max_block: places that are given together at most.
    """

    def __init__(self, sources: Sequence[Source], reader_of: Mapping[Source, str], max_block: int) -> None:
        self._max_block = max_block
        self._count = len(sources)
        self._own: dict[str, OrderedDict[int, None]] = {}  # in the order of asking
        self._alone: deque[int] = deque()
        self._deaths: Counter[int] = Counter()
        place = {source: k for k, source in enumerate(sources)}
        for source, worker in reader_of.items():
            if source in place:
                self._own.setdefault(worker, OrderedDict())[place[source]] = None
        self._rest = OrderedDict.fromkeys(k for k, source in enumerate(sources) if source not in reader_of)

    def __len__(self) -> int:
        return sum(map(len, self._own.values())) + len(self._rest) + len(self._alone)

    def given(self, capacity: Mapping[str, int], busy: Counter[str]) -> Iterator[tuple[str, range]]:
        """The worker and its places of each next question; `busy` counts the blocks of each worker."""
        for gone in set(self._own) - set(capacity):
            self._rest |= self._own.pop(gone)
        running = busy.total()
        slots = sum(capacity.values())
        for turn in range(max(capacity.values(), default=0)):  # the first block of all workers, then their second
            # Large blocks first, small ones when few ranks are left: all workers are done at about the same time.
            width = max(1, min(self._max_block, len(self) // (2 * slots)))
            for worker, most in capacity.items():
                if turn < most and busy[worker] <= turn and (block := self._next(worker, width)) is not None:
                    busy[worker] += 1
                    running += 1
                    yield worker, block
        if not running and self._alone and capacity:
            place = self._alone.popleft()
            yield next(iter(capacity)), range(place, place + 1)

    def _next(self, worker: str, width: int) -> range | None:
        if mine := self._own.get(worker):
            return self._block(mine, next(reversed(mine)), width)
        if self._rest:
            return self._block(self._rest, next(iter(self._rest)), width)
        others = max(self._own.values(), key=len, default=OrderedDict[int, None]())
        return self._block(others, next(iter(others)), 1) if len(others) > 1 else None

    def _block(self, places: OrderedDict[int, None], place: int, width: int) -> range:
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
            del places[each]
        return block

    def again(self, block: range) -> Iterator[int]:
        """Put back the block of a worker that died; yields the places that must be given up."""
        for place in block:
            self._deaths[place] += 1
            if self._deaths[place] > MAX_SHARED_DEATHS + 1:
                yield place
            elif self._deaths[place] > MAX_SHARED_DEATHS:
                self._alone.append(place)
            else:
                self._rest[place] = None
