"""Marks to draw for spans at any scale: short neighbours of a row become one mark, long spans stay themselves.

At the scale of a unit of time a span of a unit or more is a mark of its own. Of the others, those that follow one
another in a row and start in the same unit (units are counted from an origin) are one mark. So a row has no more than
two marks a unit, however many spans there are, and the marks of a coarser scale are made of those of a finer one.

The pyramid is what makes that quick: of each 16 spans that follow one another, of each 64, 256, and so on, it holds the
longest, and the time of each kind. It is made in one walk, takes some 8 bytes a span beside the spans themselves,
and serves every scale exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Float32s, Int32s, Int64s, UInt8s, UInt32s, require_rows
from kinetoscope.algorithms.compiled import compiled, frozen, inlined

KINDS: Final = 10
"""Number of kinds of spans."""

UNITS: Final = 1024
"""Units of time in a tile."""

LONGEST_SPAN: Final = 1 << 61
"""Times are no further from 0 than this, ns."""

MAX_SCALE: Final = 51
"""Greatest scale: units of 2^51 ns, tiles of 2^61."""

_FIRST_SHIFT = 4  # log2 of the spans of a node of the first level
_LEVEL_SHIFT = 2  # log2 of the nodes of a level that a node of the next one joins
_INITIAL_ROOM = 1 << 14  # marks that there is room for at first
_LONG_NS = (1 << 32) - 1  # what lasts so long or longer, 4.3 s, is looked up


class PyramidSpans(NamedTuple):
    """The spans, row by row, by start.

    Attributes:
        at: int64 [spans], when each starts, ns.
        own: uint32 [spans], how long it lasts, ns, at most _LONG_NS.
        kind: uint8 [spans], below KINDS.
        begins: int64 [nodes of the first level], when the first span of each starts, ns.
        far: int64 [long spans], which last _LONG_NS or longer, ascending; time: int64 [long spans], how long, ns.
    """

    at: Int64s
    own: UInt32s
    kind: UInt8s
    begins: Int64s
    far: Int64s
    time: Int64s


class PyramidNodes(NamedTuple):
    """Sums over spans that follow one another.

    Attributes:
        levels: int64 [levels + 1], where the nodes of each level begin.
        length: int64 [nodes], of the longest span of each, ns; longest: int32 [nodes], which one that is.
        busy: int64 [nodes × KINDS], time of each kind, ns.
    """

    levels: Int64s
    length: Int64s
    longest: Int32s
    busy: Int64s


@dataclass(frozen=True)
class Pyramid:
    """Spans by row, and sums over them.

    Attributes:
        order: int32 [spans], numbers of the spans as they were given, row by row, by start.
        rows: int64 [rows + 1], where each row begins in `order`.
        spans, nodes: of them, in that order.
    """

    order: Int32s
    rows: Int64s
    spans: PyramidSpans
    nodes: PyramidNodes


@dataclass(frozen=True)
class Marks:
    """Marks of a tile, row by row, in order of time.

    Attributes:
        rows: int64 [rows asked for + 1], where the marks of each begin.
        start, end: float32 [marks], in units from the beginning of the tile, cut where they stick out a unit.
        span: int32 [marks], the span that it is, or the longest of them.
        count: int32 [marks], how many spans it is.
        kind: uint8 [marks], the kind that most of its time is of.
        busy: int64 [marks], time of its spans, ns.
        extent: int64 [marks], from its start to its end, ns.
    """

    rows: Int64s
    start: Float32s
    end: Float32s
    span: Int32s
    count: Int32s
    kind: UInt8s
    busy: Int64s
    extent: Int64s

    def __len__(self) -> int:
        return len(self.span)


def pyramid(start: Int64s, end: Int64s, kind: UInt8s, order: Int32s, rows: Int64s) -> Pyramid:
    """Sum up spans that stand in rows.

    Args:
        start: first instant of each span, ns, [n], between −LONGEST_SPAN and LONGEST_SPAN.
        end: instant after the last of each, ns, [n], in the same bounds; empty if it is no later than the start.
        kind: of each span, [n].
        order: the spans that are drawn, row by row, by start. Spans of a row should not overlap: one that does is taken
            to end where the next one of its row starts.
        rows: where each row begins in `order`, [rows + 1].

    Raises:
        ValueError: the arrays differ in length, or a kind is KINDS or more.
    """
    require_rows(start.size, start=start, end=end, kind=kind)
    if kind.size and int(kind.max()) >= KINDS:
        raise ValueError(f"a kind is {int(kind.max())}, but there are {KINDS}")
    sizes = []
    size = order.size >> _FIRST_SHIFT
    while size:
        sizes.append(size)
        size >>= _LEVEL_SHIFT
    levels = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    size = int(levels[-1])
    at, own, kinds = np.empty(order.size, np.int64), np.empty(order.size, np.uint32), np.empty(order.size, np.uint8)
    begins = np.empty(sizes[0] if sizes else 0, np.int64)
    length, longest, busy = np.zeros(size, np.int64), np.zeros(size, np.int32), np.zeros(size * KINDS, np.int64)
    given = (frozen(order, np.int32), frozen(rows, np.int64), frozen(start, np.int64), frozen(end, np.int64))
    _build(*given, frozen(kind, np.uint8), levels, at, own, kinds, begins, length, longest, busy)
    far = np.flatnonzero(own == _LONG_NS)
    spans = PyramidSpans(
        frozen(at, np.int64),
        frozen(own, np.uint32),
        frozen(kinds, np.uint8),
        frozen(begins, np.int64),
        frozen(far, np.int64),
        frozen(_lengths(*given, far), np.int64),
    )
    nodes = PyramidNodes(
        frozen(levels, np.int64), frozen(length, np.int64), frozen(longest, np.int32), frozen(busy, np.int64)
    )
    return Pyramid(*given[:2], spans, nodes)


def _lengths(order: Int32s, rows: Int64s, start: Int64s, end: Int64s, places: Int64s) -> Int64s:
    """Length of the spans at some places of `order`, at most until the next one of their row starts."""
    item = order[places]
    length = end[item] - start[item]
    ends_row = np.isin(places + 1, rows)
    following = order[np.where(ends_row, places, places + 1)]
    return np.where(ends_row, length, np.minimum(length, start[following] - start[item]))


def marks(source: Pyramid, rows: Int64s, *, origin: int, scale: int, tile: int) -> Marks:
    """Marks of some rows in a tile: all that touch it, also those that begin before.

    A mark that two tiles show is the same in both.

    Args:
        source: the spans.
        rows: rows of the pyramid, [rows asked for].
        origin: where units and tiles are counted from, ns; units are 2^`scale` ns long, tiles UNITS units.
        scale: from 0 to MAX_SCALE.
        tile: number of the tile; those before the origin are negative.

    Raises:
        ValueError: the scale, the tile or a row does not exist.
    """
    first = origin + tile * (UNITS << scale) if 0 <= scale <= MAX_SCALE else None
    if first is None or abs(first) > 2 * LONGEST_SPAN or abs(origin) > LONGEST_SPAN:
        raise ValueError(f"there is no tile {tile} of scale {scale} from {origin} on")
    if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < source.rows.size - 1:
        raise ValueError(f"there are {source.rows.size - 1} rows")
    room = _INITIAL_ROOM
    while True:
        ends = np.zeros(rows.size + 1, np.int64)
        start, end = np.empty(room, np.float32), np.empty(room, np.float32)
        span, count = np.empty(room, np.int32), np.empty(room, np.int32)
        kind, busy, extent = np.empty(room, np.uint8), np.empty(room, np.int64), np.empty(room, np.int64)
        size = _marks(
            source.order, source.rows, source.spans, source.nodes, frozen(rows, np.int64), origin, first, scale,
            np.zeros(KINDS, np.int64), ends, start, end, span, count, kind, busy, extent,
        )  # fmt: skip
        if size >= 0:
            return Marks(
                ends, start[:size], end[:size], span[:size], count[:size], kind[:size], busy[:size], extent[:size]
            )
        room *= 4


@compiled
def _build(
    order: Int32s,
    rows: Int64s,
    start: Int64s,
    end: Int64s,
    kind: UInt8s,
    levels: Int64s,
    at: Int64s,
    own: UInt32s,
    kinds: UInt8s,
    begins: Int64s,
    length: Int64s,
    longest: Int32s,
    busy: Int64s,
) -> None:
    """A node across two rows is filled as well, and never used. What fills no node stays without one."""
    for row in range(rows.size - 1):
        for place in range(rows[row], rows[row + 1]):
            item = order[place]
            time = max(end[item] - start[item], 0)
            if place + 1 < rows[row + 1]:
                time = min(time, start[order[place + 1]] - start[item])
            at[place] = start[item]
            own[place] = min(time, _LONG_NS)
            kinds[place] = kind[item]
            node = place >> _FIRST_SHIFT
            if node < begins.size:
                if place & ((1 << _FIRST_SHIFT) - 1) == 0:
                    begins[node] = start[item]
                    length[node] = -1
                busy[node * KINDS + kind[item]] += time
                if time > length[node]:
                    length[node] = time
                    longest[node] = place
    for level in range(1, levels.size - 1):
        low = levels[level - 1]
        for node in range(levels[level], levels[level + 1]):
            child = low + ((node - levels[level]) << _LEVEL_SHIFT)
            length[node] = -1
            for each in range(child, child + (1 << _LEVEL_SHIFT)):
                if length[each] > length[node]:
                    length[node] = length[each]
                    longest[node] = longest[each]
                for k in range(KINDS):
                    busy[node * KINDS + k] += busy[each * KINDS + k]


@inlined
def _first_from(at: Int64s, begins: Int64s, low: int, high: int, time: int) -> int:
    """The first place from `low` to `high` whose span starts at a time or later; they are of one row.

    What is near is found first, by ever longer steps over the nodes.
    """
    node = (low >> _FIRST_SHIFT) + 1
    step = 1
    while (node + step) << _FIRST_SHIFT < high and node + step < begins.size and begins[node + step] < time:
        node += step
        step *= 2
    top = min(node + step, high >> _FIRST_SHIFT, begins.size - 1)
    bottom = (low >> _FIRST_SHIFT) + 1
    if step > 1:
        bottom = node + 1
    while bottom <= top:  # the first node that begins later
        probe = (bottom + top) >> 1
        if probe << _FIRST_SHIFT >= high or begins[probe] >= time:
            top = probe - 1
        else:
            bottom = probe + 1
    low = max(low, (bottom - 1) << _FIRST_SHIFT)
    high = min(high, bottom << _FIRST_SHIFT) if bottom < begins.size else high
    while low < high:
        probe = (low + high) >> 1
        if at[probe] < time:
            low = probe + 1
        else:
            high = probe
    return int(low)


@inlined
def _time(spans: PyramidSpans, place: int) -> int:
    """Length of the span at a place."""
    time = int(spans.own[place])
    if time == _LONG_NS:
        low, high = 0, spans.far.size - 1
        while low < high:
            probe = (low + high) >> 1
            if spans.far[probe] < place:
                low = probe + 1
            else:
                high = probe
        time = spans.time[low]
    return time


@inlined
def _entry(spans: PyramidSpans, low: int, high: int, first: int, unit: int) -> int:
    """The place in a row of the first mark that touches a tile; `low` and `high` bound the row."""
    place = _first_from(spans.at, spans.begins, low, high, first)
    if place == low:
        return place
    time = _time(spans, place - 1)
    if spans.at[place - 1] + time <= first:
        return place
    # It reaches into the tile. If it is short, all that starts in its unit is one mark with it.
    return _first_from(spans.at, spans.begins, low, place, first - unit) if time < unit else place - 1


@inlined
def _after(spans: PyramidSpans, place: int, high: int, border: int, unit: int) -> int:
    """The end of the mark that begins at a place with a short span; `border` ends the unit that this starts in."""
    last = _first_from(spans.at, spans.begins, place + 1, high, border)
    # A long span leaves no room for another to start in its unit after it: it is the last one there.
    if last - 1 > place and _time(spans, last - 1) >= unit:
        last -= 1
    return last


@inlined
def _sum_up(spans: PyramidSpans, nodes: PyramidNodes, place: int, last: int, sums: Int64s) -> int:
    """Sum up the time of each kind from a place to before `last`; returns the place of the longest span."""
    for k in range(KINDS):
        sums[k] = 0
    best, most = place, -1
    level = 0
    while place < last:
        # Upwards as long as a larger node begins here and ends in time, downwards where none does.
        while level < nodes.levels.size - 1:
            shift = _FIRST_SHIFT + level * _LEVEL_SHIFT
            if place & ((1 << shift) - 1) or place + (1 << shift) > last:
                break
            level += 1
        while level and place + (1 << (_FIRST_SHIFT + (level - 1) * _LEVEL_SHIFT)) > last:
            level -= 1
        if level:
            shift = _FIRST_SHIFT + (level - 1) * _LEVEL_SHIFT
            node = nodes.levels[level - 1] + (place >> shift)
            if nodes.length[node] > most:
                best, most = nodes.longest[node] + 0, nodes.length[node]
            for k in range(KINDS):
                sums[k] += nodes.busy[node * KINDS + k]
            place += 1 << shift
        else:
            time = _time(spans, place)
            if time > most:
                best, most = place, time
            sums[spans.kind[place]] += time
            place += 1
    return int(best)


@compiled
def _marks(
    order: Int32s,
    rows: Int64s,
    spans: PyramidSpans,
    nodes: PyramidNodes,
    wanted: Int64s,
    origin: int,
    first: int,
    scale: int,
    sums: Int64s,
    ends: Int64s,
    mark_start: Float32s,
    mark_end: Float32s,
    mark_span: Int32s,
    mark_count: Int32s,
    mark_kind: UInt8s,
    mark_busy: Int64s,
    mark_extent: Int64s,
) -> int:
    """Fill in the marks; returns how many there are, or −1 if there is not room for all."""
    unit = 1 << scale
    limit = first + (UNITS << scale)
    size = 0
    for each in range(wanted.size):
        low, high = rows[wanted[each]], rows[wanted[each] + 1]
        place = _entry(spans, low, high, first, unit)
        while place < high and spans.at[place] < limit:
            if size == mark_span.size:
                return -1
            begin = spans.at[place]
            best, last, top = place, place + 1, int(spans.kind[place])
            total = _time(spans, place)
            if total < unit:
                border = origin + ((((begin - origin) >> scale) + 1) << scale)
                last = _after(spans, place, high, border, unit)
            if last > place + 1:
                best = _sum_up(spans, nodes, place, last, sums)
                top, total = int(spans.kind[best]), 0
                for k in range(KINDS):
                    total += sums[k]
                    if sums[k] > sums[top] or (sums[k] == sums[top] and sums[k] and k < top):
                        top = k
            stop = spans.at[last - 1] + _time(spans, last - 1)
            mark_start[size] = max((begin - first) / unit, -1.0)
            mark_end[size] = min((stop - first) / unit, UNITS + 1.0)
            mark_span[size] = order[best]
            mark_count[size] = last - place
            mark_kind[size] = top
            mark_busy[size] = total
            mark_extent[size] = stop - begin
            size += 1
            place = last
        ends[each + 1] = size
    return size
