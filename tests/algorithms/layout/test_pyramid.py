"""Marks of a timeline against a plain twin: what is drawn at any scale covers all spans, none lost, none twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kinetoscope.algorithms.layout.pyramid import KINDS, LONGEST_SPAN, MAX_SCALE, UNITS, Marks, Pyramid, marks, pyramid


class Mark(NamedTuple):
    begin: int
    stop: int
    span: int
    spans: int
    kind: int
    busy: int


Spans = list[list[tuple[int, int, int]]]
"""Gap to the span before, duration and kind of each span, by row."""

spans = st.lists(
    st.lists(st.tuples(st.integers(0, 40), st.integers(-2, 40), st.integers(0, KINDS - 1)), max_size=120), max_size=4
)


@dataclass(frozen=True)
class Built:
    """A pyramid and what it was made of."""

    pyramid: Pyramid
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    kind: NDArray[np.uint8]

    @property
    def rows(self) -> NDArray[np.int64]:
        return np.arange(len(self.pyramid.rows) - 1)

    def marks(self, *, origin: int, scale: int, tile: int) -> Marks:
        return marks(self.pyramid, self.rows, origin=origin, scale=scale, tile=tile)


def build(rows: Spans, *, grain: int = 1, overlap: bool = False) -> Built:
    """The pyramid of these rows. The spans are in another order than their rows."""
    start, end, kind, sizes = [], [], [], [0]
    for row in rows:
        time = 0
        for gap, duration, of in row:
            time += gap * grain
            start.append(time)
            end.append(time + duration * grain)
            kind.append(of)
            time += 0 if overlap else max(duration, 0) * grain
        sizes.append(len(row))
    order = np.arange(len(start), dtype=np.int32)[::-1].copy()
    begins, ends = (np.array(column, np.int64)[::-1].copy() for column in (start, end))
    kinds = np.array(kind, np.uint8)[::-1].copy()
    return Built(pyramid(begins, ends, kinds, order, np.cumsum(sizes)), begins, ends, kinds)


def expected(found: Built, row: int, origin: int, scale: int, tile: int) -> list[Mark]:
    """What the module's first paragraph says, span by span."""
    places = range(int(found.pyramid.rows[row]), int(found.pyramid.rows[row + 1]))
    stops = []
    for place in places:
        item = found.pyramid.order[place]
        stop = max(int(found.end[item]), int(found.start[item]))
        if place + 1 < places.stop:
            stop = min(stop, int(found.start[found.pyramid.order[place + 1]]))
        stops.append(stop)
    groups: list[list[tuple[int, int, int, int]]] = []
    before = None
    for place, stop in zip(places, stops, strict=True):
        item = int(found.pyramid.order[place])
        begin = int(found.start[item])
        unit = (begin - origin) >> scale
        short = stop - begin < 1 << scale
        if groups and short and before == unit:
            groups[-1].append((begin, stop, item, int(found.kind[item])))
        else:
            groups.append([(begin, stop, item, int(found.kind[item]))])
        before = unit if short else None
    marks_of_row = [merged(group) for group in groups]
    first = origin + ((tile * UNITS) << scale)
    last = first + (UNITS << scale)
    return [each for each in marks_of_row if each.begin < last and (each.begin >= first or each.stop > first)]


def merged(group: list[tuple[int, int, int, int]]) -> Mark:
    times = [stop - begin for begin, stop, _, _ in group]
    longest = times.index(max(times))
    sums = [sum(time for time, (*_, kind) in zip(times, group, strict=True) if kind == each) for each in range(KINDS)]
    kind = sums.index(max(sums)) if sum(sums) else group[longest][3]
    return Mark(group[0][0], group[-1][1], group[longest][2], len(group), kind, sum(times))


def of_row(found: Built, drawn: Marks, row: int, origin: int, scale: int, tile: int) -> list[Mark]:
    first = origin + ((tile * UNITS) << scale)
    result = []
    for place in range(int(drawn.rows[row]), int(drawn.rows[row + 1])):
        extent = int(drawn.extent[place])
        start, end = float(drawn.start[place]), float(drawn.end[place])
        assert -1 <= start <= end <= UNITS + 1
        span = int(drawn.span[place])
        mark = Mark(0, extent, span, int(drawn.count[place]), int(drawn.kind[place]), int(drawn.busy[place]))
        result.append(mark)
        if mark.spans == 1:
            begin = int(found.start[span])
            assert start == pytest.approx(max((begin - first) / (1 << scale), -1), rel=1e-6)
    return result


