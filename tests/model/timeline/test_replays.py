"""Replays on the timeline: a slice for each, captured calls above their work, nothing else where it was not before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.layout.pyramid import marks
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.timeline.cut import rows_between
from kinetoscope.model.timeline.event import event_details
from kinetoscope.model.timeline.layout import WORK, timeline
from kinetoscope.model.timeline.replays import DrawnPlace, place_of, replay_rows
from kinetoscope.model.timeline.search import hits, same_name_hits, search
from kinetoscope.model.trace.trace import Trace
from tests import drawn
from tests.drawn import Event, kernel, launch, op
from tests.model.graphs.drawn_graphs import Node, replay
from tests.model.graphs.test_attach import captured, joined

Row = list[tuple[str, int, int]]


def lane_rows(trace: Trace, lane: str) -> list[Row]:
    """Name, start and end of what is drawn in each row of replays in a lane, in ns after the origin."""
    found, layout = replay_rows(trace), timeline(trace)
    assert found is not None
    first, count = found.of_lane[lane]
    names = dict(enumerate(found.titles, len(trace.strings)))
    rows = []
    for row in range(first, first + count):
        part = marks(found.pyramid, np.array([row]), origin=layout.origin, scale=0, tile=0)
        items = part.span.tolist()
        called = [names.get(code) or trace.strings.label(code) for code in found.name[items].tolist()]
        rows.append(list(zip(called, part.start.astype(int).tolist(), part.end.astype(int).tolist(), strict=True)))
    return rows


def of_stream(trace: Trace) -> str:
    return next(lane.id for lane in timeline(trace).lanes if lane.layer == WORK)


NODES = [Node("gemm", 1, 30), Node("add", 2, 20, gap=10)]


def test_a_replay_is_one_slice_and_eager_work_stands_beside_it(tmp_path: Path) -> None:
    eager = [launch(300, 10, 1), kernel("eager", 320, 40, 1)]
    trace = drawn.job(tmp_path, *replay(NODES, 0, 0), *eager, *replay(NODES, 400, 1)).trace()
    folded, slices = lane_rows(trace, of_stream(trace))
    assert folded == [("graph 1 · 2 nodes", 100, 160), ("eager", 320, 360), ("graph 1 · 2 nodes", 500, 560)]
    assert slices == [folded[0], folded[2]]


def test_a_slice_selects_the_launch(tmp_path: Path) -> None:
    trace = drawn.job(tmp_path, *replay(NODES, 0, 0)).trace()
    found = replay_rows(trace)
    assert found is not None
    assert set(found.event.tolist()) == set(device_work(trace).launch.tolist())


def test_each_stream_has_the_part_of_the_replay_that_ran_there(tmp_path: Path) -> None:
    nodes = [Node("a", 1, 30), Node("b", 2, 20, stream=9), Node("c", 3, 20)]
    trace = drawn.job(tmp_path, *replay(nodes, 0, 0)).trace()
    found = replay_rows(trace)
    assert found is not None
    slices = [lane_rows(trace, lane)[0] for lane in found.of_lane]
    assert slices == [[("graph 1 · 3 nodes", 100, 170)], [("graph 1 · 3 nodes", 130, 150)]]


def test_captured_calls_are_drawn_where_their_work_is(tmp_path: Path) -> None:
    trace = joined(tmp_path, 2, captured()).trace()
    _, slices, modules, operators = lane_rows_at(trace)
    assert [len(row) for row in (slices, modules, operators)] == [2, 2, 4]
    first = int(device_work(trace).start[0])
    assert modules[0] == ("nn.Module: Net_0", first, first + 1200)
    assert [name for name, *_ in operators] == ["aten::mm", "aten::add"] * 2
    assert operators[1] == ("aten::add", first + 1000, first + 1200)


def lane_rows_at(trace: Trace) -> list[Row]:
    """Name, start and end of the captured calls in all rows of replays, as the file counts time; slices have none."""
    found = replay_rows(trace)
    assert found is not None
    names = dict(enumerate(found.titles, len(trace.strings)))
    rows = []
    for row in range(len(found.pyramid.rows) - 1):
        items = found.pyramid.order[found.pyramid.rows[row] : found.pyramid.rows[row + 1]].tolist()
        parts = []
        for item in items:
            code, event = int(found.name[item]), int(found.event[item])
            place = place_of(trace, event) if event >= trace.recorded else DrawnPlace(None, 0, 0, 0)
            parts.append((names.get(code) or trace.strings.label(code), place.start, place.end))
        rows.append(parts)
    return rows


def test_all_that_is_known_of_a_captured_call(tmp_path: Path) -> None:
    trace = joined(tmp_path, 3, captured()).trace()
    lane = of_stream(trace)
    found = hits(trace, "aten::mm")
    assert len(found.rows) == 3
    facts = event_details(trace, int(found.rows[1]))
    assert (facts.name, facts.lane, facts.duration, facts.self_time) == ("aten::mm", lane, 100, None)
    assert (facts.module, facts.device_total, facts.device_kernels) == ("Net_0", 100, 1)
    assert (facts.same.calls, facts.same.total, facts.same.on_device) == (3, 300, True)
    assert facts.arguments["Input Dims"] == [[8, 4], [4, 2]]
    assert same_name_hits(trace, int(found.rows[1])).rows.tolist() == found.rows.tolist()
    work = event_details(trace, facts.launched[0])
    assert (work.parent, work.module) == (facts.row, "Net_0")
    assert work.launched_by is not None
    launch = event_details(trace, work.launched_by)
    assert [arrow.end.row for arrow in launch.arrows] == [facts.launched[0]], "an arrow to the first node is enough"
    assert facts.replay == work.replay == launch.replay == ("capture_8_FULL · 2 nodes", 0)
    assert work.launched_by < trace.recorded


def test_a_file_for_other_viewers_has_no_captured_calls(tmp_path: Path) -> None:
    trace = joined(tmp_path, 2, captured()).trace()
    assert rows_between(trace, 0, timeline(trace).end).tolist() == list(range(trace.recorded))


def test_a_search_goes_to_captured_calls(tmp_path: Path) -> None:
    trace = joined(tmp_path, 2, captured()).trace()
    found = search(trace, hits(trace, "aten::add"), None, "next", None, None)
    assert (found.total, found.lane, found.depth) == (2, of_stream(trace), 4)
    assert found.end is not None
    assert found.start is not None
    assert found.end - found.start == 200


@pytest.mark.parametrize("events", [[op("aten::mm", 0, 10)], [launch(0, 5, 1), kernel("k", 10, 5, 1)]])
def test_without_graphs_nothing_is_drawn_besides(tmp_path: Path, events: list[Event]) -> None:
    trace = drawn.job(tmp_path, *events).trace()
    assert replay_rows(trace) is None
    assert event_details(trace, 0).replay is None
    assert place_of(trace, 0).depth == timeline(trace).depth[0]


@given(
    lengths=st.lists(st.integers(1, 50), min_size=1, max_size=6),
    streams=st.lists(st.sampled_from([7, 8]), min_size=6, max_size=6),
    count=st.integers(1, 4),
)
def test_slices_cover_the_work_of_their_stream(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], streams: list[int], count: int
) -> None:
    nodes = [
        Node(f"k{at}", at + 1, length, stream=stream)
        for at, (length, stream) in enumerate(zip(lengths, streams, strict=False))
    ]
    events = [event for number in range(count) for event in replay(nodes, 1000 * number, number)]
    trace = drawn.job(tmp_path_factory.mktemp("run"), *events).trace()
    found, work = replay_rows(trace), device_work(trace)
    assert found is not None
    for lane in timeline(trace).lanes:
        if lane.id not in found.of_lane:
            continue
        here = trace.track[work.rows] == lane.track
        launches = np.unique(work.launch[here])
        expected = [
            (int(work.start[here & (work.launch == each)].min()), int(work.end[here & (work.launch == each)].max()))
            for each in launches
        ]
        first = found.of_lane[lane.id][0]
        spans = found.pyramid.spans
        bounds = found.pyramid.rows[first : first + 2]
        drawn_spans = [
            (int(spans.at[place]), int(spans.at[place] + spans.own[place])) for place in range(bounds[0], bounds[1])
        ]
        assert drawn_spans == sorted(expected)
