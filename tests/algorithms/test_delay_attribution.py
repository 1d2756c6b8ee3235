from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.delay_attribution import AttributedDelays, Histories, attribute_delays


def attributed(rows: list[tuple[int, int, list[int]]], **changed: Any) -> AttributedDelays:
    """Rows of (match, arrival, did), two for each match, those of the first rank before those of the second."""
    half = len(rows) // 2
    before = np.arange(len(rows), dtype=np.int32) - 1
    before[[0, half]] = -1
    fields: dict[str, Any] = {
        "match": np.array([row[0] for row in rows], np.int32),
        "arrival": np.array([row[1] for row in rows], np.int64),
        "role": np.zeros(len(rows), np.int32),
        "pairwise": np.zeros(len(rows), np.bool_),
        "stage": np.zeros(len(rows), np.int32),
        "did": np.array([row[2] for row in rows], np.int64),
        "host_exposed": np.zeros((len(rows), len(rows[0][2])), np.int64),
        "before": before,
        "waited": np.zeros(len(rows), np.int64),
        "barrier": np.ones(len(rows), np.bool_),
    }
    lost = changed.pop("lost", np.full(half, 90, np.int64))
    places = np.arange(len(rows), dtype=np.int32)
    return attribute_delays(
        Histories(**{**fields, **changed}), last=places[:half], compared=places[half:], lost=lost, transfer=1
    )


def test_a_loss_is_shared_by_what_the_late_row_did_more() -> None:
    delays = attributed([(0, 0, [5, 5]), (1, 60, [40, 20]), (0, 0, [5, 5]), (1, 30, [20, 10])], lost=np.array([0, 90]))
    assert delays.charged[1].tolist() == [60, 30, 0, 0]
    assert (delays.carried.tolist(), delays.first.tolist()[1], delays.cause.tolist()[1]) == ([0, 0], 1, 0)


def test_who_left_the_collective_before_late_was_late_there() -> None:
    delays = attributed(
        [(0, 40, [10, 30]), (1, 70, [30, 0]), (2, 10, [10, 0]), (3, 40, [30, 0])], lost=np.array([0, 90])
    )
    assert delays.charged[0].tolist() == [0, 90, 0, 0]
    assert delays.carried.tolist() == [0, 90]


def test_beyond_rows_of_other_roles_nothing_is_compared() -> None:
    rows = [(0, 40, [10, 30]), (1, 70, [30, 0]), (2, 10, [10, 0]), (3, 40, [30, 0])]
    role, lost = np.array([1, 0, 2, 0], np.int32), np.array([0, 90])
    assert attributed(rows, role=role, lost=lost).charged[1].tolist() == [0, 0, 0, 90]
    bubble = np.array([True, False, False, False])
    assert attributed(rows, role=role, lost=lost, pairwise=bubble).charged[1].tolist() == [0, 0, 90, 0]


def test_what_leads_to_another_stage_follows_from_sending_and_receiving() -> None:
    rows = [(0, 40, [10, 30]), (1, 70, [30, 0]), (2, 10, [10, 0]), (3, 40, [30, 0])]
    delays = attributed(rows, stage=np.array([0, 0, 1, 0], np.int32), lost=np.array([0, 90]))
    assert delays.charged[1].tolist() == [0, 0, 90, 0]


@pytest.mark.parametrize(
    ("shared", "held", "expected"),
    [
        (True, [0, 0, 60], [0, 30, 60]),
        (True, [0, 0, 500], [0, 0, 90]),
        (True, [0, 0, -60], [0, 90, 0]),
        (False, [0, 0, 60], [0, 90, 0]),
    ],
    ids=["some of it", "no more than there is", "the other one more", "another collective"],
)
def test_transfer_of_a_shared_collective_is_charged_to_what_left_it_open(
    shared: bool, held: list[int], expected: list[int]
) -> None:
    rows = [(0, 0, [0, 0, 0]), (1, 90, [0, 100, 0]), (0 if shared else 2, 0, [0, 0, 0]), (1, 0, [0, 10, 0])]
    more = np.array([[0, 0, 0], [held[0], 0, max(held[2], 0)], [0, 0, 0], [0, 0, max(-held[2], 0)]], np.int64)
    delays = attributed(rows, host_exposed=more, lost=np.array([0, 90]))
    assert delays.charged[1].tolist() == [*expected, 0, 0]


def test_arrays_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 4 rows"):
        attributed([(0, 0, [0, 0])] * 4, waited=np.zeros(3, np.int64))
    with pytest.raises(ValueError, match="host_exposed has the shape"):
        attributed([(0, 0, [0, 0])] * 4, host_exposed=np.zeros((4, 3), np.int64))


times = st.integers(0, 1 << 40)


@given(
    st.integers(1, 6).flatmap(
        lambda half: st.lists(st.tuples(times, st.tuples(times, times)), min_size=2 * half, max_size=2 * half)
    ),
    st.data(),
)
def test_whatever_comes_the_charges_sum_to_the_losses(drawn: list[Any], data: st.DataObject) -> None:
    half = len(drawn) // 2
    rows = [(place % half, time, list(did)) for place, (time, did) in enumerate(drawn)]
    flags = st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)).map(np.array)
    losses = np.array(data.draw(st.lists(times, min_size=half, max_size=half)), np.int64)
    waited = np.array([place * 7 for place in range(len(rows))], np.int64)
    held = np.array([[data.draw(st.integers(0, did[1])), 0] for _, _, did in rows], np.int64)
    delays = attributed(
        rows, barrier=data.draw(flags), pairwise=data.draw(flags), waited=waited, lost=losses, host_exposed=held
    )
    assert delays.charged.sum() == losses.sum()
    assert delays.charged.min() >= 0
    assert (delays.carried <= losses).all()
