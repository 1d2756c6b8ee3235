"""Graphs and their nodes: times of replays, statistics of nodes, what is known of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope import Selection, graph_nodes, graphs, read
from kinetoscope.errors import UsageError
from tests import drawn
from tests.conftest import ROOT
from tests.model.graphs.drawn_graphs import INLINE, Node, inline, post_processed, replay
from tests.notes import codes

SAMPLE = ROOT.parent / "shared" / "samples" / "serving" / "vllm_decode_full" / "graph_execution.json.gz"
NODES = (
    Node("gemm", 1, 100, annotation={"module_fqn": "layers.0", "name": "attention"}),
    Node(
        "nccl_all_reduce", 2, 50, gap=20, stream=8, annotation={"module_fqn": "layers.0", "autograd_phase": "backward"}
    ),
    Node("norm", 3, 30, gap=-30),
)
SMALL = (Node("copy", 1, 40),)


def table(folder: Path, *events: drawn.Event, asked: Any = graphs, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = asked(drawn.job(folder, *events, **INLINE), **options).frame.to_dicts()
    return rows


def decode(count: int) -> list[drawn.Event]:
    """Replays of the large graph every 1000 ns, the last one of them in part, and one of the small graph between."""
    events = [event for n in range(count) for event in replay(NODES, 1000 * n, n, written=inline)]
    events += replay(NODES[:1], 1000 * count, count, written=inline)
    return [*events, *replay(SMALL, 500, 90, graph=2)]


def test_the_times_of_graphs(tmp_path: Path) -> None:
    large, small = table(tmp_path, *decode(3))
    assert [large[name] for name in ("template", "graph", "nodes", "replays", "partial")] == [0, 1, 3, 4, 1]
    assert [small[name] for name in ("template", "graph", "nodes", "replays", "partial")] == [1, 2, 1, 1, 0]
    # From 100 to 200 runs the first node, from 220 to 270 the second, from 240 to 270 the third.
    assert [large[name] for name in ("total", "duration", "busy", "idle")] == [640, 610, 550, 60]
    assert (large["duration_median"], large["duration_max"], large["longest_start"]) == (170, 170, 100)
    assert (large["concurrency"], large["streams"]) == (640 / 550, 2)
    assert (large["launch"], large["launch_median"]) == (80, 20)
    # From 640, where the small graph ends, to 1100; then from 1270 to 2100 and from 2270 to 3100.
    assert (large["gap"], large["gap_idle"], large["gap_median"]) == (460 + 830 + 830, 460 + 830 + 830, 830)
    assert small["gap"] == 600 - 270
    assert large["share"] + small["share"] == 1


def test_what_is_known_of_graphs(tmp_path: Path) -> None:
    large, small = table(tmp_path, *decode(3))
    assert (large["source"], large["captured_as"]) == ("annotations", None)
    assert (large["module_share"], large["operator_share"], large["shape_share"]) == (550 / 640, 0, 0)
    assert (small["source"], small["module_share"]) == ("launch", 0)


def test_operators_around_the_launch_are_not_those_of_the_nodes(tmp_path: Path) -> None:
    events = [drawn.python("nn.Module: Net_0", 0, 5000), drawn.op("step", 1, 4000), *replay(SMALL, 10, 0)]
    (row,) = table(tmp_path, *events)
    assert (row["operator_share"], row["module_share"]) == (0, 0)
    (node,) = table(tmp_path, *events, asked=graph_nodes)
    assert (node["operator"], node["module"]) == (None, None)


def test_a_replay_whose_launch_was_not_recorded(tmp_path: Path) -> None:
    (row,) = table(tmp_path, *replay(SMALL, 0, 0)[1:])
    assert (row["replays"], row["launch_median"], row["launch"]) == (1, None, 0)


def test_selections(tmp_path: Path) -> None:
    steps = [drawn.annotation(f"ProfilerStep#{n}", 1000 * n, 999) for n in range(4)]
    events = [*steps, *decode(3)]
    large, small = table(tmp_path, *events, select=Selection(steps=(0,)))
    assert (large["replays"], small["replays"]) == (1, 1)
    (large,) = table(tmp_path, *events, select=Selection(time=(1000, 1150)))
    assert (large["replays"], large["total"], large["share"]) == (1, 180, None)
    nodes = table(tmp_path, *events, asked=graph_nodes, select=Selection(streams=(8,)))
    assert [(row["node"], row["stream"]) for row in nodes] == [(1, 8)]
    none = graphs(drawn.job(tmp_path, *events), select=Selection(steps=(3,)))
    assert [row["partial"] for row in none.frame.to_dicts()] == [1]


def test_notes(tmp_path: Path) -> None:
    assert graphs(drawn.job(tmp_path, *decode(3), **INLINE)).notes == (
        "1 replay of 5 lack some work: medians leave them out.",
    )
    lost = graphs(drawn.job(tmp_path, *replay(NODES, 0, 0, written=post_processed))).notes
    assert lost == (
        "torch 2.12 or 2.13 moved work of graphs to lanes: streams are those lanes, not those that work ran on.",
    )
    eager = drawn.job(tmp_path, drawn.launch(0, 5, 1), drawn.kernel("k", 10, 5, 1))
    assert codes(graphs(eager).notes) == codes(graph_nodes(eager).notes) == ["NO_REPLAYS"]
    assert "No device work" in graphs(drawn.job(tmp_path, drawn.op("aten::mm", 0, 10))).notes[0]


def test_the_runs_of_nodes(tmp_path: Path) -> None:
    large = table(tmp_path, *decode(3), asked=graph_nodes, template=0)
    columns = ("node", "node_id", "name", "kind", "stream", "replays", "total", "median", "gap", "share")
    assert [tuple(row[name] for name in columns) for row in large] == [
        (0, 1, "gemm", "computation", 7, 4, 400, 100, 0, 400 / 640),
        (1, 2, "nccl_all_reduce", "communication", 8, 3, 150, 50, 60, 150 / 640),
        (2, 3, "norm", "computation", 7, 3, 90, 30, 0, 90 / 640),
    ]
    assert [tuple(row[name] for name in ("module", "annotation", "phase")) for row in large] == [
        ("layers/0", "attention", "forward"),
        ("layers/0", None, "backward"),
        (None, None, None),
    ]
    assert [row["name"] for row in table(tmp_path, *decode(3), asked=graph_nodes)] == [*(n.name for n in NODES), "copy"]
    with pytest.raises(UsageError, match="no template 2; there are 0-1"):
        table(tmp_path, *decode(3), asked=graph_nodes, template=2)


def test_outliers(tmp_path: Path) -> None:
    events: list[drawn.Event] = []
    for number in range(12):
        slow = Node("gemm", 1, 900 if number == 7 else 100)
        events += replay((slow, Node("norm", 2, 30)), 10_000 * number, number)
    first, second = table(tmp_path, *events, asked=graph_nodes)
    assert (first["outliers"], first["outlier_time"], first["longest_start"]) == (1, 800, 70_100)
    assert (second["outliers"], second["outlier_time"]) == (0, 0)
    few = table(tmp_path, *events[:18], asked=graph_nodes)
    assert [row["outliers"] for row in few] == [None, None]


def test_notes_count_the_nodes_of_which_only_the_launch_is_known(tmp_path: Path) -> None:
    (note,) = graph_nodes(drawn.job(tmp_path, *replay(NODES, 0, 0, written=inline), **INLINE)).notes
    assert note.startswith("Of 1 of 3 nodes (16.7% of their time) only the launch is known")


@pytest.mark.slow
def test_a_real_decode_step() -> None:
    """vLLM on MI300X: each of the 421 nodes has operator, shapes and module of its capture."""
    if not SAMPLE.exists():
        pytest.skip(f"{SAMPLE} is not there")
    job = read(SAMPLE, jobs=1)
    (graph,) = graphs(job).frame.to_dicts()
    assert (graph["captured_as"], graph["source"], graph["nodes"]) == ("capture_32_FULL", "capture", 421)
    assert [graph[name] for name in ("operator_share", "shape_share", "module_share")] == [1, 1, 1]
    nodes = graph_nodes(job).frame
    assert nodes["total"].sum() == graph["total"]
    assert nodes["gap"].sum() == graph["idle"]
    assert nodes["operator"].null_count() == nodes["module"].null_count() == 0


@pytest.mark.slow
def test_real_graphs_without_a_capture(shared_traces: Path) -> None:
    """Two graphs of a training step, replayed in each of six steps."""
    job = read(shared_traces / "trace_diff" / "test", jobs=1)
    found = graphs(job).frame.select("nodes", "replays", "partial", "source")
    assert found.rows() == [(502, 6, 0, "launch"), (339, 6, 0, "launch")]
    nodes = graph_nodes(job).frame
    assert nodes["replays"].to_list() == [6] * 841
    assert nodes["gap"].sum() == graphs(job).frame["idle"].sum()
