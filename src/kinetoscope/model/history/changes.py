"""Since when a run is slower or faster, by how much, on which ranks, and what changed: the table of changes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import polars as pl

from kinetoscope.model.history.causes import Cause, mark_near
from kinetoscope.model.history.creep import creeps_of
from kinetoscope.model.history.phases import phase_marks, phase_of_shift
from kinetoscope.model.history.rank_series import MEASURED
from kinetoscope.model.history.run_series import RunSeries, who
from kinetoscope.model.history.shifts import Shift, step_interval
from kinetoscope.model.history.tables import CHANGES

_STRONG: Final = 1.5
"""Times its limits that the evidence and the size of a sure change are at least."""

_SURE_PLACE: Final = 0.02
"""Share of the run within which the place of a sure change lies."""

_NORMAL: Final = 1.96


def changes_of(run: RunSeries, shifts: Sequence[Shift], causes: Sequence[Cause]) -> pl.DataFrame:
    """The rows of CHANGES: shifts and drifts of step time, then memory that creeps, by step.

    The row of `shifts[n]` is the one whose number is n + 1.
    """
    marks = phase_marks(run)
    rows = [dict.fromkeys(CHANGES.names) | _row(run, each, shifts, marks) for each in zip(shifts, causes, strict=True)]
    rows += [dict.fromkeys(CHANGES.names) | {**each, **who(run, each["rows"])} for each in creeps_of(run)]
    for number, row in enumerate(rows, 1):
        row["number"] = number
        row.pop("rows", None)
    return CHANGES.frame(rows)


def _row(run: RunSeries, each: tuple[Shift, Cause], shifts: Iterable[Shift], marks: pl.DataFrame) -> dict[str, Any]:
    shift, cause = each
    if shift.is_drift:
        step = low = high = run.step_of(0)
        until, mark = run.last, None
    else:
        step, low, high = step_interval(run, shift)
        following = [other.place for other in shifts if other.place > shift.place and (other.rows & shift.rows).any()]
        until = run.step_of(min(following)) - 1 if following else run.last
        mark = mark_near(run, low, high)
    size = shift.after - shift.before
    return {
        "kind": "drift" if shift.is_drift else "shift",
        **who(run, cause.rows),
        "step": step,
        "step_low": low,
        "step_high": high,
        "until": until,
        "before": shift.before,
        "after": shift.after,
        "change": size / shift.before,
        "low": (size - _NORMAL * shift.error) / shift.before,
        "high": (size + _NORMAL * shift.error) / shift.before,
        "part": cause.part,
        "part_before": _known(cause.before),
        "part_after": _known(cause.after),
        **phase_of_shift(run, marks, shift, cause.rows),
        **{part: _known(float(size)) for part, size in zip(MEASURED, cause.changes, strict=True)},
        "mark": mark,
        "certainty": _certainty(run, shift, cause, high - low),
        "score": shift.score,
    }


def _certainty(run: RunSeries, shift: Shift, cause: Cause, width: int) -> str:
    """How many of its tests a change passes by far: evidence, size, a part, a place."""
    strong = shift.score >= _STRONG * shift.limits.score
    large = abs(shift.after - shift.before) >= _STRONG * shift.limits.effect
    near = shift.is_drift or width <= _SURE_PLACE * run.steps
    missed = 4 - sum((strong, large, cause.part is not None, near))
    return ("sure", "likely")[missed] if missed < 2 else "guess"


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