@given(spans, st.integers(0, 12), st.integers(-3, 3), st.integers(-50, 50), st.booleans())
@example([[(0, 3, 1), (0, 3, 2)]], 12, 0, 0, False)
def test_tiles_hold_what_the_plain_twin_draws(rows: Spans, scale: int, tile: int, origin: int, overlap: bool) -> None:
    found = build(rows, overlap=overlap)
    drawn = found.marks(origin=origin, scale=scale, tile=tile)
    for row in found.rows.tolist():
        wanted = [
            each._replace(begin=0, stop=each.stop - each.begin) for each in expected(found, row, origin, scale, tile)
        ]
        assert of_row(found, drawn, row, origin, scale, tile) == wanted


@given(spans, st.integers(0, 10))
def test_no_span_is_lost_and_time_is_conserved(rows: Spans, scale: int) -> None:
    found = build(rows)
    last = int(found.end.max(initial=0))
    seen: dict[tuple[int, int], Mark] = {}
    for tile in range((last >> scale) // UNITS + 1):
        drawn = found.marks(origin=0, scale=scale, tile=tile)
        for row in found.rows.tolist():
            for mark in of_row(found, drawn, row, 0, scale, tile):
                assert seen.setdefault((row, mark.span), mark) == mark, "the same mark in two tiles differs"
    time = np.maximum(found.end - found.start, 0)
    assert sum(mark.spans for mark in seen.values()) == len(found.pyramid.order)
    assert sum(mark.busy for mark in seen.values()) == int(time.sum())
    alone = {span for (_, span), mark in seen.items() if mark.spans == 1}
    assert set(np.flatnonzero(time >= 1 << scale).tolist()) <= alone


@given(spans)
def test_a_row_has_two_marks_a_unit_at_most(rows: Spans) -> None:
    found = build(rows, grain=100)
    drawn = found.marks(origin=0, scale=3, tile=0)
    assert np.diff(drawn.rows).max(initial=0) <= 2 * UNITS + 1


def test_times_of_more_than_32_bits() -> None:
    found = build([[(0, 5, 1), (1, 3, 2), (0, 4, 2)] * 40], grain=1 << 32)
    scale = 36
    drawn = found.marks(origin=0, scale=scale, tile=0)
    wanted = [each._replace(begin=0, stop=each.stop - each.begin) for each in expected(found, 0, 0, scale, 0)]
    assert of_row(found, drawn, 0, 0, scale, 0) == wanted
    assert int(drawn.count.max()) > 1


def test_many_spans_of_one_instant() -> None:
    found = build([[(0, 0, 3)] * 1000])
    drawn = found.marks(origin=0, scale=0, tile=0)
    assert drawn.count.tolist() == [1000]
    assert drawn.kind.tolist() == [3]


def test_more_marks_than_there_is_room_for_at_first() -> None:
    found = build([[(1, 1, 0)] * 1000] * 40)
    assert len(found.marks(origin=0, scale=0, tile=0)) == 40 * UNITS // 2


def test_the_ends_of_time() -> None:
    start, end = np.array([-LONGEST_SPAN, 0], np.int64), np.array([0, LONGEST_SPAN], np.int64)
    found = pyramid(start, end, np.zeros(2, np.uint8), np.arange(2, dtype=np.int32), np.array([0, 2]))
    for tile in (0, 1):
        drawn = marks(found, np.array([0]), origin=-LONGEST_SPAN, scale=MAX_SCALE, tile=tile)
        assert (drawn.span.tolist(), drawn.extent.tolist()) == ([tile], [LONGEST_SPAN])


@pytest.mark.parametrize(("scale", "tile"), [(-1, 0), (MAX_SCALE + 1, 0), (MAX_SCALE, 5), (0, 1 << 60)])
def test_tiles_that_cannot_be(scale: int, tile: int) -> None:
    found = build([[(0, 1, 0)]])
    with pytest.raises(ValueError, match="there is no tile"):
        found.marks(origin=0, scale=scale, tile=tile)


def test_rows_and_kinds_that_do_not_exist() -> None:
    found = build([[(0, 1, 0)]])
    with pytest.raises(ValueError, match="there are 1 rows"):
        marks(found.pyramid, np.array([1]), origin=0, scale=0, tile=0)
    with pytest.raises(ValueError, match="a kind is 10"):
        pyramid(found.start, found.end, np.array([KINDS], np.uint8), found.pyramid.order, found.pyramid.rows)
