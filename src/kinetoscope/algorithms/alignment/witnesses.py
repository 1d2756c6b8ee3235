"""What witnesses saw of one sequence of events: `alignment` puts two of them side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s


@dataclass(frozen=True)
class Witness:
    """What one witness saw, in order of start.

    Attributes:
        start, end: int64 [events], ns on the witness's clock.
        signature: int64 [events], equal numbers for like events.
        binding: bool [events], see above; the same for all events of a signature.
        step: int64 [events], number of the part of the sequence that each is of, as all witnesses count; −1 unknown.
        vague: bool [events], those whose signature says too little: they may be any.
    """

    start: Int64s
    end: Int64s
    signature: Int64s
    binding: Bools
    step: Int64s | None = None
    vague: Bools | None = None

    def __len__(self) -> int:
        return len(self.start)

    def at(self, places: Int64s) -> Witness:
        """Some of the events."""
        step = None if self.step is None else self.step[places]
        vague = None if self.vague is None else self.vague[places]
        return Witness(self.start[places], self.end[places], self.signature[places], self.binding[places], step, vague)


def alike(one: Witness, other: Witness, mine: Any, theirs: Any) -> Bools:
    """Whether signatures agree, as far as they say anything."""
    like = one.signature[mine] == other.signature[theirs]
    for witness, places in ((one, mine), (other, theirs)):
        if witness.vague is not None:
            like = like | witness.vague[places]
    return np.asarray(like)


Pairs = tuple[Int64s, Int64s]
"""Places of events of the first witness and of the second, two arrays of one length."""


def no_pairs() -> Pairs:
    """No pair at all."""
    return np.empty(0, np.int64), np.empty(0, np.int64)
