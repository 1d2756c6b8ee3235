"""What a comparison with a golden value can come to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Agrees:
    """Equal, within the peer's rounding; `nothing`: that there is nothing, or nothing but zeros."""

    nothing: bool = False

    def __str__(self) -> str:
        return "agrees that there is nothing" if self.nothing else "agrees"


@dataclass(frozen=True)
class Differs:
    """Different on purpose: with these rules of the peer, of those in `differences`, and no fewer, equal."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return "differs: " + ", ".join(self.names)


@dataclass(frozen=True)
class CannotApply:
    """There is nothing to compare."""

    reason: str

    def __str__(self) -> str:
        return f"cannot apply: {self.reason}"


Outcome = Agrees | Differs | CannotApply


def is_nothing(answer: Any) -> bool:
    """Has an answer no number but zeros?"""
    match answer:
        case Mapping():
            return all(is_nothing(part) for part in answer.values())
        case int() | float():
            return not answer
        case Sequence() if not isinstance(answer, str):
            return all(is_nothing(part) for part in answer)
        case _:
            return answer is None


def difference(mine: Any, its: Any, tolerance: float = 0.0, place: str = "") -> str:
    """Where two answers differ first, as text; "" if they do not."""
    match mine, its:
        case Mapping(), Mapping():
            for key in [*mine, *(key for key in its if key not in mine)]:
                if key not in mine or key not in its:
                    return f"{place}/{key}: only {'theirs' if key not in mine else 'ours'}"
                if found := difference(mine[key], its[key], tolerance, f"{place}/{key}"):
                    return found
            return ""
        case str(), str():
            return "" if mine == its else f"{place}: {mine!r} and not {its!r}"
        case Sequence(), Sequence():
            if len(mine) != len(its):
                return f"{place}: {len(mine)} and not {len(its)} of them"
            pairs = enumerate(zip(mine, its, strict=True))
            return next((found for k, (a, b) in pairs if (found := difference(a, b, tolerance, f"{place}/{k}"))), "")
        case ((int() | float()), (int() | float())):
            close = abs(mine - its) <= tolerance or (math.isnan(mine) and math.isnan(its))
            return "" if close else f"{place}: {mine} and not {its}"
        case _:
            return "" if mine == its else f"{place}: {mine!r} and not {its!r}"
