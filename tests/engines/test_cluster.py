"""Which worker is asked about which ranks."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.engines.cluster import MAX_BLOCK_RANKS, MAX_SHARED_DEATHS, _Waiting, _width
from kinetoscope.engines.fold_tree import Tree
from kinetoscope.model.trace.source import Source

WORKERS = {"a": 2, "b": 2}


def sources(count: int) -> list[Source]:
    return [Source(f"/{rank}", rank) for rank in range(count)]


def blocks(waiting: _Waiting) -> list[tuple[str, range]]:
    """All that is given, where each is answered before the next."""
    found = []
    while waiting:
        found += list(waiting.given(WORKERS, Counter()))
    return found


def added(one: float, other: float) -> float:
    return one + other


@given(st.integers(1, 300), st.lists(st.integers(0, 299), unique=True), st.sampled_from([1, 2, 8, MAX_BLOCK_RANKS]))
def test_all_places_are_given_once_in_subtrees_which_fold_to_the_same(count: int, read: list[int], most: int) -> None:
    ranks = sources(count)
    asked = {ranks[k]: "ab"[k % 3 > 1] for k in read if k < count}
    given = [block for _, block in blocks(_Waiting(ranks, asked, most))]
    assert sorted(place for block in given for place in block) == list(range(count))
    assert all(len(block) <= most for block in given)

    whole, parts = Tree[float](count, added), Tree[float](count, added)
    for k in range(count):
        whole.put(k, 0.1 * 3 ** (k % 30))
    for block in reversed(given):
        subtree = Tree[float](len(block), added)
        for place, k in enumerate(block):
            subtree.put(place, 0.1 * 3 ** (k % 30))
        assert subtree.root is not None
        parts.put(block.start // _width(block), subtree.root, _width(block).bit_length() - 1)
    assert whole.root == parts.root
    assert whole.root is not None


def test_few_ranks_are_given_one_by_one_and_many_in_blocks_that_become_smaller() -> None:
    assert {len(block) for _, block in blocks(_Waiting(sources(15), {}, MAX_BLOCK_RANKS))} == {1}
    sizes = [len(block) for _, block in blocks(_Waiting(sources(1024), {}, MAX_BLOCK_RANKS))]
    assert sizes[0] == MAX_BLOCK_RANKS
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1


def test_a_worker_is_asked_about_what_it_read() -> None:
    ranks = sources(64)
    asked = {rank: "a" if rank.rank < 32 else "b" for rank in ranks}
    first = list(_Waiting(ranks, asked, MAX_BLOCK_RANKS).given(WORKERS, Counter()))
    assert first[:2] == [("a", range(24, 32)), ("b", range(56, 64))]


def test_after_a_death_ranks_are_asked_one_by_one_then_alone_and_given_up() -> None:
    waiting = _Waiting(sources(64), {}, MAX_BLOCK_RANKS)
    (_, block), *_ = list(waiting.given({"a": 1}, Counter()))
    assert block == range(MAX_BLOCK_RANKS)
    assert not list(waiting.again(block))
    later = blocks(waiting)
    assert sorted(k for _, each in later for k in each) == list(range(64))
    assert [each for _, each in later if each.start < MAX_BLOCK_RANKS] == [range(k, k + 1) for k in block]
    for again in range(1, MAX_SHARED_DEATHS):
        assert not list(waiting.again(range(3, 4)))
        assert blocks(waiting) == [("a", range(3, 4))], again
    assert not list(waiting.again(range(3, 4)))
    assert not list(waiting.given(WORKERS, Counter(b=1)))  # somebody is at work
    assert list(waiting.given(WORKERS, Counter())) == [("a", range(3, 4))]
    assert list(waiting.again(range(3, 4))) == [3]
    with pytest.raises(StopIteration):
        next(waiting.given(WORKERS, Counter()))
