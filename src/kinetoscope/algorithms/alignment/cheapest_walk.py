"""The cheapest walk through states, each of which allows some observations, and where it is not the only one.

States stand in rounds. To go on to the next state of a round costs nothing, nor does it to begin any round after the
last state of one; any other step costs 1.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.compiled import compiled, frozen, inlined

IMPOSSIBLE: Final = 1 << 28
"""Cost of a state that does not allow the observation."""


class Walk(NamedTuple):
    """A walk of least cost.

    Attributes:
        state: int32 [observations].
        is_sole: bool [observations], all walks of least cost are in a state of the same content there.
    """

    state: Int32s
    is_sole: Bools


def cheapest_walk(kind: Int32s, allowed: Bools, rounds: Int64s, content: Int64s) -> Walk:
    """The cheapest walk; of several equal ones that which is in the earlier states.

    Args:
        kind: int32 [observations], the kind of each, a row of `allowed`.
        allowed: bool [kinds, states], the states that allow each kind; one at least.
        rounds: int64 [states], the number of the round of each; the states of a round stand together.
        content: int64 [states].

    Raises:
        ValueError: a kind is allowed nowhere.
    """
    count, states = len(kind), len(rounds)
    if count and not allowed[np.unique(kind)].any(axis=1).all():
        raise ValueError("an observation is allowed in no state")
    first = np.append(True, rounds[1:] != rounds[:-1]) if states else np.empty(0, np.bool_)
    ahead = np.full((count, states), IMPOSSIBLE, np.int32)
    state, is_sole = np.full(count, -1, np.int32), np.ones(count, np.bool_)
    if count and states:
        last = np.append(first[1:], True)
        given = (
            frozen(kind, np.int32),
            frozen(allowed.ravel(), np.bool_),
            frozen(first, np.bool_),
            frozen(last, np.bool_),
        )
        _costs_ahead(*given, ahead)
        behind = np.empty((2, states), np.int32)
        _choose(*given, frozen(content, np.int64), ahead, behind, state, is_sole)
    return Walk(state, is_sole)


@compiled
def _costs_ahead(
    kind: Int32s, allowed: Bools, first: Bools, last: Bools, ahead: NDArray[np.int32]
) -> None:  # pragma: no cover - compiled
    """Cost of the rest of the walk from each state at each observation."""
    count, states = ahead.shape
    for at in range(count - 1, -1, -1):
        anywhere, anew = IMPOSSIBLE, IMPOSSIBLE
        if at + 1 < count:
            for state in range(states):
                anywhere = min(anywhere, ahead[at + 1, state])
                if first[state]:
                    anew = min(anew, ahead[at + 1, state])
        for state in range(states):
            if allowed[kind[at] * states + state]:
                if at + 1 == count:
                    ahead[at, state] = 0
                elif last[state]:
                    ahead[at, state] = min(anywhere + 1, anew)
                else:
                    ahead[at, state] = min(anywhere + 1, ahead[at + 1, state + 1])


@compiled
def _choose(
    kind: Int32s,
    allowed: Bools,
    first: Bools,
    last: Bools,
    content: Int64s,
    ahead: NDArray[np.int32],
    behind: NDArray[np.int32],
    chosen: Int32s,
    is_sole: Bools,
) -> None:  # pragma: no cover - compiled
    """Walk: `behind` holds the cost up to each state at this observation and at the one before."""
    count, states = ahead.shape
    least = IMPOSSIBLE
    for state in range(states):
        least = min(least, ahead[0, state])
    for at in range(count):
        here, before = at % 2, (at + 1) % 2
        _costs_behind(at, kind, allowed, first, last, behind[before], behind[here])
        best, best_cost = -1, IMPOSSIBLE
        for state in range(states):
            cost = ahead[at, state]
            if at and cost < IMPOSSIBLE:
                previous = chosen[at - 1]
                goes_on = (previous + 1 == state and not first[state]) or (last[previous] and first[state])
                cost += 0 if goes_on else 1
            if cost < best_cost:
                best, best_cost = state, cost
        chosen[at] = best
        for state in range(states):
            if behind[here, state] + ahead[at, state] == least and content[state] != content[best]:
                is_sole[at] = False


@inlined
def _costs_behind(
    at: int, kind: Int32s, allowed: Bools, first: Bools, last: Bools, before: Int32s, here: Int32s
) -> None:  # pragma: no cover - compiled
    """Cost of the walk up to each state at an observation, from those at the one before."""
    states = len(here)
    anywhere, ended = IMPOSSIBLE, IMPOSSIBLE
    if at:
        for state in range(states):
            anywhere = min(anywhere, before[state])
            if last[state]:
                ended = min(ended, before[state])
    for state in range(states):
        cost = 0
        if at:
            cost = min(anywhere + 1, ended if first[state] else before[state - 1])
        here[state] = cost if allowed[kind[at] * states + state] else IMPOSSIBLE
