"""The nodes of CUDA graphs: what each was captured for, and how long it takes from replay to replay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int32s
from kinetoscope.algorithms.grouping import reduce_by, sum_by
from kinetoscope.analyses.graphs import captured_calls, greatest_of_each, selected_replays
from kinetoscope.charts import Bars
from kinetoscope.errors import UsageError
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.execution.calls import names_of_calls
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.graphs.annotated import RANGE_CATEGORY, work_annotations
from kinetoscope.model.graphs.templates import MIN_RUNS, Outliers, idle_before, outliers
from kinetoscope.model.operators.categories import labels, work_categories
from kinetoscope.model.operators.modules import modules
from kinetoscope.model.steps.scope import origin_of_time, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.model.trace.text import listed
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("template", pl.Int64, "Number of the graph's template, as in `graphs`."),
    Column("node", pl.Int64, "Place of the node in the template, from 0 on."),
    Column("name", pl.String, "Name of the kernel, copy or set."),
    Column("category", pl.String, "GEMM, attention, … (see `categories`)."),
    Column("operator", pl.String, "Operator that it was captured in; null if unknown."),
    Column("input_shapes", pl.String, "Shapes of the operator's inputs; null where they were not recorded."),
    Column("module", pl.String, "Path of the module that it was captured in; null if unknown."),
    Column("annotation", pl.String, "Name that the program gave it by `mark_kernels`; null without."),
    Column("replays", pl.Int64, "How often it ran."),
    Column("total", pl.Int64, "Sum of its durations.", "ns"),
    Column("share", pl.Float64, "Total / that of all nodes of the template.", "fraction"),
    Column("median", pl.Int64, "Median duration of its runs.", "ns"),
    Column("p99", pl.Int64, "The least duration that 99 % of its runs do not exceed.", "ns"),
    Column("gap_median", pl.Int64, "Median time before it in which no node of the replay ran.", "ns"),
    Column("outliers", pl.Int64, "Runs far longer than the others; null for fewer than 8 runs."),
    Column("outlier_time", pl.Int64, "Of total, time of outliers beyond the median.", "ns"),
    Column("kind", pl.String, "computation, communication, memcpy or memset."),
    Column("phase", pl.String, "forward or backward, of annotated nodes; null for others."),
    Column("graph", pl.Int64, "Id of the graph; null where the profiler did not record it."),
    Column("node_id", pl.Int64, "Id of the node in the graph; null where the profiler did not record it."),
    Column("stream", pl.Int64, "Stream that it ran on; null if that differs between replays."),
    Column("min", pl.Int64, "Shortest run.", "ns"),
    Column("max", pl.Int64, "Longest run.", "ns"),
    Column("gap", pl.Int64, "Sum of these times.", "ns"),
    Column("longest_start", pl.Int64, "Start of the longest run, from the first event of the trace on.", "ns", True),
    across={
        "key": "template node",
        "agreed": "name kind category operator input_shapes module annotation phase graph node_id stream",
        "sum": "replays total gap outliers outlier_time",
        "own": "share median p99 gap_median longest_start",
        "least": "min",
        "greatest": "max",
    },
)


def graph_nodes(
    trace: Trace,
    select: Selection,
    *,
    template: Annotated[int | None, Param("Only the nodes of this template of `graphs`.")] = None,
) -> Partial:
    """What does each node of a CUDA graph do, and how long does it take from replay to replay?

    Method. A row for each node of each template (see `graphs`), in the order of the graph; its runs are the work of all
    selected replays, also of those of which a part was recorded. Operator, shapes and module are those of the call that
    it was captured in. The time before a node is from the end of all earlier work of the replay to its start; over a
    replay these times sum to its idle time. An outlier is longer than Tukey's outer fence (the third quartile and three
    interquartile ranges) and than 1.5 medians.

    How to read it. Sort by total for the nodes that take the time, by gap for those that the device waits for, by
    outlier_time for those that are slow now and then: another stream takes the memory bandwidth, or a collective waits
    for its peers. Read in order, the table is the program that was captured.

    Limits. Without ids of nodes (ROCm, profilers before 2026) the order is that of the starts, and nodes of parallel
    branches may change places. Without a capture trace or annotations, operators and modules are not known. A node that
    runs nothing on the device has no row.
    """
    view = scope(trace, select)
    of = selected_replays(view)
    work, every = view.device_work, of.every
    pieces = of.pieces
    for wanted, numbers in ((select.devices, work.device), (select.streams, work.stream)):
        if wanted is not None:
            pieces = pieces[np.isin(numbers[every.work[pieces]], wanted)]
    if template is not None and len(every):
        if not 0 <= template < len(of.templates):
            raise UsageError(f"there is no template {template}; there are {listed(range(len(of.templates)))}")
        pieces = pieces[of.templates.of_replay[every.replay[pieces]] == template]
    if not len(pieces):
        return Partial(RESULT.per_rank.empty(), of.notes)
    node = of.templates.node[pieces]
    shown, inverse = np.unique(node, return_inverse=True)
    code, size = inverse.astype(np.int32), len(shown)
    place = every.work[pieces]
    duration, gap = work.duration[place], idle_before(trace)[pieces]
    longest = greatest_of_each(code, duration, size)
    far = outliers(code, size, duration)
    template_of = np.searchsorted(of.templates.offsets, shown, side="right") - 1
    totals = sum_by(code, size, duration)
    of_template = sum_by(template_of.astype(np.int32), len(of.templates), totals)[template_of]
    frame = pl.DataFrame(
        {
            "template": template_of,
            "node": shown - of.templates.offsets[template_of],
            "graph": polars_columns.rows(of.templates.graph[template_of]),
            **_captured(trace, place[longest]),
            "node_id": polars_columns.rows(every.node[pieces][longest]),
            "stream": polars_columns.rows(reduce_by(code, size, work.stream[place]).common),
            "replays": np.bincount(code, minlength=size),
            **polars_columns.statistics(code, size, duration, *_STATISTICS),
            "share": polars_columns.numbers(np.where(of_template > 0, totals / np.maximum(of_template, 1), np.nan)),
            "gap_median": polars_columns.medians(code, size, gap),
            "gap": sum_by(code, size, gap),
            **_outlier_columns(far, code, size),
            "longest_start": work.start[place[longest]] - origin_of_time(trace),
        }
    )
    return Partial(frame, (*of.notes, *_notes(frame)))


ANALYSIS = Analysis(
    "Nodes of CUDA graphs", graph_nodes, RESULT, chart=Bars("name", "total"), of_operators=True, counts_warm_up=True
)

_STATISTICS: Final = ("total", "median", "min", "p99", "max")


def _captured(trace: Trace, place: Int32s) -> dict[str, pl.Series]:
    """What some pieces of device work are, and what they were captured for."""
    work = device_work(trace)
    rows, kind = work.rows[place], work.kind[place]
    calls = captured_calls(trace, place)
    paths, annotated = modules(trace).paths, work_annotations(trace, rows)
    names = [annotated.paths[path][-1] if path >= 0 else None for path in annotated.path.tolist()]
    phases = np.where(annotated.path >= 0, annotated.backward, -1)
    return {
        "name": polars_columns.texts(trace.strings, trace.name[rows]).cast(pl.String),
        "kind": polars_columns.labelled(kind, lambda code: WorkKind(code).name.lower()).cast(pl.String),
        "category": labels(work_categories(trace)[place]),
        "operator": names_of_calls(trace, calls.op).cast(pl.String),
        "input_shapes": polars_columns.json_texts(trace.strings, calls.shapes),
        "module": polars_columns.labelled(calls.module, paths.__getitem__).cast(pl.String),
        "annotation": pl.Series(
            [call.name if call and call.category == RANGE_CATEGORY else None for call in names], dtype=pl.String
        ),
        "phase": polars_columns.labelled(phases, ("forward", "backward").__getitem__).cast(pl.String),
    }


def _outlier_columns(far: Outliers, code: Int32s, size: int) -> dict[str, pl.Series]:
    counted = np.bincount(code, minlength=size) >= MIN_RUNS
    columns = {
        "outliers": np.bincount(code[far.is_outlier], minlength=size),
        "outlier_time": sum_by(code, size, far.excess),
    }
    return {name: polars_columns.column(values, counted) for name, values in columns.items()}


def _notes(frame: pl.DataFrame) -> Iterator[Note]:
    unknown = frame.filter(pl.all_horizontal(pl.col("operator", "module", "annotation").is_null()))
    if len(unknown):
        share = unknown["total"].sum() / max(int(frame["total"].sum()), 1)
        yield Note(
            "NODES_UNKNOWN",
            f"Of {len(unknown):,} of {len(frame):,} nodes ({share:.1%} of their time) only the launch is known:"
            " a trace of the capture (`capture=`) or annotations name their operators and modules.",
        )
