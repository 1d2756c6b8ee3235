"""What was answered is kept for the next time, within bytes; who asks what is being answered waits for that answer."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from kinetoscope.errors import KinetoscopeError

T = TypeVar("T")

PATIENCE: Final = 1.0
"""Seconds for which an error is the answer before the question is tried again."""


@dataclass(frozen=True, slots=True)
class _Answer:
    value: Any
    size: int


class Answers:
    """Answers by their question; those least recently asked for are dropped first.

    Args:
        limit: bytes to keep; the last answer stays, however large it is.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[Hashable, _Answer] = OrderedDict()
        self._failed: OrderedDict[Hashable, tuple[KinetoscopeError, float]] = OrderedDict()
        self._coming: dict[Hashable, Future[Any]] = {}
        self._held = 0
        self._lock = threading.Lock()

    def get(self, question: Hashable, answer: Callable[[], T], size: Callable[[T], int]) -> T:
        """The answer, by `answer` if it is not kept; `size` says how many bytes it takes."""
        with self._lock:
            if (kept := self._kept.get(question)) is not None:
                self._kept.move_to_end(question)
                return cast(T, kept.value)
            if failed := self._failed.get(question):
                if time.monotonic() - failed[1] < PATIENCE:
                    raise failed[0]
                del self._failed[question]
            coming = self._coming.get(question)
            mine = coming is None
            if coming is None:
                coming = self._coming[question] = Future()
        if mine:
            self._answer(question, answer, size, coming)
        return cast(T, coming.result())

    def _answer(
        self, question: Hashable, answer: Callable[[], T], size: Callable[[T], int], coming: Future[Any]
    ) -> None:
        try:
            value = answer()
            bytes_ = size(value)
        except BaseException as error:  # noqa: BLE001 - whatever it is, others wait for it
            with self._lock:
                del self._coming[question]
                if isinstance(error, KinetoscopeError):
                    self._failed[question] = (error, time.monotonic())
                    while len(self._failed) > 256:
                        self._failed.popitem(last=False)
            coming.set_exception(error)
            return
        with self._lock:
            del self._coming[question]
            self._kept[question] = _Answer(value, bytes_)
            self._held += bytes_
            while self._held > self._limit and len(self._kept) > 1:
                _, dropped = self._kept.popitem(last=False)
                self._held -= dropped.size
        coming.set_result(value)
