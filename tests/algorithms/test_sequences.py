from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.grouping import distinct_sequences

sequences = st.lists(st.lists(st.integers(-1, 2) | st.sampled_from([2**31 - 1, -(2**31)]), max_size=4), max_size=30)


@given(sequences, st.integers(0, 3))
def test_each_distinct_sequence_has_a_number(drawn: list[list[int]], before: int) -> None:
    offsets = np.cumsum([before, *(len(each) for each in drawn)], dtype=np.int64)
    codes = np.array([7] * before + list(itertools.chain(*drawn)) + [7], np.int32)
    found, first = distinct_sequences(offsets, codes)
    numbers: dict[tuple[int, ...], int] = {}
    assert found.tolist() == [numbers.setdefault(tuple(each), len(numbers)) for each in drawn]
    assert first.tolist() == [drawn.index(list(each)) for each in numbers]


def test_sequences_that_differ_in_one_place_or_in_length_only_are_told_apart() -> None:
    count = 20_000  # each n as its 15 bits, and the same without the last one
    bits = np.arange(count)[:, None] >> np.arange(15) & 1
    codes = np.concatenate([bits.ravel(), bits[:, :-1].ravel()]).astype(np.int32)
    offsets = np.concatenate([np.arange(count) * 15, count * 15 + np.arange(count + 1) * 14])
    found, first = distinct_sequences(offsets, codes)
    assert found[:count].tolist() == list(range(count))
    assert len(np.unique(found[count:])) == len(np.unique(np.arange(count) % (1 << 14)))
    assert len(first) == found.max() + 1
    assert not set(found[:count].tolist()) & set(found[count:].tolist())


@pytest.mark.parametrize("offsets", [[], [-1, 2], [0, 4], [2, 1, 3]])
def test_offsets_that_are_none_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="offsets must ascend"):
        distinct_sequences(np.array(offsets, np.int64), np.zeros(3, np.int32))
