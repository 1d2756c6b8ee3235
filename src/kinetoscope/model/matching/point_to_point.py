"""Sends and receives of pairs of ranks. Their numbers (`Seq`) are each rank's own, so their order matches them."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.alignment.alignment import aligned_pairs
from kinetoscope.algorithms.alignment.sequence_alignment import Witness
from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.matching.columns import CallArrays
from kinetoscope.model.matching.order import Offsets

_CLOCK_ERROR_NS: Final = 1_000_000
"""Error of clocks up to which something may seem to be received before it is sent."""


def between_two(calls: CallArrays, offsets: Offsets) -> Int64s:
    """Sends and receives of one pair of ranks, in order; an exchange in one kernel if both exchange with one rank."""
    ids = np.full(len(calls.rank), -1, np.int64)
    low, high = np.minimum(calls.source, calls.destination), np.maximum(calls.source, calls.destination)
    known = calls.single & (calls.source >= 0) & (calls.destination >= 0)
    one_way = known & ((calls.number == calls.source) | (calls.number == calls.destination)) & (low != high)
    rows = np.flatnonzero(one_way & ~_is_exchange(calls))
    number = _paired(calls, ids, rows, (calls.group, calls.source, calls.destination), calls.sends, offsets, 0)
    rows = np.flatnonzero(calls.single & _is_exchange(calls) & (low >= 0) & (low == high) & (low != calls.number))
    peers = np.minimum(calls.number, low), np.maximum(calls.number, low)
    _paired(calls, ids, rows, (calls.group, *peers), calls.number < low, offsets, number)
    return ids


def _is_exchange(calls: CallArrays) -> Bools:
    """Kernels that send and receive at once: both peers are recorded, and neither is the rank itself."""
    return np.asarray((calls.source != calls.number) & (calls.destination != calls.number))


def _paired(
    calls: CallArrays, ids: Int64s, rows: Int64s, keys: tuple[Int64s, ...], is_first: Bools,
    offsets: Offsets, number: int,
) -> int:  # fmt: skip
    """Number the calls that the two sides of each key share, from `number` on; returns the next free number."""
    if not len(rows):
        return number
    codes, _ = group(*(key[rows] for key in keys))
    order = np.argsort(codes, kind="stable")
    for mine in np.split(rows[order], np.flatnonzero(np.diff(codes[order])) + 1):
        one, other = (part[np.argsort(calls.start[part], kind="stable")] for part in
                      (mine[is_first[mine]], mine[~is_first[mine]]))  # fmt: skip
        if not len(one) or not len(other):
            continue
        offset = offsets.between(one[0], other[0])
        if offset is None and len(one) == len(other) and not calls.gaps:
            ids[one] = ids[other] = number + np.arange(len(one))  # clocks say nothing, and need not
            number += len(one)
            continue
        places, theirs = aligned_pairs(_witness(calls, one), _witness(calls, other), offset, gaps=calls.gaps)
        # Nothing is received before it is sent.
        late = calls.end[other[theirs]] - (offset or 0) + _CLOCK_ERROR_NS >= calls.start[one[places]]
        ids[one[places[late]]] = number + places[late]
        ids[other[theirs[late]]] = number + places[late]
        number += len(one)
    return number


def _witness(calls: CallArrays, rows: Int64s) -> Witness:
    """Calls of one side of point-to-point work, all alike: what must agree is their order.

    Where that is in doubt, they must overlap: a device sends to one that receives, unless little is sent.
    """
    same, binding = np.zeros(len(rows), np.int64), np.full(len(rows), calls.gaps)
    return Witness(calls.start[rows], calls.end[rows], same, binding, calls.step[rows])


def between_unnamed(calls: CallArrays, offsets: Offsets) -> Int64s:
    """Sends and receives that name no rank, as gloo's, where only one rank sends and only one receives at all."""
    ids = np.full(len(calls.rank), -1, np.int64)
    rows = np.flatnonzero(calls.single & (calls.source < 0) & (calls.destination < 0))
    sends, receives = rows[calls.sends[rows]], rows[~calls.sends[rows]]
    if len(np.unique(calls.rank[sends])) == len(np.unique(calls.rank[receives])) == 1 and len(sends) == len(receives):
        same = np.zeros(len(calls.rank), np.int64)
        _paired(calls, ids, rows, (same,), calls.sends, offsets, 0)
    return ids
