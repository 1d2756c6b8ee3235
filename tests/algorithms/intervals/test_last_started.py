"""Who owns each instant, against each instant looked at."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.algorithms.intervals.ownership import owned_by_group

SPANS = st.lists(st.tuples(st.integers(0, 14), st.integers(-2, 9), st.integers(0, 2), st.integers(0, 3)), max_size=10)
CUTS = st.lists(st.integers(-3, 25), max_size=8).map(sorted)


def intervals(pairs: list[tuple[int, int]]) -> Intervals:
    return Intervals(np.array([a for a, _ in pairs], np.int64), np.array([b for _, b in pairs], np.int64))


@given(SPANS, CUTS)
def test_twin(spans: list[tuple[int, int, int, int]], cuts: list[int]) -> None:
    windows = list(zip(cuts[::2], cuts[1::2], strict=False))
    found = owned_by_group(
        intervals(windows),
        intervals([(start, start + length) for start, length, _, _ in spans]),
        np.array([rank for _, _, rank, _ in spans], np.int8),
        np.array([group for *_, group in spans], np.int32),
        4,
    )
    expected: dict[tuple[int, int], int] = {}
    for window, (low, high) in enumerate(windows):
        for now in range(low, high):
            running = [
                (-rank, start, -length, row)
                for row, (start, length, rank, _) in enumerate(spans)
                if start <= now < start + length
            ]
            if running:
                group = spans[max(running)[-1]][3]
                expected[window, group] = expected.get((window, group), 0) + 1
    pairs = zip(found.window.tolist(), found.group.tolist(), strict=True)
    assert dict(zip(pairs, found.time.tolist(), strict=True)) == expected
    assert len(found.time) == len(expected)


def test_windows_that_overlap_are_refused() -> None:
    none = np.empty(0, np.int32)
    with pytest.raises(ValueError, match="overlap"):
        owned_by_group(intervals([(0, 5), (4, 6)]), intervals([]), none, none, 0)
