"""The texts of a pickle as a table of strings, which holds them as JSON spells them."""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.arrays import Int64s, UInt8s
from kinetoscope.algorithms.compiled import compiled, inlined
from kinetoscope.model.trace.strings import Strings
from kinetoscope.readers.json.tokenizer import PADDING, examine


@inlined
def _needs_backslash(c):  # type: ignore[no-untyped-def]
    return c == 34 or c == 92 or c == 10


@compiled
def _grown(offsets, lengths, arena, grown):  # type: ignore[no-untyped-def]
    """By how much the text of each code grows when it is escaped: int64 [texts]."""
    for code in range(offsets.size):
        for place in range(offsets[code], offsets[code] + lengths[code]):
            grown[code] += _needs_backslash(arena[place])


@compiled
def _escape(offsets, lengths, arena, into_offsets, into):  # type: ignore[no-untyped-def]
    for code in range(offsets.size):
        at = into_offsets[code]
        for place in range(offsets[code], offsets[code] + lengths[code]):
            c = arena[place]
            if _needs_backslash(c):
                into[at] = 92
                at += 1
                c = 110 if c == 10 else c
            into[at] = c
            at += 1


def strings_of(arena: UInt8s, offsets: Int64s, max_bytes: int) -> Strings | None:
    """The table of the texts that the machine interned, spelled as JSON would: Windows paths, nested JSON, line breaks.

    Other control characters stay as they are, which the table knows how to decode.

    Args:
        arena: uint8, the bytes as `tokenizer.intern` lays them out.
        offsets: int64 [texts].
        max_bytes: what the old and the new spelling together may take; None if it is not enough.
    """
    lengths: Int64s = arena[: arena.size // 8 * 8].view(np.int64)[(offsets - 8) // 8]
    grown = np.zeros(len(offsets), np.int64)
    _grown(offsets, lengths, arena, grown)
    if grown.any():
        longer = lengths + grown
        ends = np.cumsum(8 + ((longer + 7) & ~7))
        if arena.nbytes + int(ends[-1]) > max_bytes:
            return None
        into_offsets = np.concatenate([np.full(1, 8), ends[:-1] + 8])
        into = np.zeros(int(ends[-1]) + PADDING, np.uint8)
        into[: into.size // 8 * 8].view(np.int64)[(into_offsets - 8) // 8] = longer
        _escape(offsets, lengths, arena, into_offsets, into)
        arena, offsets = into, into_offsets
    oddities = np.zeros(len(offsets), np.uint8)
    examine(offsets, arena, oddities)
    return Strings(arena, offsets, oddities)
