"""Calls that a rank has left out, by what it called before, or by what others call at the same numbers."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.hangs.comparing import OWN_SIZE_NAMES

Signature = tuple[Any, ...]

OF_A_CALL: Final = ("name", "input_sizes", "output_sizes", "types", "line")
"""What calls of one place in a program have in common."""

COMPARED_CALLS: Final = 400
"""Calls back to which a rank is compared with its own past."""

CONTEXT: Final = 4
"""Calls that must agree before one that was left out: chance makes fewer agree."""


ROOTED_OR_UNEVEN: Final = ("gather", "scatter", *OWN_SIZE_NAMES)
"""How names begin of collectives whose sizes are another matter on each rank, or in each step."""


def signature(row: Mapping[str, Any]) -> Signature:
    """The common part of calls of one place in a program, on all ranks."""
    sizes = (None, None) if row["name"].startswith(ROOTED_OR_UNEVEN) else (row["input_sizes"], row["output_sizes"])
    return row["name"], *sizes, row["types"], row["line"]


def kind_of(key: str) -> str:
    """The description of a group where it has one: it is the same on ranks that have groups of their own."""
    return key.partition(" (")[2] or key


@dataclass(frozen=True)
class ProgramCalls:
    """The calls of a rank in order.

    Attributes:
        rows: of `CALLS`.
        codes: what each is, as other ranks that run the same program call it in groups of their own.
        numbered: the same as numbers, which tell groups apart: int64 [calls].
        places: of collectives by group and number.
        by_group: signatures of collectives by number, by group.
    """

    rows: list[dict[str, Any]]
    codes: list[Signature]
    numbered: Int64s
    places: dict[tuple[str, int], int]
    by_group: dict[str, dict[int, Signature]]

    @classmethod
    def of(cls, calls: pl.DataFrame) -> Self:
        """The same of a frame with the calls of a rank, in order."""
        rows = calls.select("order", "group", "seq", "is_p2p", "peer", *OF_A_CALL).to_dicts()
        signatures = [signature(row) for row in rows]
        codes = [
            (kind_of(row["group"]), row["is_p2p"], row["peer"], *each)
            for row, each in zip(rows, signatures, strict=True)
        ]
        numbers: dict[tuple[str, Signature], int] = {}
        numbered = [
            numbers.setdefault((row["group"], code), len(numbers)) for row, code in zip(rows, codes, strict=True)
        ]
        places = {(row["group"], row["seq"]): place for place, row in enumerate(rows) if not row["is_p2p"]}
        return cls(rows, codes, np.array(numbered, np.int64), places, _by_group(rows, signatures))

    def in_group(self, group: str) -> dict[int, Signature]:
        """Signatures of the collectives in a group, by number."""
        return self.by_group.get(group, {})


def _by_group(rows: Sequence[Mapping[str, Any]], signatures: Sequence[Signature]) -> dict[str, dict[int, Signature]]:
    """Signatures of collectives by number, by group; those that were coalesced are one."""
    made: dict[str, dict[int, Signature]] = defaultdict(dict)
    for row, each in zip(rows, signatures, strict=True):
        if not row["is_p2p"]:
            made[row["group"]][row["seq"]] = made[row["group"]].get(row["seq"], ()) + each
    return dict(made)


def shifted(own: Mapping[int, Signature], other: Mapping[int, Signature]) -> tuple[int, int] | None:
    """The number from which on a rank calls what another calls one later (1) or earlier (-1); None if it does not.

    All that both have recorded before is the same, and at least two differ from there on: one that differs is no shift.
    """
    both = sorted(own.keys() & other.keys())
    apart = [seq for seq in both if own[seq] != other[seq]]
    if not apart or apart[0] == both[0]:
        return None
    first = apart[0]
    if _is_off(own, other, first, 1):
        return first, 1
    return (first, -1) if _is_off(own, other, first + 1, -1) else None


def _is_off(own: Mapping[int, Signature], other: Mapping[int, Signature], first: int, by: int) -> bool:
    later = [own[seq] == other[seq + by] for seq in own if seq >= first and seq + by in other]
    return len(later) > 1 and all(later)


def omitted(program: ProgramCalls, until: int) -> dict[str, Any] | None:
    """The call that a rank has left out, as one of its past; None if its calls agree with its past, or with none of it.

    `before` is the order of the call that it came before. Without `is_alone` other ranks must confirm it.

    Its last calls, to the one of the order `until`, are held against each stretch of its past that ends with the same
    call: as they are, and with one call of the past left out. That one counts if more agree so than with any stretch
    as it is.
    """
    own = program.numbered[: bisect_right(program.rows, until, key=lambda row: row["order"])]
    # What it has never called before has no past to be held against.
    again = np.flatnonzero(np.isin(np.arange(len(own)), np.unique(own, return_index=True)[1], invert=True))
    end = int(again[-1]) if len(again) else 0
    plain, best, place, gap, is_alone = 0, 0, -1, -1, True
    for past in np.flatnonzero(own[:end] == own[end]).tolist() if len(own) else ():
        same = _agree(own, end, past)
        plain = max(plain, same)
        before = past - same - 1
        if same > COMPARED_CALLS or (same == past + 1 and same > 2 * CONTEXT):
            return None  # it agrees with its past as far back as that is compared, or recorded
        if before < -1:
            continue
        more = _agree(own, end - same, before) if before >= 0 else 0
        is_context = more >= CONTEXT
        if (is_context or same > 2 * CONTEXT) and same + more > best:
            best, place, gap, is_alone = same + more, past - same, end - same + 1, is_context
    if place < 0 or best < plain + (CONTEXT if is_alone else 0):
        return None
    return program.rows[place] | {"before": program.rows[gap]["order"], "is_alone": is_alone}


def _agree(own: Int64s, one: int, other: int) -> int:
    """How many calls agree, backwards from two places, both included."""
    length = min(one, other, COMPARED_CALLS) + 1
    differ = own[one - length + 1 : one + 1] != own[other - length + 1 : other + 1]
    return int(length if not differ.any() else np.argmax(differ[::-1]))


def last_order(rows: Sequence[Mapping[str, Any]]) -> int:
    """The order of the last of some calls; -1 of none."""
    return max((int(row["order"]) for row in rows), default=-1)
