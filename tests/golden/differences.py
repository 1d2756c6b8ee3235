"""The differences that we mean, by name: what the peer does, who is right, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Right = Literal["we", "both", "the peer"]


@dataclass(frozen=True)
class Difference:
    """A rule of a peer's that we do not share.

    Attributes:
        peer: whose rule.
        name: as comparisons call it.
        what: what the peer does, in a sentence or two, counted in the raw traces.
        right: who is; both, where it is a matter of definition.
        why: in a sentence.
    """

    peer: Literal["hta", "plugin"]
    name: str
    what: str
    right: Right
    why: str


DIFFERENCES: Final[tuple[Difference, ...]] = ()
