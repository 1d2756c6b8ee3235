"""Answers of ranks folded by a binary tree over their places, as they come.

The tree depends on how many ranks there are, not on who answers first: so a result is the same bit by bit on any
engine, even where `combine` adds floating-point numbers. The depth is the logarithm of the number of ranks, so that
each row is copied that often and no more; and while answers come roughly in order, so few subtrees wait for their
neighbours: whoever folds a sum of 10,000 ranks holds some dozens of answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Tree(Generic[T]):
    """A binary tree over places that folds their answers.

    Attributes:
        root: all of them, when each place has been put; None before.
        waiting: subtrees whose neighbour is not complete yet, by level and place in it.
    """

    def __init__(self, places: int, join: Callable[[T, T], T]) -> None:
        self.root: T | None = None
        self.waiting: dict[tuple[int, int], T] = {}
        self._places = places
        self._join = join

    def put(self, place: int, answer: T, level: int = 0) -> None:
        """The answer of a place; of a level above, of the places below it, folded elsewhere."""
        width = (self._places + (1 << level) - 1) >> level
        while width > 1:
            if place ^ 1 < width:  # the last of an odd number goes up alone
                if (level, place ^ 1) not in self.waiting:
                    self.waiting[level, place] = answer
                    return
                other = self.waiting.pop((level, place ^ 1))
                answer = self._join(other, answer) if place & 1 else self._join(answer, other)
            level, place, width = level + 1, place >> 1, (width + 1) >> 1
        self.root = answer
