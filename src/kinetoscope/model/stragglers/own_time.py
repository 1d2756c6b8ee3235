"""What each rank itself did in each step, more than others that have the same to do: is it so for good, or by chance?

Own time is what a rank did but for collectives: computation, copies, what its host did and what nothing was recorded
of; neither transfer nor waiting. What a collective hides is none. What the host alone did, hidden or not, is known
beside it: a host that runs ahead of its devices may be slow in each step, and make the others wait in the first only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, difference, exclusive, union
from kinetoscope.algorithms.outliers import SIGMAS, Excess, excess
from kinetoscope.model.collectives.attributes import POINT_TO_POINT
from kinetoscope.model.collectives.calls import base_of, collective_calls
from kinetoscope.model.steps.scope import Scope
from kinetoscope.model.steps.steps import steps
from kinetoscope.model.stragglers.host_activity import doings

OWN: Final = ("computation", "memory copies", "data loading", "synchronization", "host gap")
"""Causes that are the rank's own; a slow link is not."""

COLUMNS: Final = tuple(f"own {name}" for name in OWN)
"""Columns of `own_steps`, one for each of OWN."""

IN_COLLECTIVES: Final = ("in collectives", "in collectives alone")
"""Columns of `own_steps`: time in collectives, and what of it no computation covers; null where steps have no marks."""

ON_HOST: Final = {"data loading": "on host data loading", "host gap": "on host nothing"}
"""Columns of `own_steps`: data loading, and time in which nothing but Python functions was called, of the host's step;
hidden or not. By the cause that they tell; null where steps have no marks."""

PARTS: Final = (*COLUMNS, *ON_HOST.values())
"""Columns of `own_steps` by which ranks are compared."""

_MARKED: Final = ("profiler", "annotation")

_USUAL: Final = 0.01
"""Of a step: by so much own times vary wherever nothing else is known."""

_AS_MUCH: Final = 0.5
"""Share of what a rank did more in any step, and of what its host did more on average, that the host does in each."""

_MORE: Final = 4
"""Times what a rank did more in any step that its host does more: much of it may have been hidden in that step, too."""

_WHOLE: Final = 0.75
"""Share of the collectives that a step usually has, without which it is no whole step."""


@dataclass(frozen=True)
class OwnTime:
    """Own times of ranks by step, and by how much they exceed those of the others.

    Attributes:
        rank: int64 [ranks], ascending. step: int64 [steps], ascending.
        above: all own time, ns.
        causes: the same of each of OWN.
        on_host: the same of each of ON_HOST, by cause; empty where it is not known.
    """

    rank: Int64s
    step: Int64s
    above: Excess
    causes: tuple[Excess, ...]
    on_host: Mapping[str, Excess]


def own_steps(view: Scope) -> pl.DataFrame:
    """The steps of one rank: step, step_time, COLUMNS, IN_COLLECTIVES and ON_HOST, ns. A step lasts until the next."""
    every = steps(view.trace, view.select.steps_by)
    windows, of_host = (_whole(view, each) for each in (every.device, every.host))
    did_what = doings(view.trace)
    charged, hosts = exclusive(windows, did_what.classes), exclusive(of_host, did_what.of_host)
    did = np.column_stack([charged[:, :1], charged[:, 2:5], charged[:, 5:].sum(axis=1)])
    facts = {"step": view.steps.number, "step_time": view.steps.device.end - view.steps.device.start}
    parts = {name: did[:, place] for place, name in enumerate(COLUMNS)}
    inside = dict(zip(IN_COLLECTIVES, (covered(windows, each) for each in _in_collectives(view)), strict=True))
    alone = dict(zip(ON_HOST.values(), (hosts[:, 0], hosts[:, -1]), strict=True))
    frame = pl.DataFrame({**facts, **parts, **inside, **alone})
    unknown = () if every.origin in _MARKED else (*IN_COLLECTIVES, *ON_HOST.values())
    return frame.with_columns(pl.lit(None, pl.Int64).alias(name) for name in unknown)


def _whole(view: Scope, steps: Intervals) -> Intervals:
    """The selected steps, each until the next begins."""
    until = np.concatenate([steps.start[1:], steps.end[-1:]])
    return view.clipped(steps.start[view.places], until[view.places])


def _in_collectives(view: Scope) -> tuple[Intervals, Intervals]:
    """When the rank was in collectives, and when it computed nothing meanwhile."""
    calls = collective_calls(view.trace, view.select.steps_by).filter(~pl.col("kind").is_in(POINT_TO_POINT))
    start, end = (calls[name].to_numpy() - base_of(view.trace) for name in ("start", "end"))
    inside = union(start, end)
    return inside, difference(inside, doings(view.trace).computation)


def own_time(cells: pl.DataFrame, stages: pl.DataFrame, step_time: int, held: pl.DataFrame | None = None) -> OwnTime:
    """Compare the ranks.

    Args:
        cells: `own_steps` of all ranks, with `rank`, and `calls`, the collectives that the rank had in the step.
        stages: `rank` and `stage`, a code; only ranks of one stage are compared.
        step_time: how long a step is, ns.
        held: rank, step and COLUMNS: what is to be added, as the rank's host left transfer in the open (`charges`).
    """
    is_host_known = not any(cells[name].null_count() for name in ON_HOST.values())
    cells = whole_steps(cells).group_by("rank", "step").agg(pl.col(PARTS).sum())
    if held is not None:
        more = held.join(cells, on=["rank", "step"], how="semi").select("rank", "step", *COLUMNS)
        cells = pl.concat([cells, more], how="diagonal").group_by("rank", "step").agg(pl.col(PARTS).sum())
    columns = [pl.sum_horizontal(COLUMNS), *map(pl.col, PARTS)]
    rank, step, (above, *found) = compared(cells, stages, step_time, columns)
    causes, hosts = tuple(found[: len(COLUMNS)]), found[len(COLUMNS) :]
    return OwnTime(rank, step, above, causes, dict(zip(ON_HOST, hosts, strict=True)) if is_host_known else {})


def is_lasting(seen: Excess, on_host: Excess) -> Bools:
    """Did each rank's host do more than others in each step, beyond doubt, as much each time, and about what was seen?

    What was done once, or by chance, is not as much each time; nor is what seems to be, where events are missing.

    Args:
        seen: own time of a cause.
        on_host: the same of what the host did, hidden or not.
    """
    most = np.nan_to_num(seen.each).max(axis=1, initial=0)
    least = np.where(np.isfinite(on_host.each), on_host.each, np.inf).min(axis=1, initial=np.inf)
    level = on_host.level
    alike = (least >= _AS_MUCH * level) & (level >= _AS_MUCH * most) & (level <= _MORE * most)
    return np.asarray((level > 0) & alike & (on_host.sure > SIGMAS))


def whole_steps(cells: pl.DataFrame) -> pl.DataFrame:
    """Without those that were cut off."""
    return cells.filter(pl.col("calls") >= _WHOLE * pl.col("calls").median().over("rank"))


def compared(
    cells: pl.DataFrame, stages: pl.DataFrame, step_time: int, columns: Sequence[pl.Expr]
) -> tuple[Int64s, Int64s, list[Excess]]:
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
