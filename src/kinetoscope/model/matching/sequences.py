"""Calls whose process group is not recorded: like calls of different ranks side by side, then divided into groups.

Groups of a job often do the same at the same moment. What is certain: calls of one stream of a device are of one group
(each communicator has its own), calls of a host that are alike are taken to be. So sequences of whole streams belong
together or not; `attendance` decides which do, or leaves it open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.algorithms.alignment.alignment import align
from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.matching.attendance import certain_groups
from kinetoscope.model.matching.columns import CallArrays
from kinetoscope.model.matching.membership import Attendance, SideBySide
from kinetoscope.model.matching.order import Offsets

_MAX_PAIRINGS: Final = 4096
"""Pairs of sequences that are put side by side, about, where many do not fit."""

_MAX_ROUNDS: Final = 16
_MAX_PASSES: Final = 4

_MIN_PLACED_SHARE: Final = 0.9
"""Share of calls with a place beside others, from which on streams are not joined."""

_MISFIT_RATIO: Final = 5.0
"""Misfit of ends where sequences begin together / misfit by time, up to which they are taken to begin together."""

_TOLERANCE_NS: Final = 50_000
_TOLERANCE_RATE: Final = 5e-5
"""Tolerance of overlaps of a collective's calls: ns, and drift of clocks, ns a ns."""

_MAX_END_RATIO: Final = 15.0
"""Difference of the ends of a collective / its usual value."""

_MAX_WRONG_SHARE: Final = 0.1
"""Share of calls that do not fit together, from which on like calls are of several groups."""

_MIN_ALIKE_SHARE: Final = 0.5
"""Share of the calls of two streams that must be alike for them to be of one group."""


def by_shape(calls: CallArrays, free: Bools, ids: Int64s) -> tuple[Int64s, int]:
    """Numbers of collectives whose group is not recorded, −1 where nothing is certain; and how many calls stay open.

    Open calls are like others at the same time, of an unknown group. `ids` are the matches so far. Each new match sets
    clocks, and these allow more matches: so there are several passes.
    """
    numbers = np.full(len(calls.rank), -1, np.int64)
    if not free.any():
        return numbers, 0
    tables = list(_tables(calls, free, Offsets(calls, ids)))
    attendance = Attendance.of(calls, free)
    number = 0
    for _ in range(_MAX_PASSES):
        known = np.where(ids >= 0, ids, np.where(numbers >= 0, numbers + ids.max(initial=-1) + 1, -1))
        offsets = Offsets(calls, known)
        rest = []
        for table in tables:
            groups = list(certain_groups(attendance, table, offsets))
            for members in groups:
                rows = table.rows[:, members]
                rows = rows if 0 in members and table.is_timed[members].all() else _with_own(calls, rows, offsets)
                number = _numbered(numbers, _leaving_together(calls, rows, offsets), number)
            rest.append(table.without([place for members in groups for place in members]))
        if sum(table.rows.shape[1] for table in rest) == sum(table.rows.shape[1] for table in tables):
            break
        tables = rest
    open_ = np.concatenate(
        [table.rows.ravel() for table in tables if table.rows.shape[1] > 1] or [np.empty(0, np.int64)]
    )
    open_ = np.unique(open_[open_ >= 0])
    return numbers, int((numbers[open_] < 0).sum())


def _with_own(calls: CallArrays, rows: Int64s, offsets: Offsets) -> Int64s:
    """Calls of ranks that are certainly of one group side by side again, by the first of their own."""
    first, *others = [column[column >= 0] for column in rows.T]
    return np.stack([first, *(_by_pivot(calls, first, other, offsets)[0] for other in others)], axis=1)


def _by_pivot(calls: CallArrays, pivot: Int64s, part: Int64s, offsets: Offsets) -> tuple[Int64s, bool]:
    """The call of one sequence beside each call of another, −1 for none; and whether several places fit."""
    partner = np.full(len(pivot), -1, np.int64)
    offset = offsets.between(pivot[0], part[0])
    (mine, theirs), ambiguous = align(calls.witness(pivot), calls.witness(part), offset, gaps=calls.gaps)
    partner[mine] = part[theirs]
    return partner, ambiguous


