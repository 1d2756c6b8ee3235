"""CUDA graphs among the kernels: those that take the time, and the nodes of the chosen one in their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope.errors import UsageError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL
from kinetoscope.pages import named
from kinetoscope.pages.blocks import BarsBlock, ChartBlock, Page, TableBlock
from tests import drawn
from tests.model.graphs.drawn_graphs import Node, replay

SMALL, LARGE = [Node("add", 1, 5)], [Node("gemm", 1, 30), Node("add", 2, 20)]


def kernels(of: Job, **params: str) -> Page:
    return named("kernels").page(of, ALL, params)


def job(folder: Path) -> Job:
    events = [*replay(SMALL, 0, 0), *replay(LARGE, 300, 1, graph=2), *replay(LARGE, 600, 2, graph=2)]
    return drawn.job(folder, *events)


def block(of: Page, kind: type, title: str) -> Any:
    return next(each for each in of.blocks if isinstance(each, kind) and title in getattr(each, "title", ""))


def test_graphs_are_ranked_by_their_device_time(tmp_path: Path) -> None:
    bars = block(kernels(job(tmp_path)), BarsBlock, "CUDA graphs").bars
    assert [(bar.label, bar.value, bar.chosen) for bar in bars] == [
        ("graph 2 · 2 nodes", 100, True), ("graph 1 · 1 node", 5, False),
    ]  # fmt: skip
    assert bars[0].detail.replace("\u00a0", " ") == "2 replays, median 50 ns"
    assert bars[1].link.params == {"graph": "0"}


def test_the_nodes_of_the_chosen_graph_are_in_their_order(tmp_path: Path) -> None:
    of = kernels(job(tmp_path), graph="1")
    dots = block(of, ChartBlock, "graph 2 · 2 nodes, in order").spec["data"]["values"]
    assert sorted((dot["x"], dot["y"], dot["name"]) for dot in dots) == [(0, 30, "gemm"), (1, 20, "add")]
    assert block(of, TableBlock, "Nodes of graph 2").params == {"template": "1"}
    assert block(kernels(job(tmp_path), graph="0"), TableBlock, "Nodes of graph 1")
    with pytest.raises(UsageError, match="graph is 'x'"):
        kernels(job(tmp_path), graph="x")


def test_a_program_without_graphs_has_none(tmp_path: Path) -> None:
    of = kernels(drawn.job(tmp_path, drawn.launch(0, 5, 1), drawn.kernel("k", 10, 5, 1)))
    assert not [each for each in of.blocks if "graph" in getattr(each, "title", "").lower()]
