"""Whatever two runs hold, each owner is in one pair; and what is the same is paired with the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.compare.diff.align import aligned
from kinetoscope.compare.diff.run_profile import Owner, OwnerKey, RunProfile

KEYS = st.builds(
    OwnerKey,
    category=st.sampled_from(("computation", "host")),
    kind=st.sampled_from(("kernel", "operator")),
    name=st.sampled_from(("a", "b", "c 1", "c 2")),
    path=st.sampled_from(("", "x", "x;y", "step 1;y", "step 2;y", "z;y")),
    input_shapes=st.sampled_from((None, "[[1]]", "[[2]]")),
)
SETS = st.lists(KEYS, max_size=12, unique=True)


def run(keys: list[OwnerKey]) -> RunProfile:
    entries = tuple(Owner(key, 1, 10 + place, place) for place, key in enumerate(keys))
    return RunProfile("run", (0,), 1, np.ones(1, np.int64), entries)


@given(SETS, SETS)
def test_each_owner_is_in_one_pair(base: list[OwnerKey], new: list[OwnerKey]) -> None:
    pairs = aligned(run(base), run(new))
    assert sorted(entry.key for pair in pairs for entry in pair.base if entry.key.input_shapes) == sorted(
        key for key in base if key.input_shapes
    )
    assert sum(len(pair.base) for pair in pairs) == len(base)
    assert sum(len(pair.new) for pair in pairs) == len(new)
    assert len({entry.first for pair in pairs for entry in pair.base}) == len(base)
    assert len({entry.first for pair in pairs for entry in pair.new}) == len(new)
    assert all(pair.base or pair.new for pair in pairs)
    for pair in pairs:
        shared = {entry.key for entry in pair.base} & set(new)
        assert shared <= {entry.key for entry in pair.new}
        categories = {entry.key.category for entry in (*pair.base, *pair.new)}
        assert len(categories) == 1


@given(SETS)
def test_a_run_beside_itself(keys: list[OwnerKey]) -> None:
    assert all(
        [entry.key for entry in pair.base] == [entry.key for entry in pair.new] and len(pair.base) == 1
        for pair in aligned(run(keys), run(keys))
    )


@given(SETS, SETS)
def test_both_ways_it_is_the_same(base: list[OwnerKey], new: list[OwnerKey]) -> None:
    there = {
        (frozenset(e.key for e in pair.base), frozenset(e.key for e in pair.new))
        for pair in aligned(run(base), run(new))
    }
    back = {
        (frozenset(e.key for e in pair.new), frozenset(e.key for e in pair.base))
        for pair in aligned(run(new), run(base))
    }
    assert there == back


def kernel(path: str, shapes: str | None = None, name: str = "gemm") -> OwnerKey:
    return OwnerKey(category="computation", kind="kernel", name=name, path=path, input_shapes=shapes)


def test_kernels_that_moved_into_a_graph_are_the_same_kernels() -> None:
    eager = [kernel(f"forward;aten::mm;{place}", f"[[{place}]]") for place in range(3)]
    replayed = [kernel("graph", "[[9]]"), kernel("graph", "[[9]]", "memset")]
    pairs = aligned(run(eager), run(replayed))
    assert sorted((len(pair.base), len(pair.new)) for pair in pairs) == [(0, 1), (3, 1)]
    assert sorted((len(pair.base), len(pair.new)) for pair in aligned(run(replayed), run(eager))) == [(1, 0), (1, 3)]


def test_operators_that_came_and_went_are_not_one_as_they_share_a_kernel() -> None:
    before, after = [kernel("a;x", "[[1]]"), kernel("a;y", "[[2]]")], [kernel("b;z", "[[3]]"), kernel("b;v", "[[4]]")]
    assert sorted((len(pair.base), len(pair.new)) for pair in aligned(run(before), run(after))) == [
        (0, 1), (0, 1), (1, 0), (1, 0)
    ]  # fmt: skip
