"""Functions of a trace whose answers are computed once and kept while there is room."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar, cast

import numpy as np
import polars as pl

from kinetoscope.caching import BoundedCache

P = ParamSpec("P")
T = TypeVar("T")


class Memory(Protocol):
    """An object that remembers answers about itself: a `Trace`, a `JobView`."""

    def of(self, derive: Callable[..., T], *details: Any, **named: Any) -> T:
        """`derive(self, *details, **named)`, computed once."""
        ...


M = TypeVar("M", bound=Memory)


def derived(derive: Callable[Concatenate[M, P], T]) -> Callable[Concatenate[M, P], T]:
    """A function of a trace and of hashable details, computed once for each trace (`Trace.of`).

    A question is the same however it is written: with defaults left out, or with details by name. The answer is shared
    by all who ask: its arrays are read-only.
    """
    function = cast(Any, derive)
    positional: tuple[str, ...] = function.__code__.co_varnames[1 : function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    default_of = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
    named_defaults: dict[str, Any] = function.__kwdefaults__ or {}

    @functools.wraps(derive)
    def ask(of: M, /, *details: Any, **named: Any) -> T:
        for name in positional[len(details) :]:
            if name not in named and name not in default_of:
                break  # the call says that it is missing
            details += (named.pop(name) if name in named else default_of[name],)
        return cast(T, of.of(function, *details, **{**named_defaults, **named}))

    return cast("Callable[Concatenate[M, P], T]", ask)


class DerivedCache(BoundedCache[Any]):
    """Derived answers by question, with a limit in bytes of arrays and frames."""

    def keep(self, question: Hashable, answer: Any) -> None:
        """Keep an answer, whose arrays are read-only from now on."""
        self.put(question, answer, sealed(answer))


def sealed(answer: Any) -> int:
    """The bytes of the arrays and frames in an answer, whose arrays are read-only from now on.

    An array that two answers share counts twice.
    """
    size = 0
    for part in _parts(answer):
        if isinstance(part, np.ndarray):
            part.flags.writeable = False
            size += part.nbytes
        else:
            size += int(part.estimated_size())
    return size


_PLAIN_TYPES: Final = frozenset({str, int})


def _parts(answer: Any) -> Iterator[np.ndarray[Any, Any] | pl.DataFrame]:
    """The arrays and frames of an answer, those in dataclasses and tuples among them."""
    if isinstance(answer, (np.ndarray, pl.DataFrame)):
        yield answer
    elif isinstance(answer, tuple):
        if not {*map(type, answer)} <= _PLAIN_TYPES:  # of which there may be many
            for part in answer:
                yield from _parts(part)
    else:
        for name in _fields(cast("Hashable", type(answer))):
            yield from _parts(getattr(answer, name))


@functools.cache
def _fields(kind: Any) -> tuple[str, ...]:
    """Names of the fields of a dataclass; () for other types."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()
