from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from kinetoscope.algorithms.intervals.intervals import (
    Intervals,
    covered,
    difference,
    exclusive,
    intersection,
    length,
    merge,
    union,
)

FIRST, LAST = -(2**63), 2**63 - 1

Pairs = list[tuple[int, int]]
pairs = st.lists(st.tuples(st.integers(-20, 20), st.integers(-3, 9)).map(lambda p: (p[0], p[0] + p[1])), max_size=12)


def arrays(pairs: Pairs) -> Intervals:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return Intervals(table[:, 0], table[:, 1])


def instants(pairs: Iterable[tuple[int, int]]) -> set[int]:
    return {instant for start, end in pairs for instant in range(start, end)}


def pairs_of(intervals: Intervals) -> Pairs:
    return list(zip(intervals.start.tolist(), intervals.end.tolist(), strict=True))


def assert_union_of(expected: set[int], found: Intervals) -> None:
    assert instants(pairs_of(found)) == expected
    assert found.length == len(expected)
    bounds = [bound for pair in pairs_of(found) for bound in pair]
    assert all(a < b for a, b in pairwise(bounds))


@given(pairs)
def test_union(drawn: Pairs) -> None:
    assert_union_of(instants(drawn), union(*arrays(drawn)))
    assert length(*arrays(drawn)) == len(instants(drawn))


@given(pairs, pairs)
@example([(0, 5), (5, 9)], [(0, 9)])
def test_intersection_difference_and_merge(a: Pairs, b: Pairs) -> None:
    first, second = union(*arrays(a)), union(*arrays(b))
    assert_union_of(instants(a) & instants(b), intersection(first, second))
    assert_union_of(instants(a) - instants(b), difference(first, second))
    assert_union_of(instants(a) | instants(b), merge(first, second))


@given(pairs, pairs)
def test_covered(windows: Pairs, drawn: Pairs) -> None:
    expected = [len(instants([window]) & instants(drawn)) for window in windows]
    assert covered(arrays(windows), union(*arrays(drawn))).tolist() == expected


@given(pairs, st.lists(pairs, max_size=4))
def test_exclusive(windows: Pairs, classes: list[Pairs]) -> None:
    expected = []
    for window in windows:
        left, row = instants([window]), []
        for each in classes:
            row.append(len(left & instants(each)))
            left -= instants(each)
        expected.append([*row, len(left)])
    found = exclusive(arrays(windows), [union(*arrays(each)) for each in classes])
    assert found.shape == (len(windows), len(classes) + 1)
    assert found.tolist() == expected


def test_union_leaves_its_input_alone() -> None:
    start, end = np.array([5, 1]), np.array([6, 2])
    union(start, end)
    assert (start.tolist(), end.tolist()) == ([5, 1], [6, 2])


def test_merge_of_nothing_is_empty() -> None:
    assert pairs_of(merge()) == []


def test_ends_of_time() -> None:
    ends = union(*arrays([(LAST - 4, LAST), (FIRST, FIRST + 3)]))
    assert pairs_of(ends) == [(FIRST, FIRST + 3), (LAST - 4, LAST)]
    assert ends.length == 7
    inner = union(*arrays([(FIRST + 1, FIRST + 2), (LAST - 1, LAST)]))
    assert pairs_of(intersection(ends, inner)) == pairs_of(inner)
    assert pairs_of(difference(ends, inner)) == [(FIRST, FIRST + 1), (FIRST + 2, FIRST + 3), (LAST - 4, LAST - 1)]
    assert pairs_of(difference(inner, ends)) == []
    windows = arrays([(FIRST, FIRST + 2), (LAST - 9, LAST - 3), (FIRST, -1), (0, LAST)])
    assert covered(windows, ends).tolist() == [2, 1, 3, 4]
