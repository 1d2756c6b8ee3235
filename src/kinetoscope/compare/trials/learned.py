"""What is remembered of trials: what rules promised, and what came, as shares of the step of the program as it was."""

from __future__ import annotations

from collections.abc import Iterator

from kinetoscope.advisor.history import TrialRecord
from kinetoscope.compare.trials.tried import TrialRow, Tried

_RUN: tuple[str, ...] = ("failed", "no effect")
"""Outcomes of trials that were run and have no step."""


def records_of(tried: Tried, *, recorded_step: float, machine: str, date: str) -> Iterator[TrialRecord]:
    """A record for each trial that was run and that a finding asked for.

    Args:
        tried: all that came of it.
        recorded_step: the average step of the recorded window from which the findings are, ns.
        machine: see `advisor.history.machine_of`.
        date: the day, as 2026-11-28.
    """
    for row in tried.trials:
        was_run = row.was_run or row.outcome in _RUN
        if was_run and row.codes and row.promised_high is not None and recorded_step > 0:
            yield TrialRecord(
                trial=row.trial,
                codes=row.codes,
                promised_low=(row.promised_low or 0) / recorded_step,
                promised_high=row.promised_high / recorded_step,
                **_brought(row, tried.step),
                outcome=row.outcome,
                machine=machine,
                date=date,
            )


def _brought(row: TrialRow, step: int) -> dict[str, float | None]:
    """By what share of the step of the program as it is this row's step is shorter, and from where to where."""
    part = row.base_step / step if row.base_step and step else None
    changes = {"brought": row.change, "brought_low": row.change_high, "brought_high": row.change_low}
    return {name: None if part is None or each is None else -each * part for name, each in changes.items()}
