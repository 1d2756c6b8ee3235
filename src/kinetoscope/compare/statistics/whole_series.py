"""The steps of a whole run for comparisons: what its history has, by rank and blocks of steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import groupby
from typing import Final

import numpy as np
import polars as pl

from kinetoscope import dispatch
from kinetoscope.errors import UsageError
from kinetoscope.model.analysis import Question
from kinetoscope.model.answer import Partial
from kinetoscope.model.history.of_trace import both, of_run
from kinetoscope.model.history.rank_series import PARTS
from kinetoscope.model.history.run_series import RunSeries, series_of_ranks
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import STEADY_STEPS, Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema

RESULT: Final = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("place", pl.Int64, "Which block of steps, from 0; the same for all ranks."),
    Column("steps", pl.Int64, "How many steps of the rank are in it."),
    Column("samples", pl.Float64, "Samples of a step, on average; null where unknown."),
    *(Column(part, pl.Float64, f"Time of {part} in a step, on average; see RankSeries.", "ns") for part in PARTS),
)
"""Rows of `whole_series`."""


def is_of_history(job: Job) -> bool:
    """Is nothing known of the run but its history?"""
    return all(source.is_history for source in job.sources)


def whole_series(job: Job, select: Selection) -> Result:
    """The blocks of all steps of a run, those of the warm-up too, or of the steps that are selected.

    Raises:
        UsageError: something else is selected.
        InputError: the history cannot be read.
    """
    others = [each.name for each in fields(select) if each.name != "steps" and getattr(select, each.name)]
    if others:
        raise UsageError(f"a history has nothing but ranks and steps to select: leave {others[0]} out")
    steps = None if select.steps is None or select.steps == STEADY_STEPS else select.steps
    if steps and (min(steps[0], steps[-1]) < 0 or len(steps) != abs(steps[-1] - steps[0]) + 1):
        raise UsageError("of a history a stretch of steps is selected, as --steps 1000-2000, with numbers from 0 on")
    return job.answer(Question(_of_run, _ANALYSIS, replace(select, ranks=job.ranks), combine=both))


def _of_run(trace: Trace, select: Selection) -> Partial:
    """The blocks of steps of all ranks."""
    chosen, notes = select.steps, list[Note]()
    ends = (chosen[0], chosen[-1]) if chosen and chosen != STEADY_STEPS else None  # "all" is a very long range
    steps = ends and (min(ends), max(ends))

    def tables_of_ranks() -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        some = (each for each in dispatch.call("series", trace, select.ranks, steps) if each.steps.height)
        for _, of_rank in groupby(some, lambda tables: tables.steps["rank"][0]):
            attempts = [*of_rank]
            notes.extend(note for tables in attempts for note in tables.notes)
            yield pl.concat(each.steps for each in attempts), pl.concat(each.marks for each in attempts)

    run = series_of_ranks(tables_of_ranks())
    if run is None:
        return Partial(RESULT.empty(), tuple(notes))
    notes.append(Note("ALL_STEPS", "All steps of the history are compared, those of the warm-up and slow ones too."))
    return Partial(RESULT.conform(pl.concat(_rows(run))), tuple(notes))


def _rows(run: RunSeries) -> Iterator[pl.DataFrame]:
    for each in run.ranks:
        place = each.first_block - run.first // run.block + np.arange(len(each.steps))
        parts = {part: each.parts[row].astype(np.float64) for row, part in enumerate(PARTS)}
        columns = {"place": place, "steps": each.steps, "samples": each.samples.astype(np.float64), **parts}
        frame = pl.DataFrame(columns, nan_to_null=True).filter(pl.col("steps") > 0)
        yield frame.with_columns(rank=pl.lit(each.rank, pl.Int64))


_ANALYSIS: Final = of_run("Blocks of steps", _of_run, RESULT)
