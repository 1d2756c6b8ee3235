"""How many bytes of an allocator's segments lie in segments of which nothing is in use, after each event of a history.

Segments lie beside each other, each may have many allocations, and an allocation may reach over several: those of
expandable segments are granules. They are kept in order of address; a segment is found by halving.
"""

from __future__ import annotations

from kinetoscope.algorithms.compiled import compiled, inlined

SEGMENT_ALLOC, ALLOC, FREE, SEGMENT_FREE = range(4)
"""What a change does: adds a segment, allocates or frees memory in segments, removes a segment. Changes that belong to
one event are made in this order."""


@inlined
def _last_up_to(starts, count, address):  # type: ignore[no-untyped-def]
    """The last segment that begins at an address or before it; −1 for none."""
    low, high = 0, count
    while low < high:
        probe = (low + high) >> 1
        if starts[probe] <= address:
            low = probe + 1
        else:
            high = probe
    return low - 1


@inlined
def _gained(starts, sizes, used, count, place, begin, size):  # type: ignore[no-untyped-def]
    """Put a segment behind a place: the bytes that are idle more."""
    for other in range(count, place + 1, -1):
        starts[other], sizes[other], used[other] = starts[other - 1], sizes[other - 1], used[other - 1]
    starts[place + 1], sizes[place + 1], used[place + 1] = begin, size, 0
    return size


@inlined
def _lost(starts, sizes, used, count, place):  # type: ignore[no-untyped-def]
    """Take away the segment at a place: the bytes that are idle more."""
    change = -sizes[place] if used[place] <= 0 else 0
    for other in range(place, count - 1):
        starts[other], sizes[other], used[other] = starts[other + 1], sizes[other + 1], used[other + 1]
    return change


@inlined
def _used(starts, sizes, used, count, place, begin, end, sign):  # type: ignore[no-untyped-def]
    """Allocate (sign 1) or free (−1) what lies between two addresses, from a place on: the bytes that are idle more."""
    change = 0
    while place < count and starts[place] < end:
        part = min(end, starts[place] + sizes[place]) - max(begin, starts[place])
        before = used[place]
        used[place] = before + sign * max(part, 0)
        change += sizes[place] * ((used[place] <= 0) - (before <= 0))
        place += 1
    return change


@compiled
def idle_levels(does, address, size, event, starts, sizes, used, levels):  # type: ignore[no-untyped-def]
    """Follow the changes of a history.

    Args:
        does: int8 [changes], what each does, in order of events.
        address: int64 [changes].
        size: int64 [changes], bytes.
        event: int32 [changes], the event that each belongs to, −1 for the state before the first.
        starts: int64 [segments], scratch: as many as there ever are.
        sizes: likewise.
        used: likewise.
        levels: int64 [events + 1], out: bytes of idle segments before the first event and after each.
    """
    count, idle, done = 0, 0, 0
    for change in range(does.size):
        while done <= event[change]:
            levels[done] = idle
            done += 1
        what, begin, end = does[change], address[change], address[change] + size[change]
        place = _last_up_to(starts, count, begin)
        if what == ALLOC or what == FREE:
            sign = 1 if what == ALLOC else -1
            idle += _used(starts, sizes, used, count, max(place, 0), begin, end, sign)
        elif what == SEGMENT_ALLOC and count < starts.size:
            idle += _gained(starts, sizes, used, count, place, begin, size[change])
            count += 1
        elif what == SEGMENT_FREE and place >= 0 and starts[place] == begin:
            idle += _lost(starts, sizes, used, count, place)
            count -= 1
    for left in range(done, levels.size):
        levels[left] = idle
