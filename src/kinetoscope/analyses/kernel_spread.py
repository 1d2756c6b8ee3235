"""How long the same kernels take on different ranks."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import polars as pl

from kinetoscope.algorithms.grouping import group
from kinetoscope.charts import Ranges
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.busy import no_work_note
from kinetoscope.model.matching.match import join
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("name", pl.String, "Name of the kernel."),
    Column("kind", pl.String, "computation, communication, memcpy or memset."),
    Column("calls", pl.Int64, "How often it ran on the rank."),
    Column("total", pl.Int64, "Sum of the durations of its calls on the rank.", "ns"),
    Column("mean", pl.Int64, "Mean duration of a call on the rank, rounded to the nanosecond.", "ns"),
    Column("min", pl.Int64, "Shortest call on the rank.", "ns"),
    Column("max", pl.Int64, "Longest call on the rank.", "ns"),
    Column("std", pl.Float64, "Standard deviation of the calls on the rank.", "ns"),
    Column("ranks", pl.Int64, "How many ranks ran it."),
    Column("ratio", pl.Float64, "Mean on the rank / the median of the means of all ranks; null if that is 0."),
)


def kernel_spread(
    trace: Trace,
    select: Selection,
    *,
    kernel: Annotated[str, Param("Kernels whose names hold this; empty: those that take most time.")] = "",
) -> Partial:
    """Does the same kernel take as long on one rank as on the others?

    Method. A row for each rank and kernel, with mean, shortest and longest call and standard deviation. Kernels are
    chosen by their total over all ranks. The ratio compares the mean of a rank with the median of all ranks' means.
    Sorted by rank, then as the kernels are chosen.

    In the chart a line goes from the shortest call of a kernel on any rank to the longest, with a dot for the mean of
    each rank; with `kernel` naming one, each rank has a line of its own.

    How to read it. Dots that lie apart are ranks that differ. A computation kernel with a ratio well above 1 on one
    rank: this rank computes more slowly (clock, power, heat, memory errors), or has more to compute (shapes). For
    communication it is the other way round: a rank with short collectives is the one that the others wait for (see
    `stragglers`).

    Limits. Copies and sets count as kernels here. Calls of one name with different shapes are one row. With a time
    range, calls that start in it count, in full.
    """
    view = scope(trace, select)
    work = view.device_work
    notes: list[Note] = []
    wanted = view.device_work_mask & view.begins(work.start)
    if kernel:
        names = np.unique(trace.name[work.rows])
        wanted &= np.isin(trace.name[work.rows], [n for n in names.tolist() if kernel in trace.strings.label(n)])
    chosen = np.flatnonzero(wanted)
    if not len(chosen):
        missing = (
            Note("NO_KERNEL_NAMED", f"No kernel's name holds {kernel!r}.")
            if kernel and view.device_work_mask.any()
            else no_work_note(view)
        )
        return Partial(_OF_RANK.empty(), (*notes, missing))
    rows = work.rows[chosen]
    codes, first = group(trace.name[rows], work.kind[chosen])
    frame = pl.DataFrame(
        {
            "rank": pl.Series([trace.source.rank], dtype=pl.Int64).new_from_index(0, len(first)),
            "name": polars_columns.texts(trace.strings, trace.name[rows[first]]).cast(pl.String),
            "kind": polars_columns.labelled(work.kind[chosen[first]], lambda k: WorkKind(k).name.lower()).cast(
                pl.String
            ),
            **polars_columns.statistics(
                codes, len(first), work.duration[chosen], "calls", "total", "mean", "min", "max", "std"
            ),
        }
    )
    return Partial(_OF_RANK.conform(frame), tuple(notes))


_OF_RANK = RESULT.without("ranks", "ratio")


def _finished(
    frame: pl.DataFrame,
    *,
    kernels: Annotated[int, Param("How many kernels, by their total over all ranks; 0: all.")] = 10,
) -> pl.DataFrame:
    """One row for each rank and kernel (two names with one label, and cycles of a rank, are joined)."""
    calls = pl.col("calls")
    mean = pl.col("total").sum() / calls.sum()
    by_rank = frame.group_by("rank", "name", "kind").agg(
        pl.col("calls", "total").sum(),
        pl.col("min").min(),
        pl.col("max").max(),
        std=((calls * (pl.col("std") ** 2 + (pl.col("total") / calls - mean) ** 2)).sum() / calls.sum()).sqrt(),
    )
    by_rank = by_rank.with_columns(mean=(2 * pl.col("total") + calls) // (2 * calls)).sort("rank", "name", "kind")
    of_all = by_rank.group_by("name", "kind").agg(
        everywhere=pl.col("total").sum(), ranks=pl.len(), middle=pl.col("mean").median()
    )
    of_all = of_all.sort("everywhere", "name", "kind", descending=[True, False, False])
    if kernels > 0:
        of_all = of_all.head(kernels)
    rows = by_rank.join(of_all, on=["name", "kind"])
    ratio = pl.when(pl.col("middle") > 0).then(pl.col("mean") / pl.col("middle"))
    rows = rows.with_columns(ratio=ratio).sort(
        "rank", "everywhere", "name", "kind", descending=[False, True, False, False]
    )
    return rows.select(RESULT.names)


ANALYSIS = Analysis(
    "Kernel spread",
    kernel_spread,
    RESULT,
    combine=join,
    finish=_finished,
    chart=Ranges("name", "rank", low="min", value="mean", high="max"),
    across_ranks=True,
)
