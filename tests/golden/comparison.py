"""How one of our answers is held against a golden value.

A peer's answer is reached in steps: our own answer about what the peer sees of the trace; then with rules of the peer
that we do not share, each with a name. The fewest rules that give the golden value are the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

from tests.golden.outcome import Agrees, Differs, Outcome, difference, is_nothing

Answer = Callable[[frozenset[str]], Any]
"""The answer with some of the peer's rules; with none of them it is ours."""


def fewest(golden: Any, answer: Answer, rules: Iterable[str], tolerance: float = 0.0) -> Outcome:
    """The fewest of the peer's rules with which the answer is the golden value.

    Raises:
        AssertionError: no set of the rules gives it.
    """
    rules = sorted(rules)
    first = difference(answer(frozenset()), golden, tolerance)
    if not first:
        return Agrees(is_nothing(golden))
    last = ""
    for count in range(1, len(rules) + 1):
        for names in combinations(rules, count):
            last = difference(answer(frozenset(names)), golden, tolerance)
            if not last:
                return Differs(names)
    raise AssertionError(
        f"not the golden value, ours: {first}" + (f"; with all rules of the peer: {last}" if last else "")
    )
