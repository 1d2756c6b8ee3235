"""Trials as they are remembered: what rules promised, and what came, each as a share of the step without the change."""

from __future__ import annotations

from collections.abc import Iterator

from kinetoscope.advisor.history import TrialRecord
from kinetoscope.compare.trials.tried import Tried

_RUN: tuple[str, ...] = ("failed", "no effect")
"""Outcomes of trials that were run and have no step."""


def records_of(tried: Tried, *, machine: str, date: str) -> Iterator[TrialRecord]:
    """A record for each trial that was run and that a finding asked for.

    Args:
        tried: all that came of it.
        machine: see `advisor.history.machine_of`.
        date: the day, as 2026-11-28.
    """
    for row in tried.trials:
        was_run = row.was_run or row.outcome in _RUN
        if was_run and row.codes and row.promised_high is not None and row.recorded_step:
            yield TrialRecord(
                trial=row.trial,
                codes=row.codes,
                promised_low=(row.promised_low or 0) / row.recorded_step,
                promised_high=row.promised_high / row.recorded_step,
                brought=_negative(row.change),
                brought_low=_negative(row.change_high),
                brought_high=_negative(row.change_low),
                outcome=row.outcome,
                machine=machine,
                date=date,
            )


def _negative(change: float | None) -> float | None:
    """The share that a change of the step brought."""
    return None if change is None else -change
