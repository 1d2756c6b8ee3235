"""What a file records, where that is no program at work."""

from __future__ import annotations

from typing import Final

import polars as pl

from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.health.recording_kinds import recording_kinds as kinds_of_trace
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, RatioOf, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column(
        "kind",
        pl.String,
        "cut off, autograd profiler, sums only, graph capture, collectives only, warm-up, lost device work, no"
        " operators: see Method.",
    ),
    Column(
        "count",
        pl.Int64,
        "What it is known by: events left, operators, frames, nodes, collectives, calls, launches, calls.",
    ),
    Column("graphs", pl.Int64, "Graphs that were captured; null of other kinds."),
    Column("time", pl.Int64, "Time of the steady steps that it takes; all of it where the whole file is so.", "ns"),
    Column("window", pl.Int64, "Time of the steady steps, on the device where there are some.", "ns"),
    Column("share", pl.Float64, "Time / window.", "fraction"),
    Column("what", pl.String, "Of a warm-up what takes most of that time; null of other kinds."),
    across={"key": "kind what", "sum": "count graphs time window", RatioOf("time", "window"): "share"},
)


def recording_kinds(trace: Trace, select: Selection) -> Partial:
    """Does the file record a program at work, or something else?

    Method. A row for each kind of recording that the file is. *cut off*: the file ends early, and holds no device work.
    *autograd profiler*: torch's profiler wrote it before Kineto did (until torch 1.7); its spans of devices are whole
    operators and are not read. *sums only*: how often kernels ran and how long in all, as in the trees of Triton's
    Proton; when anything ran was not recorded. *graph capture*: more calls became nodes of a graph than pieces of work
    ran.
    *collectives only*: of the program nothing but collectives, as NCCL's Inspector writes them. *lost device work*:
    kernels were launched, and the work of none was recorded. *warm-up*: half of the steady steps' time and more is done
    once, while no device works: first launches of a kernel and other first calls of the runtime of 1 ms and more, ten
    times as long as usual; the compiler of torch.compile, until a step has none of it; the
    profiler's requests for buffers; first operators of a name with 5 ms and more of their own, ten times as long as the
    next. *no operators*: calls of the runtime and device work only.

    How to read it. No row: a program at work. Rules of `advise` that do not fit a kind are not asked.

    Limits. The whole file is described, whatever is selected. A warm-up that no call shows, such as clocks that rise,
    is not recognised.
    """
    del select
    rows = [
        (
            each.kind,
            each.count,
            each.graphs or None,
            each.time,
            each.window,
            each.time / max(each.window, 1),
            each.what or None,
        )
        for each in kinds_of_trace(trace)
    ]
    return Partial(RESULT.per_rank.frame(rows), () if rows else (_NO_KIND,))


ANALYSIS = Analysis(
    "Kinds of recording",
    recording_kinds,
    RESULT,
    of_device_work=False,
    of_calls=False,
    selection_notes="never",
    of_sums=("time", "window", "share"),
)

_NO_KIND: Final = Note("NO_RECORDING_KIND", "No row: the file records a program at work, as far as its events tell.")
