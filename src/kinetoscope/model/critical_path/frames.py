"""The graph behind the critical path as two tables, for questions of one's own: nodes, and edges between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import marked
from kinetoscope.model.critical_path.graph import DependencyKind, critical_graph
from kinetoscope.model.critical_path.path import edges_of_paths
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.job import Job, Readable, job_of
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Result, Schema

NODES = Schema(
    Column("node", pl.Int64, "Number of the node; in order of time, and edges run from lower to higher numbers."),
    Column("time", pl.Int64, "Its instant, from the first event of the trace on.", "ns", instant=True),
    Column("thread", pl.Int64, "Thread of the host that it is on; null on devices."),
    Column("device", pl.Int64, "Device whose work starts or ends there; null on the host, or if it is not known."),
    Column("event", pl.Int64, "Row of that device work in the trace; null on the host."),
    Column("end", pl.Boolean, "Whether it is the end of the work; null on the host."),
)

EDGES = Schema(
    Column("source", pl.Int64, "Node that the edge runs from."),
    Column("target", pl.Int64, "Node that it runs to: it cannot come sooner than `weight` after the source."),
    Column("dependency", pl.String, f"Why: {', '.join(kind.name.lower() for kind in DependencyKind)}."),
    Column("weight", pl.Int64, "Time that the edge needs; of one that arrives last all that passed.", "ns"),
    Column("tail", pl.Int64, "Row of the event at the source; null along threads."),
    Column("head", pl.Int64, "Row of the event at the target; null along threads."),
    Column("inferred", pl.Boolean, "Whether it is a wait that was not recorded."),
    Column("last", pl.Boolean, "Whether it arrives last of the edges into its target."),
    Column("critical", pl.Boolean, "Whether it is on the critical path of a step."),
)


@dataclass(frozen=True, repr=False)
class PathGraph:
    """The schedule of one rank as a graph of dependencies; see `model.critical_path.graph` for what it rests on.

    Attributes:
        nodes: instants of threads and devices; see `NODES`.
        edges: what each of them waits for, in order of their targets; see `EDGES`.
    """

    nodes: Result
    edges: Result

    def __repr__(self) -> str:
        critical = self.edges.frame["critical"].sum()
        return f"<PathGraph of {len(self.nodes):,} nodes and {len(self.edges):,} edges, {critical:,} of them critical>"


def critical_path_graph(
    of: Job | Trace | Readable, *, rank: int | None = None, steps_by: str | None = None
) -> PathGraph:
    """The graph of a trace, or of a rank of a job (of the first if none is named).

    `steps_by` is the name of the annotations that are steps, where those of the profiler are not meant.

    Raises:
        UsageError: the job has no such rank.
        InputError: it cannot be read.
    """
    trace = of if isinstance(of, Trace) else job_of(of).trace(rank)
    graph, work = critical_graph(trace, steps_by), device_work(trace)
    nodes = len(graph.time)
    piece = np.full(nodes, -1, np.int64)  # of device work, by node
    piece[graph.start] = piece[graph.end] = np.arange(len(work))
    is_end = marked(nodes, graph.end)
    at, on_device = np.maximum(piece, 0), piece >= 0
    device = work.device[at] if len(work) else piece
    event = work.rows[at].astype(np.int64) if len(work) else piece
    threads = trace.tracks.integer_tids()[np.maximum(graph.track, 0)] if nodes else graph.track
    critical = marked(len(graph.edges.source), edges_of_paths(trace, steps_by)[0])
    last = marked(len(critical), graph.last[graph.last >= 0])
    node_frame = {
        "node": np.arange(nodes),
        "time": graph.time - origin_of_time(trace),
        "thread": polars_columns.column(threads.astype(np.int64), ~on_device),
        "device": polars_columns.column(np.asarray(device, np.int64), on_device & (device >= 0)),
        "event": polars_columns.column(event, on_device),
        "end": polars_columns.column(is_end, on_device),
    }
    kinds = graph.dependency.astype(np.int64)
    edge_frame = {
        "source": graph.edges.source.astype(np.int64),
        "target": graph.target.astype(np.int64),
        "dependency": polars_columns.labelled(kinds, lambda k: DependencyKind(k).name.lower()).cast(pl.String),
        "weight": graph.edges.weight,
        "tail": polars_columns.rows(graph.tail.astype(np.int64)),
        "head": polars_columns.rows(graph.head.astype(np.int64)),
        "inferred": graph.inferred,
        "last": last,
        "critical": critical,
    }
    frames = ((NODES, node_frame), (EDGES, edge_frame))
    return PathGraph(*(Result(schema.conform(pl.DataFrame(frame)), schema) for schema, frame in frames))
