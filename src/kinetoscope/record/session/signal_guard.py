"""Work that a handler of signals must not cut in two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Critical:
    """Handlers run on the main thread between any two of its instructions; what they want is put off until it is free.

    Attributes:
        busy: how many sections the thread is in.
    """

    def __init__(self) -> None:
        self.busy = 0
        self._after: list[Callable[[], Any]] = []

    @contextmanager
    def section(self) -> Iterator[None]:
        """What must not be cut in two."""
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1
            while self._after and not self.busy:
                self._after.pop(0)()

    def when_free(self, act: Callable[[], Any]) -> None:
        """Do it as soon as the thread is not in the midst of something; at once if it is not."""
        if self.busy:
            self._after.append(act)
        else:
            act()
