"""Calls whose process group is not recorded: like calls of different ranks side by side, then who was there together.

Groups of a job often do the same at the same moment. What is certain: calls of one stream of a device are of one group
(each communicator has its own), calls of a host that are alike are taken to be. So sequences of whole streams belong
together or not; which do, `matching_attendance` tells, or leaves open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.algorithms.alignment.alignment import aligned_or_doubtful
from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.matching.attendance import attended
from kinetoscope.model.matching.columns import Calls
from kinetoscope.model.matching.membership import Attendance, Table
from kinetoscope.model.matching.order import Offsets

_PAIRINGS: Final = 4096
"""Pairs of sequences that are put side by side, about, where many do not fit."""

_ROUNDS: Final = 16
_PASSES: Final = 4

_MOST: Final = 0.9
"""Share of calls that should find their place beside others."""

_FAR_WORSE: Final = 5.0
"""How many times as much ends must differ before sequences are not taken to begin together."""

_SLACK: Final = 50_000
_DRIFT: Final = 5e-5
"""What those who are in a collective at once may miss each other by: ns, and what clocks drift apart in a ns."""

_ASTRAY: Final = 15.0
"""How many times as much as usual ends of a collective may differ."""

_MIXED: Final = 0.1
"""Share of calls that fit together no better, from which on like calls are of several groups."""

_ALIKE: Final = 0.5
"""Share of the calls of two streams that must be alike for them to be of one group."""


def by_shape(calls: Calls, free: Bools, ids: Int64s) -> tuple[Int64s, int]:
    """Numbers of collectives whose group is not recorded, −1 where nothing is certain; and how many calls stay open.

    Those are like others' at the same time, but of which group cannot be told.
    `ids` are the matches found so far. What is matched sets clocks, and these tell more: so it is asked again.
    """
    found = np.full(len(calls.rank), -1, np.int64)
    if not free.any():
        return found, 0
    tables = list(_tables(calls, free, Offsets(calls, ids)))
    attendance = Attendance.of(calls, free)
    number = 0
    for _ in range(_PASSES):
        known = np.where(ids >= 0, ids, np.where(found >= 0, found + ids.max(initial=-1) + 1, -1))
        offsets = Offsets(calls, known)
        rest = []
        for table in tables:
            sure = list(attended(attendance, table, offsets))
            for members in sure:
                rows = table.rows[:, members]
                rows = rows if 0 in members and table.told[members].all() else _beside_own(calls, rows, offsets)
                number = _numbered(found, _leaving_together(calls, rows, offsets), number)
            rest.append(table.without([place for members in sure for place in members]))
        if sum(table.rows.shape[1] for table in rest) == sum(table.rows.shape[1] for table in tables):
            break
        tables = rest
    open_ = np.concatenate(
        [table.rows.ravel() for table in tables if table.rows.shape[1] > 1] or [np.empty(0, np.int64)]
    )
    open_ = np.unique(open_[open_ >= 0])
    return found, int((found[open_] < 0).sum())


def _beside_own(calls: Calls, rows: Int64s, offsets: Offsets) -> Int64s:
    """Calls of ranks that are known to be of one group side by side again, by the first of their own."""
    first, *others = [column[column >= 0] for column in rows.T]
    return np.stack([first, *(_placed_beside(calls, first, other, offsets)[0] for other in others)], axis=1)


def _placed_beside(calls: Calls, pivot: Int64s, part: Int64s, offsets: Offsets) -> tuple[Int64s, bool]:
    """What of one sequence is beside each call of another, −1 where nothing is; and whether several places fit."""
    beside = np.full(len(pivot), -1, np.int64)
    offset = offsets.between(pivot[0], part[0])
    (mine, theirs), doubtful = aligned_or_doubtful(calls.witness(pivot), calls.witness(part), offset, gaps=calls.gaps)
    beside[mine] = part[theirs]
    return beside, doubtful


def _leaving_together(calls: Calls, rows: Int64s, offsets: Offsets) -> Int64s:
    """The calls less those that do not overlap the first's, or end at another time, once clocks agree.

    All are inside a collective at once. If many do not fit, none is left: their like calls are of several groups.
    """
    binding = np.flatnonzero((rows[:, 0] >= 0) & calls.binding[rows[:, 0]])
    apart, astray = np.zeros(rows.shape), np.zeros(rows.shape)
    usual = 0.0
    for place in range(1, rows.shape[1]):
        there = binding[rows[binding, place] >= 0]
        if len(there):
            mine, theirs = rows[there, 0], rows[there, place]
            later = calls.end[theirs] - calls.end[mine]
            middle = np.median(later)
            drift = _DRIFT * np.abs(calls.end[mine] - calls.end[mine[len(mine) // 2]])
            offset = offsets.between(mine[0], theirs[0])
            ahead = int(middle) if offset is None else offset
            late = np.maximum(calls.start[theirs] - ahead, calls.start[mine])
            apart[there, place] = late - np.minimum(calls.end[theirs] - ahead, calls.end[mine]) - drift
            astray[there, place] = np.abs(later - middle) - drift
            usual = max(usual, float(np.median(astray[there, place])))
    wrong = (apart > _SLACK) | (astray > max(_SLACK, _ASTRAY * usual))
    many = wrong.sum() > _MIXED * (rows[binding, 1:] >= 0).sum()
    return np.where(wrong | many, -1, rows)


def _numbered(found: Int64s, rows: Int64s, number: int) -> int:
    """Number the calls that are side by side, from `number` on; the next free number comes back."""
    there = (rows >= 0) & (found[rows] < 0)
    several = there.sum(axis=1) > 1
    place = np.broadcast_to(np.arange(len(rows))[:, None], rows.shape)
    chosen = there & several[:, None]
    found[rows[chosen]] = number + place[chosen]
    return number + len(rows)


# --- side by side


def _tables(calls: Calls, free: Bools, offsets: Offsets) -> Iterator[Table]:
    """Calls of like sequences side by side; of hosts apart by what they do."""
    rows = np.flatnonzero(free)
    # Where calls are missing those of all streams together tell more of when they were.
    device, host = rows[~calls.on_host[rows]], rows[calls.on_host[rows]]
    yield from _on_devices(calls, device, offsets)
    whole = [
        each for table in _side_by_side(calls, _split(host, calls.rank[host]), offsets) for each in _apart(calls, table)
    ]
    doing = host[group(calls.signature[host], calls.rank[host])[1]] if len(host) else host
    signature, ranks = np.unique(calls.signature[doing], return_counts=True)
    for kind, count in zip(signature.tolist(), ranks.tolist(), strict=True):
        mine = [table for table in whole if calls.signature[table.rows[:, 0].max()] == kind]
        if len(mine) != 1 or mine[0].rows.shape[1] < count:
            alike = host[calls.signature[host] == kind]
            mine = list(_side_by_side(calls, _split(alike, calls.rank[alike]), offsets))
        yield from (table for table in mine if table.rows.shape[1] > 1)


def _on_devices(calls: Calls, rows: Int64s, offsets: Offsets) -> list[Table]:
    """Calls on devices side by side: stream by stream, or, where that tells little, by all streams of a rank."""
    by_stream = []
    if not calls.gaps:
        parts = _split(rows, calls.rank[rows], calls.stream[rows])
        by_stream = [each for each in _side_by_side(calls, parts, offsets) if each.rows.shape[1] > 1]
    if _placed(by_stream) >= _MOST * len(rows):
        return by_stream
    parts = _split(rows, calls.rank[rows])
    whole = [each for table in _side_by_side(calls, parts, offsets) for each in _apart(calls, table)]
    return whole if _placed(whole) > _placed(by_stream) else by_stream


def _placed(tables: list[Table]) -> int:
    return sum(int((table.rows >= 0).sum()) for table in tables)


def _split(rows: Int64s, *keys: Int64s) -> list[Int64s]:
    """Rows of the same keys, each in their order."""
    if not len(rows):
        return []
    codes, _ = group(*keys)
    order = np.argsort(codes, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(codes[order])) + 1)


def _side_by_side(calls: Calls, parts: list[Int64s], offsets: Offsets) -> Iterator[Table]:
    """Sequences beside the longest of them, as far as they fit, then those left."""
    left = max(1, min(_ROUNDS, _PAIRINGS // max(len(parts), 1))) * 4
    while left and len(parts) > 1:
        pivot = parts.pop(max(range(len(parts)), key=lambda place: (len(parts[place]), -place)))
        columns, told, rest = [pivot], [True], []
        profile = _profile(calls, pivot)
        for part in parts:
            if calls.on_host[part[0]] or _similar(profile, _profile(calls, part)) >= _ALIKE:
                by_time, doubtful = _placed_beside(calls, pivot, part, offsets)
                if doubtful:
                    continue
                beside = _from_the_start(calls, pivot, part, by_time, offsets)
                columns.append(beside)
                told.append(beside is by_time)
                part = part[~np.isin(part, beside)]
            if len(part):
                rest.append(part)
        parts = rest
        left -= 1
        kept = np.array([bool((column >= 0).any()) for column in columns])
        yield Table(np.stack(columns, axis=1)[:, kept], np.array(told)[kept])


def _from_the_start(calls: Calls, pivot: Int64s, part: Int64s, beside: Int64s, offsets: Offsets) -> Int64s:
    """The first beside the first and so on, where both do the same from there on, unless it fits worse by far.

    Recordings mostly begin together. Of groups that have nothing to do with one another times tell no better.
    """
    count = min(len(pivot), len(part))
    if calls.gaps or not np.array_equal(calls.signature[pivot[:count]], calls.signature[part[:count]]):
        return beside
    plain = np.full(len(pivot), -1, np.int64)
    plain[:count] = part[:count]
    if np.array_equal(beside, plain) or _otherwise_numbered(calls, pivot[:count], part[:count]):
        return beside
    places = np.flatnonzero(beside >= 0)
    lag = np.unique(places - np.searchsorted(part, beside[places]))
    if len(lag) != 1 or lag[0] == 0:
        return plain
    offset = offsets.between(pivot[0], part[0])
    better = _misfit(calls, pivot, beside, offset) * _FAR_WORSE < _misfit(calls, pivot, plain, offset)
    return beside if better else plain


def _otherwise_numbered(calls: Calls, pivot: Int64s, part: Int64s) -> bool:
    """Whether calls are of other steps than those they are beside."""
    known = (calls.step[pivot] >= 0) & (calls.step[part] >= 0)
    return bool(2 * (calls.step[pivot] != calls.step[part])[known].sum() > known.sum())


def _misfit(calls: Calls, pivot: Int64s, beside: Int64s, offset: int | None) -> float:
    """By how much ends differ, otherwise than clocks do."""
    both = (beside >= 0) & calls.binding[pivot]
    difference = calls.end[beside[both]] - calls.end[pivot[both]]
    if not both.any():
        return 0.0
    return float(np.median(np.abs(difference - (np.median(difference) if offset is None else offset))))


def _profile(calls: Calls, rows: Int64s) -> tuple[Int64s, Int64s]:
    signature, counts = np.unique(calls.signature[rows], return_counts=True)
    return signature, counts


def _similar(one: tuple[Int64s, Int64s], other: tuple[Int64s, Int64s]) -> float:
    """Share of the shorter sequence whose like is in the other."""
    _, mine, theirs = np.intersect1d(one[0], other[0], assume_unique=True, return_indices=True)
    return float(np.minimum(one[1][mine], other[1][theirs]).sum() / min(one[1].sum(), other[1].sum()))


def _apart(calls: Calls, table: Table) -> Iterator[Table]:
    """Calls of the first sequence by stream, or by what they do, with those beside them: of one stream each."""
    first = table.rows[:, 0]
    if table.rows.shape[1] < 2:
        return
    key = np.where(calls.on_host[first], calls.signature[first], calls.stream[first])
    for each in np.unique(key).tolist():
        mine = table.rows[key == each]
        if not calls.on_host[first[0]]:
            for column in mine.T:
                there = column >= 0
                streams, counts = np.unique(calls.stream[column[there]], return_counts=True)
                if len(streams) > 1:
                    column[there & (calls.stream[column] != streams[counts.argmax()])] = -1
        kept = (mine >= 0).any(axis=0)
        if kept.sum() > 1:
            yield Table(mine[:, kept], table.told[kept])
