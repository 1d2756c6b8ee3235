"""Own time of each rank in each step beside that of its peers: is it longer for good, or by chance?

Own time is the time of a rank without collectives: computation, copies, host activities and time without any record;
neither transfer nor waiting, and nothing that a collective hides. Host activities, hidden or not, are kept beside it: a
host that runs ahead of its devices may be slow in each step, and delay the others in the first only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, difference, exclusive, union
from kinetoscope.algorithms.outliers import CERTAIN_Z_SCORE, Excess, excess
from kinetoscope.model.collectives.attributes import POINT_TO_POINT
from kinetoscope.model.collectives.calls import base_of, collective_calls
from kinetoscope.model.steps.scope import Scope
from kinetoscope.model.steps.steps import steps
from kinetoscope.model.stragglers.host_activity import activities

OWN: Final = ("computation", "memory copies", "data loading", "synchronization", "host gap")
"""Causes that are the rank's own; a slow link is not."""

COLUMNS: Final = tuple(f"own {name}" for name in OWN)
"""Columns of `own_steps`, one for each of OWN."""

IN_COLLECTIVES: Final = ("in collectives", "in collectives alone")
"""Columns of `own_steps`: time in collectives, and the part that no computation covers; null where steps have no
marks."""

ON_HOST: Final = {"data loading": "on host data loading", "host gap": "on host nothing"}
"""Columns of `own_steps` by cause: data loading, and time in which nothing but Python functions was called, of the
host's step; hidden or not; null where steps have no marks."""

PARTS: Final = (*COLUMNS, *ON_HOST.values())
"""Columns of `own_steps` by which ranks are compared."""

_NUMBERED_ALIKE: Final = ("profiler", "annotation")

_USUAL_DEVIATION: Final = 0.01
"""Share of a step by which own times vary where nothing else is known."""

_MIN_HOST_SHARE: Final = 0.5
"""Share that the host's excess has in each step of its mean, and that its mean has of the greatest seen delay."""

_MAX_HOST_RATIO: Final = 4
"""The host's mean excess / the greatest seen delay: much of it may have been hidden in that step, too."""

_WHOLE_STEP_SHARE: Final = 0.75
"""Share of a step's usual collectives, without which it was cut off."""


@dataclass(frozen=True)
class OwnTime:
    """Own times of ranks by step, and their excess over those of their peers.

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

    def until_next(windows: Intervals) -> Intervals:
        until = np.concatenate([windows.start[1:], windows.end[-1:]])
        return view.clipped(windows.start[view.places], until[view.places])

    windows = until_next(every.device)
    did = activities(view.trace)
    charged, on_host = exclusive(windows, did.classes), exclusive(until_next(every.host), did.of_host)
    own = np.column_stack([charged[:, :1], charged[:, 2:5], charged[:, 5:].sum(axis=1)])
    calls = collective_calls(view.trace, view.select.steps_by).filter(~pl.col("kind").is_in(POINT_TO_POINT))
    in_collectives = union(*(calls[name].to_numpy() - base_of(view.trace) for name in ("start", "end")))
    inside = in_collectives, difference(in_collectives, did.computation)
    frame = pl.DataFrame(
        {
            "step": view.steps.number,
            "step_time": view.steps.device.end - view.steps.device.start,
            **{name: own[:, place] for place, name in enumerate(COLUMNS)},
            **{name: covered(windows, each) for name, each in zip(IN_COLLECTIVES, inside, strict=True)},
            **dict(zip(ON_HOST.values(), (on_host[:, 0], on_host[:, -1]), strict=True)),
        }
    )
    unknown = () if every.origin in _NUMBERED_ALIKE else (*IN_COLLECTIVES, *ON_HOST.values())
    return frame.with_columns(pl.lit(None, pl.Int64).alias(name) for name in unknown)


def own_time(
    cells: pl.DataFrame, stages: pl.DataFrame, step_time: int, host_exposed: pl.DataFrame | None = None
) -> OwnTime:
    """Compare the ranks.

    Args:
        cells: `own_steps` of all ranks, with `rank`, and `calls`, the collectives that the rank had in the step.
        stages: `rank` and `stage`, a code; only ranks of one stage are compared.
        step_time: duration of a typical step, ns.
        host_exposed: rank, step and COLUMNS: time to be added, in which the rank's host left transfer exposed.
    """
    is_host_known = not any(cells[name].null_count() for name in ON_HOST.values())
    cells = whole_steps(cells).group_by("rank", "step").agg(pl.col(PARTS).sum())
    if host_exposed is not None:
        more = host_exposed.join(cells, on=["rank", "step"], how="semi").select("rank", "step", *COLUMNS)
        cells = pl.concat([cells, more], how="diagonal").group_by("rank", "step").agg(pl.col(PARTS).sum())
    columns = [pl.sum_horizontal(COLUMNS), *map(pl.col, PARTS)]
    rank, step, (above, *others) = excesses(cells, stages, step_time, columns)
    on_host = dict(zip(ON_HOST, others[len(COLUMNS) :], strict=True)) if is_host_known else {}
    return OwnTime(rank, step, above, tuple(others[: len(COLUMNS)]), on_host)


def is_constant(seen: Excess, on_host: Excess) -> Bools:
    """Is each rank's excess host time significant, constant over steps, and about as large as the observed delay?

    An accident is not constant; nor is an excess that is due to missing events.

    Args:
        seen: own time of a cause.
        on_host: the same of the host's activities, hidden or not.
    """
    most = np.nan_to_num(seen.each).max(axis=1, initial=0)
    least = np.where(np.isfinite(on_host.each), on_host.each, np.inf).min(axis=1, initial=np.inf)
    level = on_host.level
    is_as_large = (level >= _MIN_HOST_SHARE * most) & (level <= _MAX_HOST_RATIO * most)
    is_steady = (level > 0) & (least >= _MIN_HOST_SHARE * level)
    return np.asarray(is_steady & is_as_large & (on_host.z_score > CERTAIN_Z_SCORE))


def whole_steps(cells: pl.DataFrame) -> pl.DataFrame:
    """The steps that were not cut off."""
    return cells.filter(pl.col("calls") >= _WHOLE_STEP_SHARE * pl.col("calls").median().over("rank"))


def excesses(
    cells: pl.DataFrame, stages: pl.DataFrame, step_time: int, columns: Sequence[pl.Expr]
) -> tuple[Int64s, Int64s, list[Excess]]:
    """Ranks and steps, both ascending, and the excess of each rank over the others of its stage, by each column.

    `cells` has a row for each rank and step; for the rest see `own_time`.
    """
    rank, row = np.unique(cells["rank"].to_numpy(), return_inverse=True)
    step, place = np.unique(cells["step"].to_numpy(), return_inverse=True)
    stage = pl.DataFrame({"rank": rank}).join(stages, on="rank", how="left", maintain_order="left")["stage"].to_numpy()
    above = []
    for column in columns:
        values = np.full((len(rank), len(step)), np.nan)
        values[row, place] = cells.select(column.cast(pl.Float64)).to_series().to_numpy()
        above.append(excess(values, stage, _USUAL_DEVIATION * step_time))
    return rank, step, above
