"""The walk is one of least cost, and known to be the only one where it is, as trying all walks shows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.alignment.cheapest_walk import cheapest_walk


@given(st.data())
def test_the_walk_costs_no_more_than_any_other(data: st.DataObject) -> None:
    states, count, kinds = (data.draw(st.integers(1, most)) for most in (4, 5, 3))
    allowed = np.array(
        data.draw(st.lists(st.lists(st.booleans(), min_size=states, max_size=states), min_size=kinds, max_size=kinds))
    )
    allowed[:, 0] |= ~allowed.any(axis=1)
    kind = np.array(data.draw(st.lists(st.integers(0, kinds - 1), min_size=count, max_size=count)), np.int32)
    rounds = np.sort(data.draw(st.lists(st.integers(0, 2), min_size=states, max_size=states)))
    content = np.array(data.draw(st.lists(st.integers(0, 1), min_size=states, max_size=states)))

    def is_free(a: int, b: int) -> bool:
        ends = a == states - 1 or rounds[a + 1] != rounds[a]
        begins = b == 0 or rounds[b - 1] != rounds[b]
        return (b == a + 1 and not begins) or (ends and begins)

    walks = [w for w in itertools.product(range(states), repeat=count) if allowed[kind, np.array(w)].all()]
    costs = [sum(not is_free(*step) for step in itertools.pairwise(walk)) for walk in walks]
    best = [walk for walk, cost in zip(walks, costs, strict=True) if cost == min(costs)]
    found = cheapest_walk(kind, allowed, rounds, content)
    assert tuple(found.state.tolist()) == min(best)
    assert found.is_sole.tolist() == [len({content[walk[at]] for walk in best}) == 1 for at in range(count)]


def test_an_observation_that_no_state_allows_is_an_error() -> None:
    with pytest.raises(ValueError, match="in no state"):
        cheapest_walk(np.zeros(1, np.int32), np.zeros((1, 2), np.bool_), np.zeros(2, np.int64), np.zeros(2, np.int64))
