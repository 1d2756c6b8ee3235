"""A dump that is cut or damaged: what stands before that, as if it ended there, without the entry that is not whole.

The machine has stopped within the dict of the dump: on its stack are that dict, a mark, the keys and values so far, and
of the list of entries, if it was in the middle of it, another mark and the entries that are not appended yet.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinetoscope.readers.json.tokenizer import PADDING
from kinetoscope.readers.pickled import machine as m
from kinetoscope.readers.pickled.tables import MachineTables

_APPENDS, _SETITEMS, _STOP = b"e", b"u", b"."


def close_dump(tables: MachineTables) -> bool:
    """Close what is open in the dict of a damaged dump, so that it is one; False if no entry of it is whole."""
    kinds = tables.arrays["kinds"][: tables.at[m.DEPTH]].tolist()
    if kinds[:2] != [m.NEW_DICT, m.MARK]:
        return False
    end = _end_of_pairs(kinds)
    has_entries = m.ENTRY_LIST in kinds[3:end:2]
    if kinds[end + 1 : end + 3] in ([m.NEW_LIST, m.MARK], [m.ENTRY_LIST, m.MARK]):
        first = end + 3
        whole = next((place for place in range(first, len(kinds)) if kinds[place] != m.ENTRY), len(kinds))
        is_more = whole > first and _run(tables, whole, _APPENDS)
        if is_more or kinds[end + 1] == m.ENTRY_LIST:
            end, has_entries = end + 2, True
    return has_entries and _run(tables, end, _SETITEMS + _STOP)


def _end_of_pairs(kinds: Sequence[int]) -> int:
    """The place on the stack behind the last key of the dict whose value is whole."""
    end = 2
    while end + 1 < len(kinds) and kinds[end] == m.TEXT and kinds[end + 1] != m.MARK:
        if kinds[end + 2 : end + 3] == [m.MARK]:
            break
        end += 2
    return end


def _run(tables: MachineTables, depth: int, opcodes: bytes) -> bool:
    """Run the machine over a few more opcodes with the stack up to a depth; False if it refuses one."""
    text = np.full(len(opcodes) + PADDING, ord('"'), np.uint8)
    text[: len(opcodes)] = np.frombuffer(opcodes, np.uint8)
    tables.at[m.POSITION], tables.at[m.DEPTH] = 0, depth
    while (status := m.run(text, len(opcodes), tables.at, *tables.arrays.values())) == m.ROOM:
        tables.grow(int(tables.at[m.WHAT]), 0)
    return bool(status != m.REFUSED)
