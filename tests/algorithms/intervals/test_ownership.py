"""What a call owns, against each instant looked at."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms import ordering
from kinetoscope.algorithms.intervals.ownership import owned_time

SPANS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12), st.integers(-1, 9)), max_size=9)


@given(SPANS, st.tuples(st.integers(-1, 12), st.integers(-1, 25)))
def test_twin(spans: list[tuple[int, int, int]], window: tuple[int, int]) -> None:
    track = np.array([span[0] for span in spans], np.int32)
    start = np.array([span[1] for span in spans], np.int64)
    end = start + np.array([span[2] for span in spans], np.int64)
    order, offsets = ordering.track_order(track, start, end, tracks=2)
    place = {row: k for k, row in enumerate(order.tolist())}
    expected = [0] * len(spans)
    for lane in (0, 1):
        for now in range(max(window[0], 0), min(window[1], 25)):
            running = [row for row in place if track[row] == lane and start[row] <= now < end[row]]
            if running:
                expected[max(running, key=lambda row: place[row])] += 1
    assert owned_time(start, end, order, offsets, *window).tolist() == expected
