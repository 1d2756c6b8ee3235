"""Whether a rank has left a call out: by what it called before, or by what others call at the same numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.hangs.comparing import UNEVEN

Signature = tuple[Any, ...]

OF_A_CALL: Final = ("name", "input_sizes", "output_sizes", "types", "line")
"""What calls of one place in a program have in common."""

LONGEST: Final = 400
"""Calls back to which a rank is compared with its own past."""

CONTEXT: Final = 4
"""Calls that must agree before one that was left out: chance makes fewer agree."""


OWN_SIZES: Final = ("gather", "scatter", *UNEVEN)
"""How names begin of collectives whose sizes are another matter on each rank, or in each step."""


def signature(row: Mapping[str, Any]) -> Signature:
    """What calls of one place in a program have in common, on all ranks."""
    sizes = (None, None) if row["name"].startswith(OWN_SIZES) else (row["input_sizes"], row["output_sizes"])
    return row["name"], *sizes, row["types"], row["line"]


def in_group(calls: pl.DataFrame, rank: int, group: str) -> dict[int, Signature]:
    """Signatures of what a rank has called in a group, by number."""
    rows = calls.filter((pl.col("rank") == rank) & (pl.col("group") == group) & ~pl.col("is_p2p")).sort("order")
    made: dict[int, Signature] = {}
    for row in rows.select("seq", *OF_A_CALL).iter_rows(named=True):
        made[row["seq"]] = made.get(row["seq"], ()) + signature(row)
    return made


def shifted(own: Mapping[int, Signature], other: Mapping[int, Signature]) -> tuple[int, int] | None:
    """The number from which on a rank calls what another calls one later (1) or earlier (-1); None if it does not.

    All that both have recorded before is the same, and at least two differ from there on: one that differs is no shift.
    """
    both = sorted(own.keys() & other.keys())
    first = next((seq for seq in both if own[seq] != other[seq]), None)
    if first is None or first == both[0]:
        return None
    for by in (1, -1):
        later = [seq for seq in own if seq >= first + (by < 0) and seq + by in other]
        if len(later) > 1 and all(own[seq] == other[seq + by] for seq in later):
            return first, by
    return None


def omitted(calls: pl.DataFrame, rank: int, until: int) -> dict[str, Any] | None:
    """The call that a rank has left out, as one of its past; None if its calls agree with its past, or with none of it.

    `before` is the order of the call that it came before. Without `is_alone` other ranks must confirm it.

    Its last calls, to the one of the order `until`, are held against each stretch of its past that ends with the same
    call: as they are, and with one call of the past left out. That one counts if more agree so than with any stretch
    as it is.
    """
    rows = calls.filter((pl.col("rank") == rank) & (pl.col("order") <= until)).sort("order")
    sizes = [
        pl.when(pl.col("name").str.contains(f"^({'|'.join(OWN_SIZES)})")).then(None).otherwise(pl.col(each)).alias(each)
        for each in ("input_sizes", "output_sizes")
    ]
    codes = rows.with_columns(sizes).select(pl.struct("group", "is_p2p", "peer", *OF_A_CALL).rank("dense"))
    own = codes.to_series().to_numpy().astype(np.int64)
    # What it has never called before has no past to be held against.
    again = np.flatnonzero(np.isin(np.arange(len(own)), np.unique(own, return_index=True)[1], invert=True))
    end = int(again[-1]) if len(again) else 0
    plain, best, place, gap, is_alone = 0, 0, -1, -1, True
    for past in np.flatnonzero(own[:end] == own[end]).tolist() if len(own) else ():
        same = _agree(own, end, past)
        plain = max(plain, same)
        before = past - same - 1
        if same == past + 1 and same > 2 * CONTEXT:
            return None  # it agrees with its past as far back as that is recorded
        if before < -1:
            continue
        more = _agree(own, end - same, before) if before >= 0 else 0
        is_context = more >= CONTEXT
        if (is_context or same > 2 * CONTEXT) and same + more > best:
            best, place, gap, is_alone = same + more, past - same, end - same + 1, is_context
    if place < 0 or best < plain + (CONTEXT if is_alone else 0):
        return None
    return rows.row(place, named=True) | {"before": rows["order"][gap], "is_alone": is_alone}


def _agree(own: Int64s, one: int, other: int) -> int:
    """How many calls agree, backwards from two places, both included."""
    length = min(one, other, LONGEST) + 1
    differ = own[one - length + 1 : one + 1] != own[other - length + 1 : other + 1]
    return int(length if not differ.any() else np.argmax(differ[::-1]))


def last_order(rows: Sequence[Mapping[str, Any]]) -> int:
    """The order of the last of some calls; -1 of none."""
    return max((int(row["order"]) for row in rows), default=-1)
