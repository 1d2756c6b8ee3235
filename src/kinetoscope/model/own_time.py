"""What each rank itself did in each step, more than others that have the same to do: is it so for good, or by chance?

Own time is what a rank did but for collectives: computation, copies, what its host did and what nothing was recorded
of; neither transfer nor waiting. What a collective hides is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.consistency import Excess, excess
from kinetoscope.algorithms.intervals import Intervals, covered, difference, exclusive, union
from kinetoscope.model.before_collectives import doings
from kinetoscope.model.collective_calls import base_of, collective_calls
from kinetoscope.model.collectives import POINT_TO_POINT
from kinetoscope.model.scope import Scope
from kinetoscope.model.steps import steps

OWN: Final = ("computation", "memory copies", "data loading", "synchronization", "host gap")
"""Causes that are the rank's own; a slow link is not."""

COLUMNS: Final = tuple(f"own {name}" for name in OWN)
"""Columns of `own_steps`, one for each of OWN."""

IN_COLLECTIVES: Final = ("in collectives", "in collectives alone")
"""Columns of `own_steps`: time in collectives, and what of it no computation covers; null where steps have no marks."""

_MARKED: Final = ("profiler", "annotation")

_USUAL: Final = 0.01
"""Of a step: by so much own times vary wherever nothing else is known."""

_WHOLE: Final = 0.75
"""Share of the collectives that a step usually has, without which it is no whole step."""


@dataclass(frozen=True)
class OwnTime:
    """Own times of ranks by step, and by how much they exceed those of the others.

    Attributes:
        rank: int64 [ranks], ascending. step: int64 [steps], ascending.
        above: all own time, ns.
        causes: the same of each of OWN.
    """

    rank: NDArray[np.int64]
    step: NDArray[np.int64]
    above: Excess
    causes: tuple[Excess, ...]


def own_steps(view: Scope) -> pl.DataFrame:
    """The steps of one rank: step, step_time, and COLUMNS, ns. A step lasts until the next one begins."""
    every = view.trace.of(steps, view.select.steps_by)
    until = np.concatenate([every.device.start[1:], every.device.end[-1:]])
    windows = view.clipped(every.device.start[view.places], until[view.places])
    charged = exclusive(windows, view.trace.of(doings).classes)
    did = np.column_stack([charged[:, :1], charged[:, 2:5], charged[:, 5:].sum(axis=1)])
    facts = {"step": view.steps.number, "step_time": view.steps.device.end - view.steps.device.start}
    parts = {name: did[:, place] for place, name in enumerate(COLUMNS)}
    inside = dict(zip(IN_COLLECTIVES, (covered(windows, each) for each in _in_collectives(view)), strict=True))
    frame = pl.DataFrame({**facts, **parts, **inside})
    known = every.origin in _MARKED
    return frame if known else frame.with_columns(pl.lit(None, pl.Int64).alias(name) for name in IN_COLLECTIVES)


def _in_collectives(view: Scope) -> tuple[Intervals, Intervals]:
    """When the rank was in collectives, and when it computed nothing meanwhile."""
    calls = view.trace.of(collective_calls, view.select.steps_by).filter(~pl.col("kind").is_in(POINT_TO_POINT))
    start, end = (calls[name].to_numpy() - base_of(view.trace) for name in ("start", "end"))
    inside = union(start, end)
    return inside, difference(inside, view.trace.of(doings).computation)


def own_time(cells: pl.DataFrame, stages: pl.DataFrame, step_time: int, held: pl.DataFrame | None = None) -> OwnTime:
    """Compare the ranks.

    Args:
        cells: `own_steps` of all ranks, with `rank`, and `calls`, the collectives that the rank had in the step.
        stages: `rank` and `stage`, a code; only ranks of one stage are compared.
        step_time: how long a step is, ns.
        held: rank, step and COLUMNS: what is to be added, as the rank's host left transfer in the open (`charges`).
    """
    cells = whole_steps(cells).group_by("rank", "step").agg(pl.col(COLUMNS).sum())
    if held is not None:
        more = held.join(cells, on=["rank", "step"], how="semi").select("rank", "step", *COLUMNS)
        cells = pl.concat([cells, more]).group_by("rank", "step").agg(pl.col(COLUMNS).sum())
    rank, step, (above, *causes) = compared(
        cells, stages, step_time, [pl.sum_horizontal(COLUMNS), *map(pl.col, COLUMNS)]
    )
    return OwnTime(rank, step, above, tuple(causes))


def whole_steps(cells: pl.DataFrame) -> pl.DataFrame:
    """Without those that were cut off."""
    return cells.filter(pl.col("calls") >= _WHOLE * pl.col("calls").median().over("rank"))


def compared(
    cells: pl.DataFrame, stages: pl.DataFrame, step_time: int, columns: Sequence[pl.Expr]
) -> tuple[NDArray[np.int64], NDArray[np.int64], list[Excess]]:
    """Ranks and steps, both ascending, and how far each rank is above the others of its stage, by each column.

    A line of `cells` for each rank and step; for the rest see `own_time`.
    """
    rank, one = np.unique(cells["rank"].to_numpy(), return_inverse=True)
    step, other = np.unique(cells["step"].to_numpy(), return_inverse=True)
    stage = pl.DataFrame({"rank": rank}).join(stages, on="rank", how="left", maintain_order="left")["stage"].to_numpy()
    found = []
    for column in columns:
        values = np.full((len(rank), len(step)), np.nan)
        values[one, other] = cells.select(column.cast(pl.Float64)).to_series().to_numpy()
        found.append(excess(values, stage, _USUAL * step_time))
    return rank, step, found
