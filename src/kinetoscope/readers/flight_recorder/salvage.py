"""A dump that is cut or damaged: what stands before that, as if it ended there, without the entry that is not whole.

The machine has stopped within the dict of the dump: on its stack are that dict, a mark, the keys and values so far, and
of the list of entries, if it was in the middle of it, another mark and the entries that are not appended yet.
"""

from __future__ import annotations

import numpy as np

from kinetoscope.readers.json.tokenizer import PADDING
from kinetoscope.readers.pickled import machine as m
from kinetoscope.readers.pickled.tables import MachineTables

_APPENDS, _SETITEMS, _STOP = b"e", b"u", b"."


def close_dump(tables: MachineTables) -> bool:
    """Close what is open in the dict of a damaged dump, so that it is one; False if no entry of it is whole."""
    at, kinds = tables.at, tables.arrays["kinds"][: tables.at[m.DEPTH]].tolist()
    if kinds[:2] != [m.NEW_DICT, m.MARK]:
        return False
    end, entries = 2, False
    while kinds[end : end + 1] == [m.TEXT] and end + 1 < len(kinds):
        kind, is_open = kinds[end + 1], kinds[end + 2 : end + 3] == [m.MARK]
        if is_open and kind in (m.NEW_LIST, m.ENTRY_LIST):
            first = end + 3
            whole = next((place for place in range(first, len(kinds)) if kinds[place] != m.ENTRY), len(kinds))
            entries = kind == m.ENTRY_LIST or whole > first
            at[m.DEPTH] = whole
            if entries and not _run(tables, _APPENDS):
                return False
            end += 2 * entries
            break
        if is_open:
            break
        entries |= kind == m.ENTRY_LIST
        end += 2
    at[m.DEPTH] = end
    return entries and _run(tables, _SETITEMS + _STOP)


def _run(tables: MachineTables, opcodes: bytes) -> bool:
    """Run the machine over a few more opcodes, none of which it refuses."""
    text = np.full(len(opcodes) + PADDING, ord('"'), np.uint8)
    text[: len(opcodes)] = np.frombuffer(opcodes, np.uint8)
    tables.at[m.POSITION] = 0
    while (status := m.run(text, len(opcodes), tables.at, *tables.arrays.values())) == m.ROOM:
        tables.grow(int(tables.at[m.WHAT]), 0)
    return bool(status != m.REFUSED)
