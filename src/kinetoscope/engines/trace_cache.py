"""Traces that stay in memory for the next question, within a limit: those asked for last are kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Final

from kinetoscope.model.trace.trace import Trace

_FEW: Final = 64
"""So many traces are measured each time one is asked for; more of them only once in so many times."""


class Kept:
    """Traces by a key. Threads that ask for one that is being read wait for it; different ones are read side by side.

    Args:
        limit: how much is kept at most.
        size: how much of it a trace takes: its bytes, or 1 for a limit in traces. A trace grows by what is derived from
            it, so it is asked anew each time; of very many traces now and then.
    """

    def __init__(self, limit: int, size: Callable[[Trace], int]) -> None:
        self.limit = limit
        self._size = size
        self._traces: OrderedDict[Hashable, Trace] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self._total = 0
        self._asked = 0
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
            self._asked += 1
            if len(self._traces) <= _FEW or self._asked % _FEW == 0:
                for each in self._traces:
                    self._measure(each)
            if (trace := self._traces.get(key)) is not None:
                self._traces.move_to_end(key)
                return trace
            coming = self._coming.get(key)
            mine = coming is None
            if coming is None:
                coming = self._coming[key] = Future()
                # The ranks of a job are alike: room for the one that comes is made before it is read.
                self._shrink(self.limit - max(self._sizes.values(), default=0))
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
            self._measure(key)
            self._shrink(self.limit)
        coming.set_result(trace)

    def _measure(self, key: Hashable) -> None:
        size = self._size(self._traces[key])
        self._total += size - self._sizes.get(key, 0)
        self._sizes[key] = size

    def _shrink(self, limit: int) -> None:
        while self._traces and self._total > limit:
            key, _ = self._traces.popitem(last=False)
            self._total -= self._sizes.pop(key)
