"""How often each CUDA graph is replayed, how long a replay takes, and what is known of its kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.execution.call_tree import enclosing_module
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.graphs.annotated import has_lost_streams
from kinetoscope.model.graphs.lost_work import no_device_work
from kinetoscope.model.graphs.replays import Replays, replays
from kinetoscope.model.graphs.templates import ReplayTimes, Templates, replay_times, templates
from kinetoscope.model.operators.modules import modules
from kinetoscope.model.steps.scope import Scope, origin_of_time, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import arguments, polars_columns
from kinetoscope.model.trace.captured_calls import CaptureSource
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, MeanBy, RatioOf, Schema, ShareOf

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("template", pl.Int64, "Number of the graph's template, in order of the first replays."),
    Column("graph", pl.Int64, "Id of the graph; null where the profiler did not record it."),
    Column("captured_as", pl.String, "Annotation around the capture, such as `capture_32_FULL`; null if unknown."),
    Column("source", pl.String, "What names the calls of its nodes: annotations, capture, both; launch: nothing does."),
    Column("nodes", pl.Int64, "Nodes with device work: kernels, copies and sets."),
    Column("replays", pl.Int64, "How often it was replayed."),
    Column("total", pl.Int64, "Sum of the durations of the work of its replays.", "ns"),
    Column("share", pl.Float64, "Total / that of all selected device work; null with a range of time.", "fraction"),
    Column("duration_median", pl.Int64, "Median duration of a whole replay.", "ns"),
    Column("duration_p99", pl.Int64, "The least duration that 99 % of the whole replays do not exceed.", "ns"),
    Column("gap_median", pl.Int64, "Median time from the end of the replay before, of any graph, to its start.", "ns"),
    Column("idle", pl.Int64, "Of duration, time between the nodes: duration − busy.", "ns"),
    Column("gap_idle", pl.Int64, "Of gap, time in which the device did nothing.", "ns"),
    Column("concurrency", pl.Float64, "Total / busy: pieces of work that run at a time, while any does."),
    Column("operator_share", pl.Float64, "Share of total whose operator is known.", "fraction"),
    Column("shape_share", pl.Float64, "Share of total whose operator has recorded input shapes.", "fraction"),
    Column("module_share", pl.Float64, "Share of total whose module is known.", "fraction"),
    Column("partial", pl.Int64, "Of these, replays of which some work was not recorded."),
    Column(
        "duration", pl.Int64, "Sum of its replays, each from the start of the first work to the end of the last.", "ns"
    ),
    Column("busy", pl.Int64, "Of duration, time in which work of the replay ran.", "ns"),
    Column("gap", pl.Int64, "Sum of these times.", "ns"),
    Column("duration_max", pl.Int64, "Duration of the longest replay.", "ns"),
    Column("longest_start", pl.Int64, "Start of the longest replay, from the first event of the trace on.", "ns", True),
    Column("launch_median", pl.Int64, "Median duration of the launch on the host.", "ns"),
    Column("launch", pl.Int64, "Sum of the durations of the launches on the host.", "ns"),
    Column("streams", pl.Int64, "Streams that its work ran on."),
    across={
        "key": "template",
        "agreed": "graph captured_as source nodes",
        "sum": "replays partial total duration busy idle gap gap_idle launch",
        ShareOf("total"): "share",
        "own": "duration_median duration_p99 longest_start gap_median launch_median",
        "greatest": "duration_max streams",
        RatioOf("total", "busy"): "concurrency",
        MeanBy("total"): "operator_share shape_share module_share",
    },
)


def graphs(trace: Trace, select: Selection) -> Partial:
    """Which CUDA graphs are replayed, how long does a replay take, and what were their kernels captured for?

    Method. A replay is the launch of a graph and all device work with its correlation id. Replays of one graph with the
    same nodes have one template; where the graph's id was not recorded, those with the same kernels in the same order
    have. A replay whose nodes are only some of those of the template counts as partial: the recording began or ended in
    it, or the profiler lost records. Medians and percentiles are those of whole replays. The calls of the nodes come
    from the annotations of torch 2.12 and later, and from a trace recorded during the capture. A node whose capture
    names no module is of the module whose call launches the graph.

    How to read it. Much `idle` inside replays: the kernels wait for each other, or are shorter than the time that the
    device needs between two. Much `gap_idle`: the host prepares the next replay too late. Concurrency near 1 on several
    streams: the branches of the graph do not overlap. `source` launch: give the trace of the capture (`capture=`), or
    annotate the graph (`torch.cuda.graph(…, enable_annotations=True)`), and its kernels have operators and modules.
    `graph_nodes` shows the nodes of a template.

    Limits. A replay is selected by its launch; with a range of time, one that starts in it counts as a whole. Replays
    of which nothing ran are not here. Gaps are those of a device; copies and eager kernels may run in them.
    """
    view = scope(trace, select)
    of = selected_replays(view)
    if not len(of.pieces):
        return Partial(RESULT.per_rank.empty(), of.notes)
    work, every = view.device_work, of.every
    shown, first = group(of.templates.of_replay[of.chosen])
    code = np.full(len(every), -1, np.int32)
    code[of.chosen] = shown
    model = np.flatnonzero(of.chosen)[first]
    template = of.templates.of_replay[model]
    size = len(model)
    place = every.work[of.pieces]
    of_piece, time = code[every.replay[of.pieces]], work.duration[place]
    total, calls = sum_by(of_piece, size, time), captured_calls(trace, place)
    launch = every.launch
    launched = np.where(launch >= 0, np.maximum(trace.end[launch] - trace.start[launch], 0), 0)
    everything = 0 if view.clip else int(work.duration[view.device_work_mask].sum())
    between = np.where(of.times.gap >= 0, code, np.int32(-1))
    whole = np.where(of.templates.is_whole, code, np.int32(-1))
    durations = polars_columns.statistics(whole, size, of.times.duration, "median", "p99")
    longest = greatest_of_each(code, of.times.duration, size)
    frame = pl.DataFrame(
        {
            "template": template.astype(np.int64),
            "graph": polars_columns.rows(of.templates.graph[template]),
            "captured_as": [_label(trace, int(launch[replay])) for replay in model.tolist()],
            "source": [_source(trace, work.rows[every.work_of(replay)]) for replay in model.tolist()],
            "nodes": of.templates.nodes[template],
            "replays": np.bincount(shown, minlength=size),
            "partial": np.bincount(code[of.chosen & ~of.templates.is_whole], minlength=size),
            "total": total,
            "share": pl.Series(total) / everything if everything else pl.Series([None] * size, dtype=pl.Float64),
            "duration": sum_by(code, size, of.times.duration),
            "busy": sum_by(code, size, of.times.busy),
            "idle": sum_by(code, size, of.times.duration - of.times.busy),
            **{f"duration_{name}": column for name, column in durations.items()},
            "duration_max": of.times.duration[longest],
            "longest_start": of.times.start[longest] - origin_of_time(trace),
            "gap_median": polars_columns.medians(between, size, of.times.gap),
            "gap": sum_by(between, size, of.times.gap),
            "gap_idle": sum_by(between, size, of.times.gap_idle),
            "launch_median": polars_columns.medians(np.where(launch >= 0, code, np.int32(-1)), size, launched),
            "launch": sum_by(code, size, launched),
            "streams": _distinct(of_piece, size, work.stream[place]),
            "operator_share": _share(of_piece, size, time, total, calls.op >= 0),
            "shape_share": _share(of_piece, size, time, total, calls.shapes >= 0),
            "module_share": _share(of_piece, size, time, total, calls.module >= 0),
        }
    ).with_columns(concurrency=pl.when(pl.col("busy") > 0).then(pl.col("total") / pl.col("busy")))
    return Partial(frame.sort("total", "template", descending=[True, False]), of.notes)


ANALYSIS = Analysis(
    "CUDA graphs", graphs, RESULT, chart=Bars("template", "total"), of_operators=True, counts_warm_up=True
)

SOURCES: Final = {
    CaptureSource.BOTH: "annotations, capture",
    CaptureSource.ANNOTATIONS: "annotations",
    CaptureSource.CAPTURE: "capture",
    CaptureSource.LAUNCH: "launch",
}


@dataclass(frozen=True)
class SelectedReplays:
    """The replays of a selection.

    Attributes:
        every, templates, times: of the trace: the replays, their templates, their times.
        chosen: bool [replays], which are selected.
        pieces: int32 [pieces], places in `every.work` of the work of these.
        notes: sentences about them.
    """

    every: Replays
    templates: Templates
    times: ReplayTimes
    chosen: Bools
    pieces: Int32s
    notes: tuple[Note, ...]


def selected_replays(view: Scope) -> SelectedReplays:
    """The replays of a selection, by their launches and, with a range of time, by their starts."""
    trace = view.trace
    every, distinct, times = replays(trace), templates(trace), replay_times(trace)
    chosen = np.bincount(every.replay[view.device_work_mask[every.work]], minlength=len(every)) > 0
    chosen &= view.begins(times.start)
    pieces = np.flatnonzero(chosen[every.replay]).astype(np.int32)
    return SelectedReplays(every, distinct, times, chosen, pieces, tuple(_notes(view, every, distinct, chosen)))


def greatest_of_each(code: Int32s, values: Int64s, size: int) -> Int64s:
    """The place of the greatest value of each group, the first of equal ones; negative codes count nowhere."""
    order = np.lexsort((-np.arange(len(code)), values, code))
    return order[np.searchsorted(code[order], np.arange(size), side="right") - 1]


def _distinct(code: Int32s, size: int, values: Int64s) -> Int64s:
    """How many values each group has: int64 [groups]."""
    _, first = group(code, values)
    return np.bincount(code[first], minlength=size)


def _share(code: Int32s, size: int, time: Int64s, total: Int64s, known: Bools) -> pl.Series:
    part = sum_by(np.where(known, code, np.int32(-1)), size, time)
    return polars_columns.numbers(np.where(total > 0, part / np.maximum(total, 1), np.nan))


class CallsOfWork(NamedTuple):
    """What device work of replays was captured in, −1 where that is not known.

    Attributes:
        op: int32 [work], row of the operator.
        shapes: int64 [work], string code of the shapes of its inputs.
        module: int32 [work], place among `modules`: of the capture, else of the one that launches the graph, as where
            each layer has a graph of its own.
    """

    op: Int32s
    shapes: Int64s
    module: Int32s


def captured_calls(trace: Trace, place: Int32s) -> CallsOfWork:
    """The captured calls of device work, given by place; operators around the launch do not count."""
    work = device_work(trace)
    op, caller = work.op[place], work.captured[place]
    op = np.where((caller >= 0) & (op >= trace.recorded), op, np.int32(-1))
    shapes = arguments.codes_where(trace, "input_dims", op)
    module = np.full(len(place), -1, np.int32)
    if trace.captured is not None:
        inside = (caller >= 0) & (enclosing_module(trace)[caller] >= 0)
        module[inside] = modules(trace).node[caller[inside]]
    return CallsOfWork(op, shapes, module)


def _label(trace: Trace, launch: int) -> str | None:
    captured = trace.captured
    if captured is None or launch not in captured.replay:
        return None
    return captured.labels[int(captured.label[np.searchsorted(captured.replay, launch)])] or None


def _source(trace: Trace, rows: Int32s) -> str:
    if trace.captured is None:
        return SOURCES[CaptureSource.LAUNCH]
    return SOURCES[CaptureSource(int(trace.captured.sources_of(rows).max()))]


def _notes(view: Scope, every: Replays, distinct: Templates, chosen: Bools) -> Iterator[Note]:
    if not len(view.device_work):
        yield no_device_work(view.trace)
    elif not len(every):
        yield Note("NO_REPLAYS", "No graph was replayed.")
    elif not chosen.any():
        yield Note("NO_REPLAYS_SELECTED", "No replay of a graph is selected.")
    partial = int((chosen & ~distinct.is_whole).sum())
    if partial:
        yield Note(
            "REPLAYS_INCOMPLETE",
            f"{number_of(partial, 'replay')} of {int(chosen.sum()):,} lack some work: medians leave them out.",
        )
    if has_lost_streams(view.trace):
        yield Note(
            "STREAMS_ARE_LANES",
            "torch 2.12 or 2.13 moved work of graphs to lanes: streams are those lanes, not those that work ran on.",
        )
