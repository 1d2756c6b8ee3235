"""What follows from a trace, computed once and kept while there is room: the least recently used is dropped first."""

from __future__ import annotations

import dataclasses
import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import numpy as np
import polars as pl

Question = tuple[Hashable, ...]

P = ParamSpec("P")
T = TypeVar("T")


class Memory(Protocol):
    """What remembers answers about itself: a `Trace`, a `JobView`."""

    def of(self, derive: Callable[..., T], *details: Any, **named: Any) -> T:
        """`derive(self, *details, **named)`, computed once."""
        ...


M = TypeVar("M", bound=Memory)


def derived(derive: Callable[Concatenate[M, P], T]) -> Callable[Concatenate[M, P], T]:
    """A function of a trace and of hashable details, computed once for each trace (`Trace.of`).

    The answer is shared by all who ask: its arrays are read-only.
    """

    @functools.wraps(derive)
    def ask(of: M, /, *details: P.args, **named: P.kwargs) -> T:
        return of.of(cast("Callable[..., T]", derive), *details, **named)

    return cast("Callable[Concatenate[M, P], T]", ask)


class DerivedCache:
    """Answers to questions, with a budget of bytes. Not safe from threads: its trace has the lock.

    Attributes:
        budget: bytes of arrays and frames to keep at most; the answer that came last is kept whatever its size.
        nbytes: bytes that are kept; an array that two answers share counts twice.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.nbytes = 0
        self._kept: OrderedDict[Question, tuple[Any, int]] = OrderedDict()

    def __contains__(self, question: Question) -> bool:
        return question in self._kept

    def __getitem__(self, question: Question) -> Any:
        self._kept.move_to_end(question)
        return self._kept[question][0]

    def keep(self, question: Question, answer: Any) -> None:
        """Keep an answer, read-only from now on, and drop the oldest ones that there is no room for beside it."""
        size = 0
        for part in _parts(answer):
            if isinstance(part, np.ndarray):
                part.flags.writeable = False
                size += part.nbytes
            else:
                size += int(part.estimated_size())
        self._kept[question] = answer, size
        self.nbytes += size
        while self.nbytes > self.budget and len(self._kept) > 1:
            _, (_, freed) = self._kept.popitem(last=False)
            self.nbytes -= freed

    def clear(self) -> None:
        """Drop all."""
        self._kept.clear()
        self.nbytes = 0


def _parts(answer: Any) -> Iterator[np.ndarray[Any, Any] | pl.DataFrame]:
    """The arrays and frames of an answer, those in dataclasses and tuples among them."""
    if isinstance(answer, (np.ndarray, pl.DataFrame)):
        yield answer
    elif isinstance(answer, tuple):
        for part in answer:
            yield from _parts(part)
    elif dataclasses.is_dataclass(answer) and not isinstance(answer, type):
        for fact in dataclasses.fields(answer):
            yield from _parts(getattr(answer, fact.name))
