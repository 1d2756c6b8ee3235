"""Lifetimes of allocations, by undoing the history of an allocator from its last state backwards.

Played forwards from nothing, a history misses what was there before it began; played backwards it misses nothing.
"""

from __future__ import annotations

from typing import Final

from kinetoscope.algorithms.compiled import compiled

ALLOC, FREE_REQUESTED, FREE_COMPLETED = range(3)
"""What an event does to its address: it is allocated, its free is requested (and waits), its free is completed."""

NO_EVENT: Final = -1


@compiled
def undo(does, keys, live, allocated_at, free_requested_at, freed_at, at):  # type: ignore[no-untyped-def]
    """Undo events, the last first.

    Args:
        does: int8 [events], what each does; other numbers do nothing.
        keys: int32 [events], a number for each address.
        live: int32 [addresses]: the row of what is allocated there at the end, −1 for none. Changed to the beginning.
        allocated_at: int32 [rows]: the event that made each allocation. There are as many rows as there are frees
            and allocations in the last state (these come first); filled with −1.
        free_requested_at: int32 [rows]: the event that requested its free, likewise.
        freed_at: int32 [rows]: the event that freed it, likewise.
        at: int64 [2]: how many rows there are, in and out; how many events cannot be undone, out.
    """
    rows, impossible = at[0], at[1]
    for event in range(does.size - 1, -1, -1):
        what, key = does[event], keys[event]
        if what == FREE_COMPLETED:
            if live[key] >= 0:
                impossible += 1
                continue
            live[key] = rows
            allocated_at[rows] = free_requested_at[rows] = -1
            freed_at[rows] = event
            rows += 1
        elif what == FREE_REQUESTED:
            if live[key] < 0:
                impossible += 1
            else:
                free_requested_at[live[key]] = event
        elif what == ALLOC:
            if live[key] < 0:
                impossible += 1
            else:
                allocated_at[live[key]] = event
                live[key] = -1
    at[0], at[1] = rows, impossible
