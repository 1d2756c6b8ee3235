"""The fold of answers by a tree."""

from __future__ import annotations

import functools
import math

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.engines.fold_tree import Tree
from kinetoscope.model.analysis import Question, failed, together
from kinetoscope.model.answer import Answer, Failure, Partial
from kinetoscope.model.trace.source import Source
from kinetoscope.notes import Note
from kinetoscope.schema import Schema


def joined(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([one, other])


def partial(place: int) -> Partial:
    return Partial(pl.DataFrame({"place": [place]}), (Note("A", "said"),))


QUESTIONS = [Question(lambda trace, select: partial(0), Schema(), combine=joined)]


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.permutations(range(n)), st.sets(st.integers(0, n - 1)))))
def test_all_answers_are_joined_in_order_whoever_comes_first(drawn: tuple[list[int], set[int]]) -> None:
    order, failing = drawn
    tree = Tree[tuple[Answer, ...]](len(order), functools.partial(together, QUESTIONS))
    for k in order:
        tree.put(k, (failed(Source(str(k), k), Failure(f"{k}")) if k in failing else Answer({}, partial(k)),))
    assert tree.root is not None
    [whole] = tree.root
    assert whole.of_rank == {(k, 0): Failure(f"{k}") for k in sorted(failing)}
    assert [rank for rank, _ in whole.of_rank] == sorted(failing)
    if len(failing) == len(order):
        assert whole.folded is None
    else:
        assert whole.folded is not None
        assert whole.folded.frame["place"].to_list() == [k for k in range(len(order)) if k not in failing]
        assert whole.folded.notes == (Note("A", "said"),)


def test_it_is_as_deep_as_the_logarithm_and_few_wait() -> None:
    for places in (1, 2, 3, 1000, 1024, 1025):
        tree = Tree[int](places, lambda one, other: max(one, other) + 1)
        most = 0
        for place in range(places):
            tree.put(place, 0)
            most = max(most, len(tree.waiting))
        assert tree.root == math.ceil(math.log2(places))
        assert most <= math.log2(places) + 1
        assert not tree.waiting
