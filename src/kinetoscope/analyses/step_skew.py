"""When each step begins on each rank."""

from __future__ import annotations

import polars as pl

from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.collectives.calls import selected_calls, selected_steps, with_source
from kinetoscope.model.matching.clocks import aligned
from kinetoscope.model.matching.match import join, match_and_align
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("step", pl.Int64, "Number of the step, as in ProfilerStep#N."),
    Column("start", pl.Int64, "When the rank began it, since the first step of any rank.", "ns", instant=True),
    Column("skew", pl.Int64, "How long after the first rank it began it.", "ns"),
    Column("behind_middle", pl.Int64, "How long after the rank in the middle; negative before it.", "ns"),
    Column("duration", pl.Int64, "Length of the device step on the rank.", "ns"),
    Column("end_skew", pl.Int64, "How long after the first rank it ended it.", "ns"),
    Column("ranks", pl.Int64, "How many ranks recorded the step."),
)


def step_skew(trace: Trace, select: Selection) -> Partial:
    """Do all ranks begin and end each step at the same time?

    Method. The steps of all ranks are put on one clock, which collectives give that all ranks leave together. The skew
    of a rank is how much later than the first one it begins the step. A step begins when the host begins it and the
    device has finished the step before (see `step_breakdown`).

    How to read it. Ranks that begin a step late and end it with the others lost time before it: at its end, or in data
    loading. A skew that grows from step to step is odd in data parallel training, where each step ends with a
    collective. Stages of a pipeline may begin one after the other.

    Limits. What begins a step is where the mark was set, and the host runs ahead of the device: a late host need not
    cost time. Steps of different ranks are compared by their numbers. Without collectives that ranks have in common,
    the clocks of their machines are compared as they are; the notes say so.
    """
    view = scope(trace, select)
    calls = selected_calls(scope(trace, Selection(steps_by=select.steps_by)))
    return Partial(with_source(calls, trace), (), with_source(selected_steps(view), trace))


def _finished(calls: pl.DataFrame, steps: pl.DataFrame) -> Partial:
    collectives = match_and_align(calls)
    steps = aligned(steps, collectives.clocks).select("rank", "step", "start", "end")
    first, middle = pl.col("start").min(), pl.col("start").sort().gather((pl.len() - 1) // 2).first()
    table = steps.sort("rank", "step", "start").with_columns(
        duration=pl.col("end") - pl.col("start"),
        skew=pl.col("start") - first.over("step"),
        behind_middle=pl.col("start") - middle.over("step"),
        end_skew=pl.col("end") - pl.col("end").min().over("step"),
        ranks=pl.col("rank").n_unique().over("step").cast(pl.Int64),
    )
    return Partial(table.with_columns(start=pl.col("start") - first).select(RESULT.names), collectives.notes)


ANALYSIS = Analysis(
    "Step skew",
    step_skew,
    RESULT,
    combine=join,
    finish=_finished,
    chart=Bars("rank", "skew"),
    across_ranks=True,
    of_calls=False,
    selection_notes="always",
)
