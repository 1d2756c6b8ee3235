"""The fold of answers by a tree."""

from __future__ import annotations

import math

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.engines.fold_tree import Tree, folded
from kinetoscope.model.job import Failure, Partial
from kinetoscope.model.trace.source import Source
from kinetoscope.notes import Note


def joined(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([one, other])


def deepened(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """The depth of the tree."""
    return pl.DataFrame({"depth": [max(one["depth"].item(), other["depth"].item()) + 1]})


def partial(place: int) -> Partial:
    return Partial(pl.DataFrame({"place": [place]}), (Note("A", "said"),))


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.permutations(range(n)), st.sets(st.integers(0, n - 1)))))
def test_all_answers_are_joined_in_order_whoever_comes_first(drawn: tuple[list[int], set[int]]) -> None:
    order, failing = drawn
    sources = [Source(str(place), place) for place in range(len(order))]
    answers = [(sources[k], Failure(f"{k}") if k in failing else partial(k)) for k in order]
    whole, failures = folded(sources, answers, joined)
    assert [int(failure.message) for failure in failures.values()] == sorted(failing)
    if len(failing) == len(order):
        assert whole is None
    else:
        assert whole is not None
        assert whole.frame["place"].to_list() == [k for k in range(len(order)) if k not in failing]
        assert whole.notes == (Note("A", "said"),)


def test_it_is_as_deep_as_the_logarithm_and_few_wait() -> None:
    for places in (1, 2, 3, 1000, 1024, 1025):
        tree = Tree(places, deepened)
        most = 0
        for place in range(places):
            tree.put(place, Partial(pl.DataFrame({"depth": [0]})))
            most = max(most, len(tree.waiting))
        assert tree.root is not None
        assert tree.root.frame["depth"].item() == math.ceil(math.log2(places))
        assert most <= math.log2(places) + 1
        assert not tree.waiting