def _leaving_together(calls: CallArrays, rows: Int64s, offsets: Offsets) -> Int64s:
    """The calls less those that do not overlap the first's, or end at another time, once clocks agree.

    All are inside a collective at once. If many do not fit, none is left: the like calls are of several groups.
    """
    binding = np.flatnonzero((rows[:, 0] >= 0) & calls.binding[rows[:, 0]])
    apart, astray = np.zeros(rows.shape), np.zeros(rows.shape)
    usual = 0.0
    for place in range(1, rows.shape[1]):
        present = binding[rows[binding, place] >= 0]
        if len(present):
            mine, theirs = rows[present, 0], rows[present, place]
            later = calls.end[theirs] - calls.end[mine]
            middle = np.median(later)
            drift = _TOLERANCE_RATE * np.abs(calls.end[mine] - calls.end[mine[len(mine) // 2]])
            offset = offsets.between(mine[0], theirs[0])
            ahead = int(middle) if offset is None else offset
            late = np.maximum(calls.start[theirs] - ahead, calls.start[mine])
            apart[present, place] = late - np.minimum(calls.end[theirs] - ahead, calls.end[mine]) - drift
            astray[present, place] = np.abs(later - middle) - drift
            usual = max(usual, float(np.median(astray[present, place])))
    wrong = (apart > _TOLERANCE_NS) | (astray > max(_TOLERANCE_NS, _MAX_END_RATIO * usual))
    many = wrong.sum() > _MAX_WRONG_SHARE * (rows[binding, 1:] >= 0).sum()
    return np.where(wrong | many, -1, rows)


def _numbered(numbers: Int64s, rows: Int64s, number: int) -> int:
    """Number the calls that are side by side, from `number` on; returns the next free number."""
    present = (rows >= 0) & (numbers[rows] < 0)
    several = present.sum(axis=1) > 1
    place = np.broadcast_to(np.arange(len(rows))[:, None], rows.shape)
    chosen = present & several[:, None]
    numbers[rows[chosen]] = number + place[chosen]
    return number + len(rows)


# --- side by side


def _tables(calls: CallArrays, free: Bools, offsets: Offsets) -> Iterator[SideBySide]:
    """Calls of like sequences side by side; those of hosts apart by their signature."""
    rows = np.flatnonzero(free)
    # Where calls are missing, those of all streams together are aligned more reliably.
    device, host = rows[~calls.on_host[rows]], rows[calls.on_host[rows]]
    yield from _on_devices(calls, device, offsets)
    whole = [
        each for table in _side_by_side(calls, _split(host, calls.rank[host]), offsets) for each in _apart(calls, table)
    ]
    example = host[group(calls.signature[host], calls.rank[host])[1]] if len(host) else host
    signature, ranks = np.unique(calls.signature[example], return_counts=True)
    for kind, count in zip(signature.tolist(), ranks.tolist(), strict=True):
        mine = [table for table in whole if calls.signature[table.rows[:, 0].max()] == kind]
        if len(mine) != 1 or mine[0].rows.shape[1] < count:
            of_kind = host[calls.signature[host] == kind]
            mine = list(_side_by_side(calls, _split(of_kind, calls.rank[of_kind]), offsets))
        yield from (table for table in mine if table.rows.shape[1] > 1)


def _on_devices(calls: CallArrays, rows: Int64s, offsets: Offsets) -> list[SideBySide]:
    """Calls on devices side by side: stream by stream, or, where few calls find a place, by all streams of a rank."""
    by_stream = []
    if not calls.gaps:
        parts = _split(rows, calls.rank[rows], calls.stream[rows])
        by_stream = [each for each in _side_by_side(calls, parts, offsets) if each.rows.shape[1] > 1]
    if _placed(by_stream) >= _MIN_PLACED_SHARE * len(rows):
        return by_stream
    parts = _split(rows, calls.rank[rows])
    whole = [each for table in _side_by_side(calls, parts, offsets) for each in _apart(calls, table)]
    return whole if _placed(whole) > _placed(by_stream) else by_stream


def _placed(tables: list[SideBySide]) -> int:
    return sum(int((table.rows >= 0).sum()) for table in tables)


def _split(rows: Int64s, *keys: Int64s) -> list[Int64s]:
    """Rows of the same keys, each in their order."""
    if not len(rows):
        return []
    codes, _ = group(*keys)
    order = np.argsort(codes, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(codes[order])) + 1)


def _side_by_side(calls: CallArrays, parts: list[Int64s], offsets: Offsets) -> Iterator[SideBySide]:
    """Sequences beside the longest of them, as far as they fit, then those left."""
    left = max(1, min(_MAX_ROUNDS, _MAX_PAIRINGS // max(len(parts), 1))) * 4
    while left and len(parts) > 1:
        pivot = parts.pop(max(range(len(parts)), key=lambda place: (len(parts[place]), -place)))
        columns, is_timed, rest = [pivot], [True], []
        for part in parts:
            if calls.on_host[part[0]] or _similarity(calls, pivot, part) >= _MIN_ALIKE_SHARE:
                by_time, ambiguous = _by_pivot(calls, pivot, part, offsets)
                if ambiguous:
                    continue
                partner = _from_the_start(calls, pivot, part, by_time, offsets)
                columns.append(partner)
                is_timed.append(partner is by_time)
                part = part[~np.isin(part, partner)]
            if len(part):
                rest.append(part)
        parts = rest
        left -= 1
        filled = np.array([bool((column >= 0).any()) for column in columns])
        yield SideBySide(np.stack(columns, axis=1)[:, filled], np.array(is_timed)[filled])


def _from_the_start(calls: CallArrays, pivot: Int64s, part: Int64s, partner: Int64s, offsets: Offsets) -> Int64s:
    """The first beside the first and so on, where both do the same from there on, unless it fits worse by far.

    Recordings mostly begin together, and times of unrelated groups align no better.
    """
    count = min(len(pivot), len(part))
    if calls.gaps or not np.array_equal(calls.signature[pivot[:count]], calls.signature[part[:count]]):
        return partner
    plain = np.full(len(pivot), -1, np.int64)
    plain[:count] = part[:count]
    steps, others = calls.step[pivot[:count]], calls.step[part[:count]]
    known = (steps >= 0) & (others >= 0)
    if np.array_equal(partner, plain) or 2 * (steps != others)[known].sum() > known.sum():  # of other steps
        return partner
    places = np.flatnonzero(partner >= 0)
    lag = np.unique(places - np.searchsorted(part, partner[places]))
    if len(lag) != 1 or lag[0] == 0:
        return plain
    offset = offsets.between(pivot[0], part[0])
    better = _misfit(calls, pivot, partner, offset) * _MISFIT_RATIO < _misfit(calls, pivot, plain, offset)
    return partner if better else plain


def _misfit(calls: CallArrays, pivot: Int64s, partner: Int64s, offset: int | None) -> float:
    """Median difference of ends beyond that of the clocks, ns."""
    both = (partner >= 0) & calls.binding[pivot]
    difference = calls.end[partner[both]] - calls.end[pivot[both]]
    if not both.any():
        return 0.0
    return float(np.median(np.abs(difference - (np.median(difference) if offset is None else offset))))


def _similarity(calls: CallArrays, one: Int64s, other: Int64s) -> float:
    """Share of the shorter sequence whose like is in the other."""
    count = min(len(one), len(other))
    width = int(max(calls.signature[one].max(), calls.signature[other].max())) + 1
    counts = [np.bincount(calls.signature[rows], minlength=width) for rows in (one, other)]
    return float(np.minimum(*counts).sum() / count)


def _apart(calls: CallArrays, table: SideBySide) -> Iterator[SideBySide]:
    """Calls of the first sequence by stream, or by signature, with those beside them: of one stream each."""
    first = table.rows[:, 0]
    if table.rows.shape[1] < 2:
        return
    key = np.where(calls.on_host[first], calls.signature[first], calls.stream[first])
    for each in np.unique(key).tolist():
        mine = table.rows[key == each]
        if not calls.on_host[first[0]]:
            for column in mine.T:
                present = column >= 0
                streams, counts = np.unique(calls.stream[column[present]], return_counts=True)
                if len(streams) > 1:
                    column[present & (calls.stream[column] != streams[counts.argmax()])] = -1
        filled = (mine >= 0).any(axis=0)
        if filled.sum() > 1:
            yield SideBySide(mine[:, filled], table.is_timed[filled])
