"""Lifetimes by undoing a history equal those of a plain simulation that saw everything."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.lifetimes import ALLOC, FREE_COMPLETED, FREE_REQUESTED, undo


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=60), st.integers(0, 60))
def test_a_history_cut_at_any_place_has_the_lifetimes_of_the_whole(moves: list[tuple[int, bool]], cut: int) -> None:
    events: list[tuple[int, int]] = []
    state: dict[int, list[int]] = {}  # address: [taken, requested]
    lifetimes: list[tuple[int, ...]] = []  # address, taken, requested, returned
    for address, waits in moves:
        if address not in state:
            state[address] = [len(events), -1]
            events.append((ALLOC, address))
        elif state[address][1] < 0:
            state[address][1] = len(events)
            events.append((FREE_REQUESTED, address))
            if not waits:
                lifetimes.append((address, *state.pop(address), len(events)))
                events.append((FREE_COMPLETED, address))
        else:
            lifetimes.append((address, *state.pop(address), len(events)))
            events.append((FREE_COMPLETED, address))
    cut = min(cut, len(events))
    lifetimes += [(address, *facts, -1) for address, facts in state.items()]
    expected = sorted(
        (address, *(each - cut if each >= cut else -1 for each in facts))
        for address, *facts in lifetimes
        if facts[2] >= cut or facts[2] < 0
    )
    live = np.full(6, -1, np.int32)
    for row, address in enumerate(state):
        live[address] = row
    rows = len(state) + len(events)
    allocated_at, free_requested_at, freed_at = (np.full(rows, -1, np.int32) for _ in range(3))
    at = np.array([len(state), 0], np.int64)
    seen = events[cut:]
    does = np.array([what for what, _ in seen], np.int8)
    keys = np.array([address for _, address in seen], np.int32)
    undo(does, keys, live, allocated_at, free_requested_at, freed_at, at)
    addresses = [*state, *(address for what, address in reversed(seen) if what == FREE_COMPLETED)]
    got = zip(addresses, allocated_at.tolist(), free_requested_at.tolist(), freed_at.tolist(), strict=False)
    assert sorted(got) == expected
    assert at[1] == 0


def test_what_does_not_fit_the_state_is_counted_and_left_out() -> None:
    does = np.array([ALLOC, FREE_REQUESTED, FREE_COMPLETED, FREE_COMPLETED], np.int8)
    keys = np.array([0, 1, 2, 2], np.int32)
    allocated_at, free_requested_at, freed_at = (np.full(4, -1, np.int32) for _ in range(3))
    at = np.zeros(2, np.int64)
    undo(does, keys, np.full(3, -1, np.int32), allocated_at, free_requested_at, freed_at, at)
    assert at.tolist() == [1, 3]
    assert freed_at.tolist()[:1] == [3]
