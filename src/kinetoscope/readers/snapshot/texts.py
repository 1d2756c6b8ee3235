"""The texts of a pickle as a table of strings, which holds them as JSON spells them."""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.arrays import Int64s, UInt8s
from kinetoscope.algorithms.compiled import compiled
from kinetoscope.model.trace.strings import Strings, spelled
from kinetoscope.readers.json.tokenizer import examine


@compiled
def _needs_escape(offsets, lengths, arena, needs):  # type: ignore[no-untyped-def]
    for code in range(offsets.size):
        for place in range(offsets[code], offsets[code] + lengths[code]):
            c = arena[place]
            if c < 32 or c == 34 or c == 92:
                needs[code] = True
                break


def strings_of(arena: UInt8s, offsets: Int64s) -> Strings:
    """The table of the texts that the machine interned, spelled as JSON would: Windows paths, nested JSON, line breaks.

    Args:
        arena: uint8, the bytes as `tokenizer.intern` lays them out.
        offsets: int64 [texts].
    """
    lengths: Int64s = arena[: arena.size // 8 * 8].view(np.int64)[(offsets - 8) // 8]
    needs = np.zeros(len(offsets), np.bool_)
    _needs_escape(offsets, lengths, arena, needs)
    pieces, begin, shifts = list[UInt8s](), 0, np.zeros(len(offsets), np.int64)
    for code in np.flatnonzero(needs).tolist():
        start, end = int(offsets[code]), int(offsets[code] + lengths[code])
        text = arena[start:end].tobytes().decode("utf-8", "surrogateescape")
        content = spelled(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
        padding = -len(content) % 8
        header = np.array([len(content)], np.int64).view(np.uint8)
        body = np.frombuffer(content + b"\0" * padding, np.uint8)
        pieces += [arena[begin : start - 8], header, body]
        begin = (end + 7) & ~7
        shifts[code] = len(body) - (begin - start)
    if pieces:
        arena = np.concatenate([*pieces, arena[begin:]])
        offsets = offsets + np.cumsum(shifts) - shifts
    oddities = np.zeros(len(offsets), np.uint8)
    examine(offsets, arena, oddities)
    return Strings(arena, offsets, oddities)
