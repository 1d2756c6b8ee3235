"""Equal sequences of numbers found: the kernels that a call launches, one after the other.

A group is a run of rows, as `offsets` divide them, and its sequence is what `codes` say of those rows, in order. A hash
only says where to look; what counts as equal was compared number by number.
"""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.compiled import compiled, frozen, inlined

_MIX_1, _MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


def distinct_sequences(offsets: Int64s, codes: Int32s) -> tuple[Int32s, Int32s]:
    """Number the distinct sequences of groups of rows, in the order in which they first occur.

    Args:
        offsets: int64 [groups + 1], ascending: the rows of group g are `offsets[g]:offsets[g + 1]`, maybe none.
        codes: int32 [rows], what makes up a sequence.

    Returns:
        `sequence`, int32 [groups]: the number of each group's sequence, and `representatives`, int32 [sequences]: the
        first group that has it.

    Raises:
        ValueError: the offsets are none at all, do not ascend, or do not stay within the rows.
    """
    if not offsets.size or offsets[0] < 0 or offsets[-1] > codes.size or (np.diff(offsets) < 0).any():
        raise ValueError(f"offsets must ascend from 0 or more to {codes.size} or less; there are {offsets.size}")
    groups = offsets.size - 1
    sequence = np.empty(groups, np.int32)
    representatives = np.empty(groups, np.int32)
    slots = np.full(1 << max(2 * groups, 2).bit_length(), -1, np.int32)  # a power of two, less than half of it used
    hashes = np.empty(groups, np.uint64)
    count = _number(frozen(offsets, np.int64), frozen(codes, np.int32), slots, hashes, sequence, representatives)
    return sequence, representatives[:count].copy()


@inlined
def _same(offsets: Int64s, codes: Int32s, a: int, b: int) -> bool:
    """Whether two groups have the same sequence."""
    rows = offsets[a + 1] - offsets[a]
    if offsets[b + 1] - offsets[b] != rows:
        return False
    for row in range(rows):
        if codes[offsets[a] + row] != codes[offsets[b] + row]:
            return False
    return True


@compiled
def _number(
    offsets: Int64s,
    codes: Int32s,
    slots: Int32s,
    hashes: np.ndarray[tuple[int], np.dtype[np.uint64]],
    sequence: Int32s,
    representatives: Int32s,
) -> int:
    """Fill `sequence` and `representatives`; returns how many sequences there are."""
    mask = slots.size - 1
    count = 0
    for group in range(sequence.size):
        mixed = _MIX_2
        for row in range(offsets[group], offsets[group + 1]):
            mixed = (mixed ^ np.uint64(codes[row])) * _MIX_1
            mixed ^= mixed >> np.uint64(32)
        slot = int((mixed * _MIX_2) >> np.uint64(32)) & mask
        while slots[slot] >= 0:
            number = slots[slot]
            if hashes[number] == mixed and _same(offsets, codes, representatives[number], group):
                break
            slot = (slot + 1) & mask
        if slots[slot] < 0:
            slots[slot] = count
            hashes[count] = mixed
            representatives[count] = group
            count += 1
        sequence[group] = slots[slot]
    return count
