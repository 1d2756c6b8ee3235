"""Answers of ranks folded by a binary tree over their places, as they come.

The tree depends on how many ranks there are, not on who answers first: so a result is the same bit by bit on any
engine, even where `combine` adds floating-point numbers. The depth is the logarithm of the number of ranks, so that
each row is copied that often and no more; and while answers come roughly in order, so few subtrees wait for their
neighbours: whoever folds a sum of 10,000 ranks holds some dozens of answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kinetoscope.model.job import Combine, Failure, Partial
from kinetoscope.model.trace.source import Source


def folded(
    sources: Sequence[Source], answers: Iterable[tuple[Source, Partial | Failure]], combine: Combine
) -> tuple[Partial | None, dict[Source, Failure]]:
    """The result of `Engine.reduce` from the answers of `Engine.map`; failures are in the order of `sources`."""
    place = {source: k for k, source in enumerate(sources)}
    tree = Tree(len(sources), combine)
    failures: dict[Source, Failure] = {}
    for source, answer in answers:
        if isinstance(answer, Failure):
            failures[source] = answer
        tree.put(place[source], None if isinstance(answer, Failure) else answer)
    return tree.root, {source: failures[source] for source in sources if source in failures}


class Tree:
    """A binary tree over places that folds their answers.

    Attributes:
        root: all of them, when each place has been put; None where none of them had an answer.
        waiting: subtrees whose neighbour is not complete yet, by level and place in it.
    """

    def __init__(self, places: int, combine: Combine) -> None:
        self.root: Partial | None = None
        self.waiting: dict[tuple[int, int], Partial | None] = {}
        self._places = places
        self._combine = combine

    def put(self, place: int, answer: Partial | None, level: int = 0) -> None:
        """The answer of a place; None where it has none. Of a level above, of the places below it, folded elsewhere."""
        width = (self._places + (1 << level) - 1) >> level
        while width > 1:
            if place ^ 1 < width:  # the last of an odd number goes up alone
                if (level, place ^ 1) not in self.waiting:
                    self.waiting[level, place] = answer
                    return
                other = self.waiting.pop((level, place ^ 1))
                answer = self._joined(other, answer) if place & 1 else self._joined(answer, other)
            level, place, width = level + 1, place >> 1, (width + 1) >> 1
        self.root = answer

    def _joined(self, one: Partial | None, other: Partial | None) -> Partial | None:
        if one is None or other is None:
            return one or other
        return one.folded(other, self._combine)
