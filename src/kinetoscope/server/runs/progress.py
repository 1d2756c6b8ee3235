"""How much of the files of a run has been read, for whoever waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """Bytes as stored: read, and in all (0: nothing is being read); and what is going on, in a word."""

    done: int
    total: int
    what: str


class Progress:
    """The bytes that readers have read, from any thread; it starts again when nothing is being read."""

    def __init__(self) -> None:
        self._done = 0
        self._total = 0
        self._under_way = 0
        self._lock = threading.Lock()

    def more(self, count: int) -> None:
        """So many more bytes."""
        with self._lock:
            self._done += count

    @contextmanager
    def reading(self, size: int | None) -> Iterator[Callable[[int], None]]:
        """A file of this size is being read while this is open; the value counts the bytes of each piece."""
        with self._lock:
            self._under_way += 1
            self._total += size or 0
        try:
            yield self.more
        finally:
            with self._lock:
                self._under_way -= 1
                if not self._under_way:
                    self._done = self._total = 0

    def now(self) -> ReadProgress:
        """At this moment."""
        with self._lock:
            if not self._under_way:
                return ReadProgress(0, 0, "")
            return ReadProgress(min(self._done, self._total) if self._total else self._done, self._total, "reading")
