"""Nodes that replays of a graph have in common: in any order, of several graphs, in part at the ends of a recording."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.graphs.replays import replays
from kinetoscope.model.graphs.templates import idle_before, outliers, replay_times, templates
from kinetoscope.model.trace.trace import Trace
from tests import drawn
from tests.conftest import few_examples
from tests.model.graphs.drawn_graphs import Node, replay

NODES = tuple(Node(name, 2 * place + 1) for place, name in enumerate(("gemm", "norm", "gemm", "copy")))


def runs(trace: Trace) -> list[list[tuple[int, str]]]:
    """Node in its template and name of the kernel, for each piece of each replay."""
    every, found, work = replays(trace), templates(trace), device_work(trace)
    node = found.node - np.repeat(found.offsets[found.of_replay], every.sizes)
    names = trace.strings.labels(trace.name[work.rows[every.work]].tolist())
    pairs = list(zip(node.tolist(), names, strict=True))
    return [pairs[a:b] for a, b in zip(every.offsets[:-1].tolist(), every.offsets[1:].tolist(), strict=True)]


def test_replays_of_a_graph_have_one_template(tmp_path: Path) -> None:
    other = (Node("gemm", 1), Node("norm", 3))
    events = [*replay(NODES, 0, 0), *replay(other, 1000, 1, graph=2), *replay(NODES, 2000, 2)]
    trace = drawn.job(tmp_path, *events).trace()
    found = templates(trace)
    assert (found.graph.tolist(), found.nodes.tolist()) == ([1, 2], [4, 2])
    assert found.of_replay.tolist() == [0, 1, 0]
    assert found.is_whole.all()
    assert found.model.tolist() == [0, 1]


def test_equal_graphs_with_different_ids_are_different_graphs(tmp_path: Path) -> None:
    events = [*replay(NODES, 0, 0, graph=5), *replay(NODES, 1000, 1, graph=6)]
    assert templates(drawn.job(tmp_path, *events).trace()).graph.tolist() == [5, 6]


def test_nodes_come_in_order_of_their_ids_whenever_they_run(tmp_path: Path) -> None:
    events = [*replay(NODES, 0, 0), *replay((NODES[2], NODES[0], NODES[3], NODES[1]), 1000, 1)]
    names = list(enumerate(node.name for node in NODES))
    assert runs(drawn.job(tmp_path, *events).trace()) == [names, names]


@pytest.mark.parametrize("part", [(0,), (0, 2), (2, 3), (1, 3), (1,)])
@pytest.mark.parametrize("when", [0, 1, 2])
def test_with_ids_a_part_of_a_replay_is_told_by_them(tmp_path: Path, part: tuple[int, ...], when: int) -> None:
    """Also in the middle of a recording: CUPTI drops records where its buffers are full."""
    events: list[drawn.Event] = []
    for number in range(3):
        nodes = tuple(NODES[place] for place in part) if number == when else NODES
        events += replay(nodes, 1000 * number, number)
    trace = drawn.job(tmp_path, *events).trace()
    assert len(templates(trace)) == 1
    assert templates(trace).is_whole.tolist() == [number != when for number in range(3)]
    assert [node for node, _ in runs(trace)[when]] == list(part)


def test_without_ids_the_ends_of_the_recording_are_told_by_order(tmp_path: Path) -> None:
    parts = (NODES[2:], NODES, NODES, NODES[:1])
    events = [event for n, nodes in enumerate(parts) for event in replay(nodes, 1000 * n, n, graph=None)]
    trace = drawn.job(tmp_path, *events).trace()
    assert templates(trace).graph.tolist() == [-1]
    assert templates(trace).is_whole.tolist() == [False, True, True, False]
    assert [[node for node, _ in each] for each in runs(trace)] == [[2, 3], [0, 1, 2, 3], [0, 1, 2, 3], [0]]


def test_without_ids_a_part_of_two_graphs_is_of_neither(tmp_path: Path) -> None:
    longer = (*NODES, Node("more", 9))
    parts = (NODES, longer, NODES[:2])
    events = [event for n, nodes in enumerate(parts) for event in replay(nodes, 1000 * n, n, graph=None)]
    assert len(templates(drawn.job(tmp_path, *events).trace())) == 3


def test_a_graph_that_was_updated_has_two_templates(tmp_path: Path) -> None:
    """`cudaGraphExecUpdate` may put other kernels into the same nodes."""
    updated = (*NODES[:3], Node("other", 7))
    trace = drawn.job(tmp_path, *replay(NODES, 0, 0), *replay(updated, 1000, 1)).trace()
    assert len(templates(trace)) == 2
    assert templates(trace).is_whole.all()


def test_times_of_replays(tmp_path: Path) -> None:
    nodes = (Node("a", 1, 10), Node("b", 2, 20, gap=5), Node("c", 3, 30, gap=-10, stream=8))
    eager = [drawn.launch(1040, 5, 1), drawn.kernel("eager", 1060, 20, 1)]
    trace = drawn.job(tmp_path, *replay(nodes, 0, 0), *eager, *replay(nodes, 1000, 1)).trace()
    times = replay_times(trace)
    assert (times.duration.tolist(), times.total.tolist(), times.busy.tolist()) == ([55, 55], [60, 60], [50, 50])
    assert (times.gap.tolist(), times.gap_idle.tolist()) == ([-1, 1100 - 155], [-1, 1100 - 155 - 20])
    assert idle_before(trace).tolist() == [0, 5, 0, 0, 5, 0]


def test_a_trace_without_graphs(tmp_path: Path) -> None:
    trace = drawn.job(tmp_path, drawn.launch(0, 5, 1), drawn.kernel("k", 10, 5, 1)).trace()
    assert len(templates(trace)) == len(replay_times(trace).busy) == len(idle_before(trace)) == 0


def test_outliers_are_far_beyond_the_others() -> None:
    node = np.repeat(np.arange(3, dtype=np.int32), [20, 20, 7])
    duration = np.concatenate([[100 + n for n in range(19)], [1000], [100] * 19, [140], [100] * 6, [9999]])
    found = outliers(node, 3, duration.astype(np.int64))
    assert np.flatnonzero(found.is_outlier).tolist() == [19]
    assert found.excess[19] == 1000 - 109
    assert found.excess.sum() == found.excess[19]


# --- against a plain program

graphs = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 40), st.integers(-20, 20)), min_size=1, max_size=6),
    min_size=1,
    max_size=3,
)


@few_examples
@given(graphs=graphs, data=st.data())
def test_any_order_of_nodes_of_several_graphs(
    tmp_path_factory: pytest.TempPathFactory, graphs: list[list[tuple[str, int, int]]], data: st.DataObject
) -> None:
    """Each node of each graph gets just its own runs, whatever the order in which nodes run and records are lost."""
    played = data.draw(st.lists(st.integers(0, len(graphs) - 1), min_size=1, max_size=6))
    whole = {graph: played.index(graph) for graph in played}
    events, expected = list[drawn.Event](), defaultdict[tuple[int, int], list[int]](list)
    spans: list[Any] = []
    for number, graph in enumerate(played):
        order = data.draw(st.permutations(range(len(graphs[graph]))))
        if whole[graph] != number:
            order = order[: data.draw(st.integers(1, len(order)))]
        nodes = [Node(name, place + 1, took, gap=gap) for place in order for name, took, gap in [graphs[graph][place]]]
        drawn_events = replay(nodes, 10_000 * number, number, graph=graph + 1)
        events += drawn_events
        spans.append([(round(1000 * e["ts"]), round(1000 * (e["ts"] + e["dur"]))) for e in drawn_events[1:]])
        for node in nodes:
            expected[graph + 1, node.node].append(node.duration)
    trace = drawn.job(tmp_path_factory.mktemp("drawn"), *events).trace()
    every, found, work = replays(trace), templates(trace), device_work(trace)
    assert sorted(found.graph.tolist()) == sorted({graph + 1 for graph in played})
    got = defaultdict[tuple[int, int], list[int]](list)
    for piece, place in enumerate(every.work.tolist()):
        template = int(found.of_replay[every.replay[piece]])
        ordinal = int(found.node[piece] - found.offsets[template])
        got[int(found.graph[template]), ordinal + 1].append(int(work.duration[place]))
    assert got == expected
    times, idle = replay_times(trace), idle_before(trace)
    for number, of_replay in enumerate(spans):
        instants = {time for start, end in of_replay for time in range(start, end)}
        assert times.busy[number] == len(instants)
        assert times.duration[number] == max(end for _, end in of_replay) - min(start for start, _ in of_replay)
        pieces = slice(int(every.offsets[number]), int(every.offsets[number + 1]))
        assert times.duration[number] - idle[pieces].sum() == len(instants)
