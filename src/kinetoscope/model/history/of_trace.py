"""The answers about the history that belongs to a trace, all of one reading, and the columns of their analyses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np
import polars as pl

from kinetoscope import dispatch
from kinetoscope.charts import Chart
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.history.bands import Bands
from kinetoscope.model.history.history import history_of
from kinetoscope.model.history.overview import Overview
from kinetoscope.model.history.run_series import series_of_ranks
from kinetoscope.model.history.series import MARKS
from kinetoscope.model.history.windows import WINDOWS, windows_of
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Schema

FILES: Final = "history"
"""The kind of files that a history is."""

COLUMNS: Final = 512
"""Buckets of a whole run at most."""

NO_HISTORY: Final = Note(
    "NO_HISTORY",
    "The run has no history: `kinetoscope record --history`, or `--every`, keeps the times of all its steps.",
)

STEPS_OF_RUN: Final = Schema(
    Column("rank", pl.Int64, "The rank whose step took longest."),
    Column("step", pl.Int64, "Number of the first step of the row."),
    Column("steps", pl.Int64, "How many numbers of steps it has: a power of four, the same in all rows."),
    Column("fastest", pl.Float64, "The least time of a step of any rank, from the end of the step before it on.", "ns"),
    Column("median", pl.Float64, "The median over ranks of their mean times of a step.", "ns"),
    Column("slowest", pl.Float64, "The greatest time of a step of any rank.", "ns"),
)

RANKS_OF_RUN: Final = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("step", pl.Int64, "Number of the first step of the row."),
    Column("steps", pl.Int64, "How many numbers of steps it has: a power of four, the same in all rows."),
    Column(
        "behind",
        pl.Float64,
        "Its own work in a step (all but backward, where ranks wait) - the median of the ranks, / `median`.",
    ),
)


@dataclass(frozen=True)
class RunAnswers:
    """All that is answered about the history of a run.

    Attributes:
        changes, spikes, returns, lost: see `history.History`, the frames of these.
        events: see `spike_events`; phases: of PHASES; steps: of STEPS_OF_RUN; ranks: of RANKS_OF_RUN; marks: of MARKS.
        notes: of all of them.
        more: those of changes alone.
    """

    changes: pl.DataFrame
    spikes: pl.DataFrame
    returns: pl.DataFrame
    lost: pl.DataFrame
    phases: pl.DataFrame
    events: pl.DataFrame
    steps: pl.DataFrame
    ranks: pl.DataFrame
    marks: pl.DataFrame
    notes: tuple[Note, ...]
    more: tuple[Note, ...]


@derived
def answers_of(trace: Trace) -> RunAnswers | None:
    """The answers about the whole run; None where it has no history.

    Raises:
        InputError: it cannot be read.
    """
    if not trace.source.files(FILES):
        return None
    shown = Overview(COLUMNS)
    notes: list[Note] = []

    def tables_of_ranks() -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        """The rows and marks of each rank, of all its attempts."""
        some = (tables for tables in dispatch.call("series", trace) if tables.steps.height)
        for _, of_rank in groupby(some, lambda tables: tables.steps["rank"][0]):
            attempts = [*of_rank]
            notes.extend(note for tables in attempts for note in tables.notes)
            shown.add([tables.steps for tables in attempts])
            yield pl.concat(each.steps for each in attempts), pl.concat(each.marks for each in attempts)

    run = series_of_ranks(tables_of_ranks())
    said = history_of(run)
    marks = MARKS.empty() if run is None else run.marks
    buckets = shown.bands()
    return RunAnswers(
        changes=said.changes.frame,
        spikes=said.spikes.frame,
        returns=said.returns.frame,
        lost=said.lost.frame,
        phases=said.phases.frame,
        events=said.events,
        steps=STEPS_OF_RUN.empty() if buckets is None else _steps(buckets),
        ranks=RANKS_OF_RUN.empty() if buckets is None else _ranks(buckets),
        marks=marks,
        notes=tuple(notes),
        more=said.changes.notes,
    )


@derived
def windows_table(trace: Trace) -> Partial:
    """The windows of the whole run, and which of them shows what; their traces are read, or what is left of them."""
    said = answers_of(trace)
    if said is None:
        return Partial(WINDOWS.empty(), (NO_HISTORY,))
    numbers = dispatch.call("window_numbers", trace)
    return Partial(windows_of(said.marks, said.changes, said.spikes, said.events, numbers), said.notes)


def _steps(shown: Bands) -> pl.DataFrame:
    known = np.flatnonzero(shown.rank >= 0)
    return STEPS_OF_RUN.conform(
        pl.DataFrame(
            {
                "rank": shown.rank[known],
                "step": shown.first + known * shown.size,
                "steps": np.full(len(known), shown.size),
                **{name: getattr(shown, name)[known].astype(np.float64) for name in ("fastest", "median", "slowest")},
            }
        )
    )


def _ranks(shown: Bands) -> pl.DataFrame:
    row, bucket = np.nonzero(~np.isnan(shown.behind))
    return RANKS_OF_RUN.conform(
        pl.DataFrame(
            {
                "rank": shown.ranks[row],
                "step": shown.first + bucket * shown.size,
                "steps": np.full(len(row), shown.size),
                "behind": shown.behind[row, bucket].astype(np.float64),
            }
        )
    )


def rank_first(schema: Schema) -> Schema:
    """The columns as an analysis has them: the rank is the first."""
    rank = schema["rank"] if "rank" in schema.names else Column("rank", pl.Int64, "Always null: it is of all ranks.")
    return Schema(rank, *(each for each in schema if each.name != "rank"))


def table_of(trace: Trace, name: str, schema: Schema) -> Partial:
    """One of the tables, with these columns."""
    said = answers_of(trace)
    if said is None:
        return Partial(schema.empty(), (NO_HISTORY,))
    frame: pl.DataFrame = getattr(said, name)
    if "rank" not in frame.columns:
        frame = frame.with_columns(pl.lit(None).alias("rank"))
    return Partial(schema.conform(frame.select(schema.names)), said.notes + said.more * (name == "changes"))


def both(one: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """The rows of several; all but one have none."""
    return pl.concat([one, other])


def of_run(title: str, function: Callable[..., Partial], result: Schema, chart: Chart | None = None) -> Analysis:
    """An analysis of the history of a run: it is asked once, of all its files, and nothing is selected."""
    return Analysis(
        title,
        function,
        result,
        chart=chart,
        combine=both,
        across_ranks=True,
        of_device_work=False,
        of_calls=False,
        selection_notes="never",
        of_files=FILES,
    )
