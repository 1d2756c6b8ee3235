"""Caches with a limit on what they hold: of derived arrays, of traces, of the server's answers."""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Final, Generic, ParamSpec, TypeVar

from kinetoscope.errors import KinetoscopeError, StoppedError

P = ParamSpec("P")
V = TypeVar("V")

ABANDONED: Final[ContextVar[threading.Event | None]] = ContextVar("abandoned", default=None)
"""Set when whoever asked the question that is being answered in this context no longer waits for the answer."""


def checkpoint() -> None:
    """A point at which work is cancelled that nobody waits for.

    Raises:
        StoppedError: whoever asked has left.
    """
    abandoned = ABANDONED.get()
    if abandoned is not None and abandoned.is_set():
        raise StoppedError


MEASURED_EACH_TIME: Final = 64
"""Values whose sizes are measured at each request; of more, once in as many requests."""

MAX_FAILURES: Final = 256


def while_alive(make: Callable[P, V]) -> Callable[P, V]:
    """The same function; an answer about some objects, such as frames, is kept as long as these are.

    They are compared by identity, as whoever asks again does so with the same ones, and nobody changes them. The answer
    must not hold them. What is asked with keywords is not kept.
    """
    known: dict[tuple[int, ...], tuple[list[weakref.ref[object]], V]] = {}

    @functools.wraps(make)
    def ask(*about: P.args, **named: P.kwargs) -> V:
        if named:
            return make(*about, **named)
        key = tuple(map(id, about))
        there = known.get(key)
        if there is not None and all(of() is each for of, each in zip(there[0], about, strict=True)):
            return there[1]
        answer = make(*about, **named)
        known[key] = [weakref.ref(each, lambda _: known.pop(key, None)) for each in about], answer
        return answer

    return ask


class BoundedCache(Generic[V]):
    """Values by key within a limit; the least recently used are dropped first. Not safe from threads.

    Args:
        limit: total size of the values to keep.
        minimum: number of values that stay whatever their size, the latest first.
    """

    def __init__(self, limit: int, minimum: int = 1) -> None:
        self.limit = limit
        self.total = 0
        self._minimum = minimum
        self._entries: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def __getitem__(self, key: Hashable) -> V:
        """A value, from now on the most recently used."""
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def peek(self, key: Hashable) -> tuple[V, int] | None:
        """A value and its size, safe from threads; it is used no more recently for it."""
        return self._entries.get(key)

    def put(self, key: Hashable, value: V, size: int) -> None:
        """Keep a value, and drop older ones that no longer fit."""
        self.total += size - self._entries.pop(key, (None, 0))[1]
        self._entries[key] = value, size
        self.shrink(self.limit)

    def measure(self, size: Callable[[V], int]) -> int:
        """Take the sizes of all values anew; the largest."""
        self._entries.update({key: (value, size(value)) for key, (value, _) in self._entries.items()})
        self.total = sum(size for _, size in self._entries.values())
        return max((size for _, size in self._entries.values()), default=0)

    def shrink(self, limit: int) -> None:
        """Drop values until the rest fits."""
        while self.total > limit and len(self._entries) > self._minimum:
            _, (_, size) = self._entries.popitem(last=False)
            self.total -= size

    def clear(self) -> None:
        """Drop all values."""
        self._entries.clear()
        self.total = 0


class SharedCache(Generic[V]):
    """A bounded cache for threads: one makes a missing value, and whoever asks for the same meanwhile waits for it.

    Args:
        limit: total size of the values to keep.
        size: the size of a value.
        grows: values grow after they were made, as traces do by what is derived from them: sizes are measured again,
            room for a value is made before the value is, and one larger than the limit is not kept at all.
        retry_after: seconds for which a `KinetoscopeError` stays the answer, unless it is a passing one.
    """

    def __init__(self, limit: int, size: Callable[[V], int], *, grows: bool = False, retry_after: float = 0.0) -> None:
        self.limit = limit
        self.retry_after = retry_after
        self._size, self._grows = size, grows
        self._values: BoundedCache[V] = BoundedCache(limit, minimum=0 if grows else 1)
        self._failures: BoundedCache[tuple[KinetoscopeError, float]] = BoundedCache(MAX_FAILURES)
        self._making: dict[Hashable, Future[V]] = {}
        self._requests = 0
        self._largest = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        """The value of a key, by `make` if it is not kept; what `make` raises is raised for all who wait.

        If the thread that computes it is cancelled, one of those that wait takes over.
        """
        while True:
            try:
                return self._get(key, make)
            except StoppedError:
                checkpoint()

    def _get(self, key: Hashable, make: Callable[[], V]) -> V:
        with self._lock:
            self._requests += 1
            if self._grows and (len(self) <= MEASURED_EACH_TIME or self._requests % MEASURED_EACH_TIME == 0):
                self._largest = self._values.measure(self._size)
            if key in self._values:
                return self._values[key]
            if key in self._failures:
                error, failed = self._failures[key]
                if time.monotonic() - failed < self.retry_after:
                    raise error
            if (future := self._making.get(key)) is None:
                mine = self._making[key] = Future()
                if self._grows:
                    self._values.shrink(self.limit - self._largest)
        if future is None:
            self._make(key, make, mine)
        return (future or mine).result()

    def _make(self, key: Hashable, make: Callable[[], V], future: Future[V]) -> None:
        try:
            value = make()
            size = self._size(value)
        except BaseException as error:  # noqa: BLE001 - raised again for all who wait
            with self._lock:
                del self._making[key]
                if isinstance(error, KinetoscopeError) and self.retry_after and not error.is_passing:
                    self._failures.put(key, (error, time.monotonic()), 1)
            future.set_exception(error)
            return
        with self._lock:
            del self._making[key]
            self._values.put(key, value, size)
            self._largest = max(self._largest, size)
        future.set_result(value)
