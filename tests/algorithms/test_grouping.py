import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.grouping import group, group_in_order, reduce_by, sum_by
from tests.conftest import few_examples

FIRST, LAST = -(2**63), 2**63 - 1
a_key = st.one_of(st.integers(-3, 3), st.sampled_from([FIRST, LAST, 2**32, -(2**32)]))


def twin(keys: list[tuple[int, ...]]) -> tuple[list[int], list[int]]:
    codes: dict[tuple[int, ...], int] = {}
    numbers = [codes.setdefault(key, len(codes)) for key in keys]
    return numbers, [keys.index(key) for key in codes]


@given(st.integers(1, 4).flatmap(lambda width: st.lists(st.tuples(*[a_key] * width), min_size=1, max_size=40)))
def test_group(keys: list[tuple[int, ...]]) -> None:
    codes, representatives = group(*np.array(keys, np.int64).T)
    assert (codes.tolist(), representatives.tolist()) == twin(keys)
    assert codes.dtype == representatives.dtype == np.int32


@few_examples
@given(st.integers(0, 2**32), st.integers(1, 20_000), st.integers(1, 30_000))
def test_group_when_the_table_grows(seed: int, rows: int, distinct: int) -> None:
    random = np.random.default_rng(seed)
    first, second = random.integers(0, distinct, rows), random.integers(0, 3, rows).astype(np.int32)
    codes, representatives = group(first, second)
    assert codes.tolist() == twin(list(zip(first.tolist(), second.tolist(), strict=True)))[0]
    assert np.array_equal(codes[representatives], np.arange(representatives.size))


def test_group_at_the_edge_of_growth() -> None:
    for rows in (2047, 2048, 2049, 8192, 8193):
        twice = np.tile(np.arange(rows), 2)
        codes, representatives = group(twice)
        assert np.array_equal(codes, twice)
        assert np.array_equal(representatives, np.arange(rows))


def test_no_rows() -> None:
    codes, representatives = group(np.empty(0, np.int64), np.empty(0, np.int32))
    assert (codes.size, representatives.size) == (0, 0)
    assert sum_by(codes, 2, np.empty(0, np.int64)).tolist() == [0, 0]


def test_wrong_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="nothing to group by"):
        group()
    with pytest.raises(ValueError, match="expected 2 rows"):
        group(np.zeros(2, np.int64), np.zeros(3, np.int64))


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(-100, 100))))
def test_reductions(rows: list[tuple[int, int]]) -> None:
    codes, values = (np.array(rows, np.int64).reshape(-1, 2)).T
    groups = [[value for code, value in rows if code == number] for number in range(4)]
    reduced = reduce_by(codes.astype(np.int32), 4, values)
    assert reduced.rows.tolist() == [len(group) for group in groups]
    assert reduced.total.tolist() == [sum(group) for group in groups]
    assert reduced.least.tolist() == [min(group, default=LAST) for group in groups]
    assert reduced.greatest.tolist() == [max(group, default=FIRST) for group in groups]
    assert sum_by(codes.astype(np.int32), 4, values).tolist() == reduced.total.tolist()


@pytest.mark.parametrize("function", [sum_by, reduce_by])
def test_group_out_of_range_is_refused(function: object) -> None:
    assert callable(function)
    with pytest.raises(ValueError, match="a row is in group 2, but there are 2 groups"):
        function(np.array([2], np.int32), 2, np.zeros(1, np.int64))
    with pytest.raises(ValueError, match="rows"):
        function(np.array([1], np.int32), 2, np.zeros(2, np.int64))


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), max_size=20))
def test_groups_in_order_are_sorted_and_represented_by_their_first_row(rows: list[tuple[int, int]]) -> None:
    keys = [np.array([row[key] for row in rows], np.int64) for key in range(2)]
    codes, representatives = group_in_order(*keys)
    distinct = sorted(set(rows))
    assert codes.tolist() == [distinct.index(row) for row in rows]
    assert representatives.tolist() == [rows.index(key) for key in distinct]
