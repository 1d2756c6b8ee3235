from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.arrays import next_of_same


@given(st.lists(st.integers(-2, 4)))
def test_equals_looking_for_each(keys: list[int]) -> None:
    expected = [
        next((later for later in range(place + 1, len(keys)) if keys[later] == key >= 0), -1)
        for place, key in enumerate(keys)
    ]
    assert next_of_same(np.array(keys, np.int32)).tolist() == expected
