import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.intervals.priority_sweep import charge

Interval = tuple[int, int, int]
"""Start, length, row."""


@given(st.integers(1, 6).flatmap(lambda rows: st.tuples(
    st.tuples(*[st.integers(-1, row - 1) for row in range(rows)]),
    st.lists(st.integers(-1, 2), min_size=rows, max_size=rows),
    st.lists(st.tuples(st.integers(-5, 12), st.integers(-2, 6), st.integers(-1, rows - 1)), max_size=12),
)), st.booleans())  # fmt: skip
def test_charge(drawn: tuple[tuple[int, ...], list[int], list[Interval]], climb: bool) -> None:
    parent, group, intervals = drawn
    total = [0, 0, 0]
    instants: list[set[int]] = [set(), set(), set()]
    for start, length, row in intervals:
        charged = {-1}
        while row >= 0:
            if group[row] not in charged:
                charged.add(group[row])
                total[group[row]] += max(length, 0)
                instants[group[row]] |= set(range(start, start + length))
            row = parent[row] if climb else -1
    table = np.array(intervals, np.int64).reshape(-1, 3)
    found = charge(
        table[:, 0],
        table[:, 0] + table[:, 1],
        table[:, 2].astype(np.int32),
        np.array(parent, np.int32),
        np.array(group, np.int32),
        3,
        climb=climb,
    )
    assert found.total.tolist() == total
    assert found.covered.tolist() == [len(each) for each in instants]


@pytest.mark.parametrize(("row", "parent", "group"), [(1, -1, 0), (0, 1, 0), (0, -1, 1)])
def test_what_points_nowhere_is_refused(row: int, parent: int, group: int) -> None:
    one = np.ones(1, np.int64)
    rows, parents, groups = (np.array([value], np.int32) for value in (row, parent, group))
    with pytest.raises(ValueError, match="out of range"):
        charge(one, one + 1, rows, parents, groups, 1, climb=True)
