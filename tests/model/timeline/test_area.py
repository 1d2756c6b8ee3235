"""Tables of an area of the timeline against a plain twin."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.calls import call_name, call_names
from kinetoscope.model.timeline.area import GROUPINGS, LanesOfRank, area_table, occurrence
from kinetoscope.model.timeline.categories import MARK_KINDS, mark_kinds
from kinetoscope.model.timeline.layout import lane_of, timeline, times
from kinetoscope.model.trace.trace import Trace
from tests.drawn import Event, annotation, job, kernel, launch, op, python

LONG = 6_000_000_000
"""ns, more than 32 bits hold."""

calls = st.tuples(
    st.sampled_from("abcd"), st.integers(0, 60), st.integers(0, 40), st.integers(1, 3), st.sampled_from((op, python))
)
kernels = st.tuples(st.sampled_from("kl"), st.integers(0, 60), st.integers(0, 30), st.integers(7, 8))


def drawn(events: list[Event]) -> Trace:
    with tempfile.TemporaryDirectory() as folder:
        return job(Path(folder), op("first", 0, 1), *events).trace()


def touches(start: int, end: int, begin: int, stop: int) -> bool:
    return start < stop and (end > begin or start >= begin)


def plain(trace: Trace, lanes: set[str], begin: int, stop: int) -> dict[tuple[str, str], dict[str, Any]]:
    """By name and kind: of each event that touches the area the part inside, event by event."""
    starts, ends = times(trace)
    origin, member, (own, total) = timeline(trace).origin, call_tree(trace).member, plain_sums(trace, begin, stop)

    def inside(row: int) -> int:
        start, end = int(starts[row]) - origin, max(int(ends[row]), int(starts[row])) - origin
        return max(min(end, stop) - max(start, begin), 0)

    found: dict[tuple[str, str], dict[str, Any]] = defaultdict(lambda: {"times": [], "total": 0, "cut": 0, "self": 0})
    for row in range(len(trace)):
        lane = lane_of(trace, row)
        start, end = int(starts[row]) - origin, max(int(ends[row]), int(starts[row])) - origin
        if lane is None or lane.id not in lanes or not touches(start, end, begin, stop):
            continue
        name = call_name(trace.strings.label(int(call_names(trace)[row])), int(trace.kind[row]))
        here = found[name, MARK_KINDS[mark_kinds(trace)[row]]]
        here["times"].append(inside(row))
        here["total"] += total[row] if member[row] else inside(row)
        here["cut"] += start < begin or end > stop
        if member[row]:
            here["self"] += own[row]
        else:
            here["self"] = None
    return found


def plain_sums(trace: Trace, begin: int, stop: int) -> tuple[dict[int, int], dict[int, int]]:
    """The time of an area in which each call is the one, of those that run on its thread, that began last.

    And that in which it is the one of its name and kind that began first.
    """
    origin, own, total = timeline(trace).origin, defaultdict[int, int](int), defaultdict[int, int](int)
    members = np.flatnonzero(call_tree(trace).member).tolist()
    spans = {row: (int(trace.start[row]) - origin, int(trace.end[row]) - origin) for row in members}
    names = {row: (call_names(trace)[row], mark_kinds(trace)[row], trace.track[row]) for row in members}
    edges = sorted({begin, stop, *(min(max(each, begin), stop) for span in spans.values() for each in span)})
    for low, high in pairwise(edges):
        running = sorted((start, -end, row) for row, (start, end) in spans.items() if start <= low and high <= end)
        for row in {trace.track[row]: row for _, _, row in running}.values():
            own[row] += high - low
        for row in {names[row]: row for _, _, row in reversed(running)}.values():
            total[row] += high - low
    return own, total


@given(st.lists(calls, max_size=40), st.lists(kernels, max_size=20), st.data())
def test_the_numbers_are_those_of_a_plain_twin(made: list[Any], work: list[Any], data: st.DataObject) -> None:
    grain = data.draw(st.sampled_from((1, 1000, LONG // 20)))
    events = [kind(name, start * grain, length * grain, tid=thread) for name, start, length, thread, kind in made]
    for number, (name, start, length, stream) in enumerate(work):
        events += [
            launch(start * grain, 1, number + 1, tid=4),
            kernel(name, start * grain, length * grain, number + 1, stream=stream),
        ]
    trace = drawn(events)
    layout = timeline(trace)
    begin, stop = sorted(data.draw(st.integers(0, layout.end + 1)) for _ in range(2))
    chosen = [lane for lane in layout.lanes if data.draw(st.booleans())]
    table = area_table([LanesOfRank(trace, chosen, begin, stop)], "name").frame
    expected = plain(trace, {lane.id for lane in chosen}, begin, stop)
    rows = {(row["name"], row["kind"]): row for row in table.iter_rows(named=True)}
    assert set(rows) == set(expected)
    for key, twin in expected.items():
        row, spans = rows[key], twin["times"]
        assert (row["count"], row["cut"], row["total"]) == (len(spans), twin["cut"], twin["total"])
        assert (row["min"], row["max"], row["self"]) == (min(spans), max(spans), twin["self"])
        assert row["mean"] == twin["total"] / len(spans)
        assert call_name(trace.strings.label(int(call_names(trace)[row["longest"]])), 0) in key[0]
    for by in GROUPINGS:
        other = area_table([LanesOfRank(trace, chosen, begin, stop)], by).frame
        assert (other["count"].sum(), other["self"].sum()) == (table["count"].sum(), table["self"].sum())
        lanes = 1 if by in ("name_and_lane", "lane") else len(chosen)
        assert (other.filter(pl.col("self").is_not_null())["total"] <= lanes * (stop - begin)).all()
        assert (other["self"].drop_nulls() >= 0).all()


def loop(tmp_path: Path) -> Trace:
    steps = [annotation(f"ProfilerStep#{step}", step * 1_000, 900) for step in range(3)]
    ops = [op("aten::mm", step * 1_000 + 100, 100 + 50 * step) for step in range(3)]
    return job(tmp_path, *steps, *ops).trace()


def test_a_call_that_reaches_beyond_the_area_counts_with_the_part_inside(tmp_path: Path) -> None:
    trace = loop(tmp_path)
    result = area_table([LanesOfRank(trace, timeline(trace).lanes, 150, 1_200)], "name")
    rows = {row["name"]: row for row in result.frame.iter_rows(named=True)}
    assert (rows["ProfilerStep*"]["total"], rows["ProfilerStep*"]["self"]) == (750 + 200, 750 - 50 + 200 - 100)
    assert (rows["aten::mm"]["count"], rows["aten::mm"]["total"], rows["aten::mm"]["cut"]) == (2, 50 + 100, 2)
    assert result.notes == ("4 of 4 events reach beyond the area: the part inside counts.",)


def test_lanes_and_kinds(tmp_path: Path) -> None:
    trace = job(tmp_path, op("a", 0, 100), op("a", 0, 300, tid=2), launch(10, 10, 1), kernel("k", 50, 100, 1)).trace()
    part = LanesOfRank(trace, timeline(trace).lanes, 0, 400)
    by_lane = area_table([part], "lane").frame.select("lane", "count", "total", "self").rows()
    assert by_lane == [("main thread", 1, 300, 300), ("stream 7", 1, 100, None), ("thread 1", 2, 100, 100)]
    by_kind = area_table([part], "kind").frame.select("kind", "count", "total", "share").rows()
    assert by_kind == [("host", 2, 390, 0.975), ("computation", 1, 100, 0.25), ("runtime", 1, 10, 0.025)]
    both = area_table([part], "name_and_lane").frame.select("name", "lane", "longest").rows()
    assert both[:3] == [("a", "main thread", 1), ("k", "stream 7", 3), ("a", "thread 1", 0)]
    assert both[3:] == [("cudaLaunchKernel", "thread 1", 2)]


def test_nothing_in_an_area(tmp_path: Path) -> None:
    trace = loop(tmp_path)
    result = area_table([LanesOfRank(trace, timeline(trace).lanes, 920, 940)], "name")
    assert (len(result), result.notes) == (0, ("Nothing was recorded in this area.",))


@pytest.mark.parametrize(("which", "place"), [("next", 2), ("previous", 0), ("longest", 2)])
def test_occurrences(tmp_path: Path, which: str, place: int) -> None:
    trace = loop(tmp_path)
    part = LanesOfRank(trace, timeline(trace).lanes, 0, 3_000)
    found = occurrence(part, 4, which)
    assert found is not None
    assert (found.row, found.place, found.total) == (3 + place, place, 3)
    assert occurrence(part, 5, "next") == occurrence(part, 4, "previous"), "after the last comes the first"
    assert occurrence(part._replace(begin=2_000), 3, "next") == (5, 0, 1), "those outside the area do not count"
