"""Why step time changed: the part of the step that moved, on the ranks that moved first, and a rare mark at that place.

Ranks wait for each other, so the time of a late rank is seen in a part of all others: the time in the data loader of
one is in the backward pass of the rest. Loading data and what lies between steps is nobody's wait for another rank; so
where some ranks have it there, they are the cause. Else those are it which are fewer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Floats
from kinetoscope.model.history.rank_series import MEASURED
from kinetoscope.model.history.run_series import RunSeries
from kinetoscope.model.history.shifts import Shift, around

PART_SHARE: Final = 0.5
"""Share of a change that a part makes up at least."""

_DEVICE_SHARE: Final = 0.8
"""Share of a change that the device's time makes up at least to be its part: it holds what the host was waited for."""

_OWN_PARTS: Final = ("data", "gap")
"""Parts in which no rank waits for another one."""

_ORDER: Final = ("forward", "optimizer", "rest", "backward")
"""The others; the later, the more likely it is that ranks wait for each other in it."""

_RARE_KINDS: Final = ("restart", "compile", "evaluation", "save", "phase", "window")

_MAX_CHANCE: Final = 0.05
"""Share of places at which a mark of a kind is near by chance, at most; a more frequent one says nothing."""


@dataclass(frozen=True)
class Cause:
    """The ranks and the part that changed.

    Attributes:
        rows: bool [ranks], the ranks from which it comes.
        part: of their steps; None where no part makes up half of it.
        before, after: the part's time on these ranks, ns.
        changes: by how much each of MEASURED changed on them, ns; NaN where unknown.
    """

    rows: Bools
    part: str | None
    before: float
    after: float
    changes: Floats


def cause_of(run: RunSeries, shift: Shift) -> Cause:
    """The part that changed with a shift or a drift, and the ranks that it comes from."""
    low, high = around(shift)
    with np.errstate(all="ignore"):
        before, after = (_middle(run.parts[:, :, each].astype(np.float64)) for each in (low, high))
    size, grown = shift.after - shift.before, after - before
    if shift.is_drift:
        # Between the middles of the first and the last fifth lie four fifths of it.
        size *= 0.8
    share = np.nan_to_num(grown / size)
    moved = {part: shift.rows & (share[:, row] >= PART_SHARE) for row, part in enumerate(MEASURED)}
    part, rows = _origin(moved, shift.rows)
    device = MEASURED.index("device")
    on_device = shift.rows & (share[:, device] >= _DEVICE_SHARE)
    if part not in _OWN_PARTS and on_device.sum() > shift.rows.sum() / 2:
        part, rows = "device", shift.rows
    changes = _middle(grown[rows].T)
    if part is None:
        return Cause(rows, None, float("nan"), float("nan"), changes)
    row = MEASURED.index(part)
    return Cause(rows, part, float(_middle(before[rows, row])), float(_middle(after[rows, row])), changes)


def _middle(values: Floats) -> Floats:
    """The median over the last axis; NaN are no values."""
    known = np.isnan(values).sum(axis=-1) < values.shape[-1]
    middle = np.full(values.shape[:-1], np.nan)
    middle[known] = np.nanmedian(values[known], axis=-1)
    return middle


def _origin(moved: dict[str, Bools], every: Bools) -> tuple[str | None, Bools]:
    """The part and the ranks from which a change comes."""
    for part in _OWN_PARTS:
        if moved[part].any():
            return part, moved[part]
    there = [part for part in _ORDER if moved[part].any()]
    if not there:
        return None, every
    # The sort is stable: of as many ranks the one counts in whose part the least is waited.
    part = min(there, key=lambda each: int(moved[each].sum()))
    return part, moved[part]


def mark_near(run: RunSeries, low: int, high: int) -> str | None:
    """The kind of a rare mark in one of the steps from `low` to `high`, or just before."""
    reach = run.block
    near = run.marks.filter(pl.col("kind").is_in(_RARE_KINDS), pl.col("step").is_between(low - reach, high + reach))
    for kind in _RARE_KINDS:
        if near.filter(kind=kind).height:
            places = run.marks.filter(kind=kind)["step"].unique().len()
            if places * (high - low + 2 * reach + 1) <= _MAX_CHANCE * max(run.steps, 1):
                return kind
    return None
