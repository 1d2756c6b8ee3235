"""Files of several parts, each of which is a rank: what was read of the whole is kept until all parts are taken."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

KEEP_SECONDS: Final = 60.0
"""Seconds for which a file is kept for the parts that have not been asked for."""


class Whole(Generic[T]):
    """The content of the file that was read last, until each of its parts has been taken, or for a while.

    Args:
        parts: the names of all parts of a content.

    Attributes:
        content: that which is kept; None for none.
    """

    def __init__(self, parts: Callable[[T], Collection[str]]) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._key: Hashable = None
        self.content: T | None = None
        self._taken: set[str] = set()

    def take(self, key: Hashable, part: str, load: Callable[[], T]) -> T:
        """The content of a file, of which a part is taken; others that ask for one wait until it was read.

        Args:
            key: the file, its state and how it is read; None where nothing tells whether it has changed.
            part: which.
            load: reads the whole file.
        """
        with self._lock:
            content = self.content if key is not None and self._key == key else None
            if content is None:
                self.content = None  # not two at once
                content = load()
                self._key, self.content, self._taken = key, content, set()
            self._taken.add(part)
            if key is None or self._taken >= set(self._parts(content)):
                self.content = None
            else:
                forgetting = threading.Timer(KEEP_SECONDS, self._forget, [content])
                forgetting.daemon = True
                forgetting.start()
        return content

    def _forget(self, content: T) -> None:
        with self._lock:
            if self.content is content:
                self.content = None
