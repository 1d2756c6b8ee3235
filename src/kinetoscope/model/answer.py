"""What ranks answer to a question: rows and notes of one, why another has none, and both of several in one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

import polars as pl

from kinetoscope.errors import KinetoscopeError, UsageError
from kinetoscope.notes import Note

Combine = Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]
"""Folds the rows of two ranks, or of several, into one frame. It is associative, and the order must not matter."""


@dataclass(frozen=True, slots=True)
class Partial:
    """The answer of one rank, or of several whose answers were folded.

    Attributes:
        frame: its rows.
        notes: what they leave out.
        extra: rows of another kind, with columns of their own, as steps beside collectives.
    """

    frame: pl.DataFrame
    notes: tuple[Note, ...] = ()
    extra: pl.DataFrame | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "notes", tuple(map(Note.of, self.notes)))

    def folded(self, other: Partial, combine: Combine) -> Partial:
        """Both answers in one: rows of `extra` one below the other, notes that both have once."""
        notes = tuple(dict.fromkeys((*self.notes, *other.notes)))
        extra = None if self.extra is None or other.extra is None else pl.concat([self.extra, other.extra])
        return Partial(combine(self.frame, other.frame), notes, extra)


@dataclass(frozen=True, slots=True)
class Failure:
    """A rank without an answer: the message of the error, and whether the question is at fault."""

    message: str
    usage: bool = False

    @classmethod
    def of(cls, error: KinetoscopeError) -> Self:
        """The failure that an error makes."""
        return cls(str(error), usage=isinstance(error, UsageError))


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of ranks to one question.

    Attributes:
        of_rank: what each rank and cycle answered, or why it did not; without what is folded.
        folded: the answers that were folded; None where nothing folds them, or none is there.
    """

    of_rank: Mapping[tuple[int, int], Partial | Failure]
    folded: Partial | None = None

    def joined(self, other: Answer, combine: Combine | None) -> Answer:
        """The answer of the ranks of both."""
        folded = self.folded or other.folded
        if self.folded is not None and other.folded is not None and combine is not None:
            folded = self.folded.folded(other.folded, combine)
        return Answer({**self.of_rank, **other.of_rank}, folded)
