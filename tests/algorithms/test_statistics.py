from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.statistics import MEDIAN, P99, interpolated, nearest_rank

rows = st.lists(st.tuples(st.integers(-1, 3), st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3)), max_size=200)


@given(rows, st.sampled_from([(1, 1), (1, 10), (1, 1000)]))
def test_it_is_the_least_value_that_enough_rows_do_not_exceed(
    drawn: list[tuple[int, int]], share: tuple[int, int]
) -> None:
    codes, values = np.array([row[0] for row in drawn], np.int32), np.array([row[1] for row in drawn], np.int64)
    shares = (MEDIAN, share, P99)
    found = nearest_rank(codes, 4, values, *shares)
    for of_share, each in zip(found, shares, strict=True):
        for group in range(4):
            members = sorted(value for code, value in drawn if code == group)
            rank = math.ceil(Fraction(*each) * len(members))
            assert of_share[group] == (members[rank - 1] if members else 0)


def test_a_group_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="group 3"):
        nearest_rank(np.array([3], np.int32), 3, np.array([1], np.int64), MEDIAN)


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 2**40)), max_size=50))
def test_quartiles_are_those_of_numpy(drawn: list[tuple[int, int]]) -> None:
    codes, values = np.array([row[0] for row in drawn], np.int32), np.array([row[1] for row in drawn], np.int64)
    for found, share in zip(interpolated(codes, 4, values, (1, 4), MEDIAN, (3, 4)), (0.25, 0.5, 0.75), strict=True):
        for group in range(4):
            members = values[codes == group]
            assert found[group] == (math.floor(np.quantile(members, share) + 0.5) if len(members) else 0)
