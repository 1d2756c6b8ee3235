import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.grouping import NO_MATCH, match_first

numbers = st.lists(st.one_of(st.integers(-5, 15), st.sampled_from([-(2**63), 2**63 - 1])), max_size=30)


@given(numbers, numbers)
def test_match_first(needles: list[int], haystack: list[int]) -> None:
    expected = [haystack.index(needle) if needle in haystack else NO_MATCH for needle in needles]
    found = match_first(np.array(needles, np.int64), np.array(haystack, np.int64))
    assert found.tolist() == expected
    assert found.dtype == np.int32
