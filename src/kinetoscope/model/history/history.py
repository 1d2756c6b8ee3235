"""The answers about the series of a whole run, all of one reading."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import polars as pl

from kinetoscope.model.history.causes import cause_of
from kinetoscope.model.history.changes import changes_of
from kinetoscope.model.history.lost_time import lost_time
from kinetoscope.model.history.phases import phases_of
from kinetoscope.model.history.returns import returns_of, returns_table
from kinetoscope.model.history.run_series import RunSeries, run_series
from kinetoscope.model.history.shifts import SHORTEST_STEPS, shifts_of
from kinetoscope.model.history.spikes import spike_events, spikes_of
from kinetoscope.model.history.tables import CHANGES, LOST, PHASES, RETURNS, SPIKES
from kinetoscope.notes import Note
from kinetoscope.schema import Result


@dataclass(frozen=True)
class History:
    """The answers about a run.

    Attributes:
        changes: since when it is slower, faster, or grows, see CHANGES.
        spikes: single steps that take long, see SPIKES.
        returns: ranks that are slowest again and again, see RETURNS.
        lost: where its time went, see LOST.
        phases: what it alternates between, see PHASES.
        run: the series that they are made of; None where there is no step.
        events: single slow steps of all ranks, see `spike_events`.
        windows: which window shows what, see WINDOWS, where somebody asked for it.
    """

    changes: Result
    spikes: Result
    returns: Result
    lost: Result
    phases: Result
    run: RunSeries | None = None
    events: pl.DataFrame = field(default_factory=pl.DataFrame)
    windows: Result | None = None


def history(frames: Iterable[pl.DataFrame], marks: pl.DataFrame) -> History:
    """The answers about the series of a run.

    Args:
        frames: of STEPS, each with all rows of its ranks in order of time; one at a time is in memory.
        marks: of MARKS.

    Raises:
        BrokenTraceError: numbers of steps are none.
    """
    return history_of(run_series(frames, marks))


def history_of(run: RunSeries | None) -> History:
    """The same of a run whose series is made; None: it has no step."""
    if run is None:
        none = (Note("EMPTY_SERIES", "The series has no step."),)
        changes, spikes, returns, lost, phases = (
            Result(schema.empty(), schema, none) for schema in (CHANGES, SPIKES, RETURNS, LOST, PHASES)
        )
        return History(changes, spikes, returns, lost, phases)
    shifts, events = shifts_of(run), spike_events(run)
    causes = [cause_of(run, shift) for shift in shifts]
    slowest = returns_of(run, shifts, causes)
    notes: tuple[Note, ...] = ()
    if run.steps < SHORTEST_STEPS:
        text = f"Changes are looked for in {SHORTEST_STEPS} steps and more; the series has {run.steps:,}."
        notes = (Note("SHORT_SERIES", text, number=run.steps),)
    return History(
        Result(changes_of(run, shifts, causes), CHANGES, notes),
        Result(spikes_of(run, events), SPIKES),
        Result(returns_table(run, slowest), RETURNS, notes),
        Result(lost_time(run, shifts, causes, slowest, events), LOST),
        Result(phases_of(run), PHASES),
        run,
        events,
    )
