"""CUDA graphs: those that take the device's time, and the nodes of the chosen one in their order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.errors import UsageError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.blocks import Bar, BarsBlock, Block, ChartBlock, Link, TableBlock
from kinetoscope.pages.pictures.charts import POINTS, Axis, Dot, points
from kinetoscope.pages.sections.tables import first_cycle, with_values
from kinetoscope.views.charts.palette import kind_of
from kinetoscope.views.numbers import grouped, shown
from kinetoscope.views.sentences import say
from kinetoscope.views.text import printable

CHOSEN: Final = "graph"
"""The parameter of a page that holds the template whose nodes are shown."""

_MAX_BARS: Final = 10

_OF_GRAPHS: Final = (
    "template", "captured_as", "graph", "source", "nodes", "replays", "total", "duration_median", "duration_p99",
    "idle", "gap_median", "launch_median", "concurrency", "operator_share",
)  # fmt: skip
_OF_NODES: Final = (
    "node", "name", "operator", "total", "median", "gap_median", "input_shapes", "module", "annotation", "p99",
    "outliers", "stream",
)  # fmt: skip
"""Columns at first: as many as 1440 px hold; the others can be chosen."""


def graph_blocks(job: Job, select: Selection, params: Mapping[str, str]) -> Iterator[Block]:
    """What is replayed, if anything is.

    Raises:
        UsageError: the chosen template is no number.
    """
    result = named("graphs")(job, select=select)
    rows = first_cycle(result.frame).sort("total", "template", descending=[True, False])
    rows = rows.filter(pl.col("rank") == pl.col("rank").first())
    if not rows.height:
        return
    text = params.get(CHOSEN, str(rows["template"][0]))
    if not text.isdecimal():
        raise UsageError(f"{CHOSEN} is {text!r}; it is the number of a template of graphs")
    chosen = int(text)
    total = rows["total"].sum() or 1
    bars = [
        Bar(
            _label(row),
            "computation",
            row["total"],
            row["total"] / total,
            f"{grouped(row['replays'])} replay{'s' * (row['replays'] != 1)}"
            + (f", median {shown(row['duration_median'], 'ns')}" if row["duration_median"] is not None else ""),
            Link(params={CHOSEN: str(row["template"])}),
            chosen=row["template"] == chosen,
        )
        for row in rows.head(_MAX_BARS).iter_rows(named=True)
    ]
    note = f"{result.schema['total'].doc} A click shows the nodes of one."
    note += " The table below has the others." if rows.height > len(bars) else ""
    note += " Of the first rank, and its first cycle." if rows.height < result.frame.height else ""
    yield BarsBlock("CUDA graphs", bars, note=note)
    of_chosen = rows.filter(pl.col("template") == chosen)
    if of_chosen.height:
        called = _label(of_chosen.row(0, named=True))
        nodes = named("graph_nodes")(job, select=select, template=chosen)
        frame = first_cycle(nodes.frame).filter(pl.col("rank") == rows["rank"][0])
        yield _in_order(called, frame)
        yield TableBlock(
            f"Nodes of {called}",
            "graph_nodes",
            {"template": text},
            columns=with_values(nodes.frame, _OF_NODES, always=("node", "name")),
            links={"start": "longest_start"},
        )
    columns = with_values(result.frame, _OF_GRAPHS, always=("template", "nodes"))
    yield TableBlock("All CUDA graphs", "graphs", columns=columns, sort="-total", links={"start": "longest_start"})


def _label(row: Mapping[str, Any]) -> str:
    """`capture_32_FULL · 421 nodes`, as the slices of the timeline are called."""
    number = row["template"] if row["graph"] is None else row["graph"]
    return f"{row['captured_as'] or f'graph {number}'} · {grouped(row['nodes'])} node{'s' * (row['nodes'] != 1)}"


def _in_order(called: str, nodes: pl.DataFrame) -> ChartBlock:
    """A dot for each node: its place in the graph, and how long it takes."""
    rows = nodes.sort("median", descending=True).head(POINTS)
    dots = [
        Dot(row["node"], row["median"], kind_of(row["kind"]) or "computation", _words(row), _longest(row))
        for row in rows.iter_rows(named=True)
    ]
    few = "The nodes that take longest are drawn. " if rows.height < nodes.height else ""
    note = say("{few}A click shows the longest run of a node on the timeline.", few=few)
    over, time = Axis("node", zero=False, whole=True), Axis("median duration", "ns")
    return points(f"{called}, in order", dots, over, time, height=200, note=note)


def _longest(node: Mapping[str, Any]) -> Link:
    """The longest run of a node on the timeline, with as much time before and after it."""
    start, length = node["longest_start"], max(node["max"], 1)
    return Link(view="timeline", rank=node["rank"], time=(max(start - length, 0), start + 2 * length))


def _words(row: Mapping[str, Any]) -> str:
    operator = f" of {printable(row['operator'])}" if row["operator"] else ""
    module = f" in {printable(row['module'])}" if row["module"] else ""
    return f"{printable(row['name'])}{operator}{module}"
