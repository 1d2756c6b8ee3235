"""Traces that stay in memory for the next question, within a limit: those asked for last are kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future

from kinetoscope.model.trace import Trace


class Kept:
    """Traces by a key. Threads that ask for one that is being read wait for it; different ones are read side by side.

    Args:
        limit: how much is kept at most.
        size: how much of it a trace takes: its bytes, or 1 for a limit in traces. Asked anew each time, as a trace
            grows by what is derived from it.
    """

    def __init__(self, limit: int, size: Callable[[Trace], int]) -> None:
        self.limit = limit
        self._size = size
        self._traces: OrderedDict[Hashable, Trace] = OrderedDict()
        self._coming: dict[Hashable, Future[Trace]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._traces)

    def get(self, key: Hashable, load: Callable[[], Trace]) -> Trace:
        """The trace of this key, by `load` if it was not kept.

        Raises:
            KinetoscopeError: what `load` raises.
        """
        with self._lock:
            if (trace := self._traces.get(key)) is not None:
                self._traces.move_to_end(key)
                return trace
            coming = self._coming.get(key)
            mine = coming is None
            if coming is None:
                coming = self._coming[key] = Future()
                # The ranks of a job are alike: room for the one that comes is made before it is read.
                self._shrink(self.limit - max(map(self._size, self._traces.values()), default=0))
        if mine:
            self._load(key, load, coming)
        return coming.result()

    def _load(self, key: Hashable, load: Callable[[], Trace], coming: Future[Trace]) -> None:
        try:
            trace = load()
        except BaseException as error:  # noqa: BLE001 - whatever it is, others wait for it
            with self._lock:
                del self._coming[key]
            coming.set_exception(error)
            return
        with self._lock:
            del self._coming[key]
            self._traces[key] = trace
            self._shrink(self.limit)
        coming.set_result(trace)

    def _shrink(self, limit: int) -> None:
        total = sum(map(self._size, self._traces.values()))
        while self._traces and total > limit:
            _, trace = self._traces.popitem(last=False)
            total -= self._size(trace)
