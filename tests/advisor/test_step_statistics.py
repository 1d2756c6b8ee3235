"""What comes regularly, and what only seems to."""

from __future__ import annotations

import numpy as np
import pytest

from kinetoscope.advisor.step_statistics import is_periodic


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([2, 7, 12, 17], True),
        ([17, 2, 7, 7, 12], True),
        ([4, 9, 14, 19], True),
        ([0, 1, 2, 3], False),  # it ends long before the recording does
        ([7, 12, 17], False),  # where was it in step 2?
        ([2, 7, 12], False),  # and in step 17?
        ([2, 7, 13], False),
        ([1, 11], False),
        ([], False),
    ],
)
def test_from_the_first_step_to_the_last(steps: list[int], expected: bool) -> None:
    assert is_periodic(np.array(steps, np.int64), 20) is expected
