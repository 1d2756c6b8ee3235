"""The calls of two runs as one icicle, coloured by what each takes more or less than before; and by module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

import polars as pl

from kinetoscope.compare.diff.diff import Diff
from kinetoscope.compare.diff.normalize_names import normalized_frame
from kinetoscope.compare.diff.run_profile import RunProfile
from kinetoscope.model.execution.frames import SEPARATOR
from kinetoscope.model.execution.marks import MODULE
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.blocks import IcicleBlock, RowsBlock
from kinetoscope.pages.flame import MAX_FLAME_NODES, WHERE_FROM, stacks_of, totals, trunk
from kinetoscope.pages.pictures.layers import Node, Path, icicle, joined
from kinetoscope.pages.sections.tables import table
from kinetoscope.schema import Column, Schema
from kinetoscope.views.numbers import grouped, shown

Width = Literal["now", "before"]

NO_MODULE: Final = "no module"
"""What stands for the module of calls outside all modules."""

_TITLE: Final = "What changed, call by call"
_BY_MODULE: Final = Schema(
    Column("module", pl.String, "Class of the innermost module around the call."),
    Column("before", pl.Int64, "Time in the mean step, before.", "ns"),
    Column("now", pl.Int64, "Time in the mean step, now.", "ns"),
    Column("change", pl.Int64, "Now less before; all of them sum to the change of the step.", "ns"),
    Column("share", pl.Float64, "Change / mean step before.", "fraction"),
)


@dataclass(frozen=True, slots=True)
class Side:
    """A run of the comparison: its job, and how many steps of ranks it has."""

    job: Job
    profile: RunProfile


def of_step(difference: Diff, *, frames: str, width: Width) -> IcicleBlock:
    """The mean step by the calls that own its instants: as wide as the step, the changes sum to its change."""
    before: list[tuple[Path, int, int]] = []
    now: list[tuple[Path, int, int]] = []
    columns = ("path", "name", "base", "new")
    for around, name, base_time, new_time in difference.rows.frame.select(*columns).iter_rows():
        path = tuple(part for part in around.split(SEPARATOR) if part and (frames == "all" or part.startswith(MODULE)))
        for rows, time in ((before, base_time), (now, new_time)):
            if time:
                rows.append(((*path, name), time, 0))
    note = "Time of the step: each instant belongs to one call, as in the table of calls below."
    return _picture(_tree(now), _tree(before), (1, 1), width, "computation", note)


def of_calls(base: Side, new: Side, select: Selection, *, weight: str, frames: str, width: Width) -> IcicleBlock:
    """Device or host time by call stack, in a mean step of each run, names without what differs from run to run."""
    before, now = (stacks_of(side.job, select, weight=weight, frames=frames) for side in (base, new))
    kind = "host" if now.weight == "host" else "computation"
    counts = new.profile.count, base.profile.count
    return _picture(_tree(now.rows), _tree(before.rows), counts, width, kind, WHERE_FROM[now.weight])


def _tree(rows: Iterable[tuple[Path, int, int]]) -> dict[Path, Node]:
    return joined(totals(rows), normalized_frame)


def _picture(
    now: Mapping[Path, Node], before: Mapping[Path, Node], counts: tuple[int, int], width: Width, kind: str, note: str
) -> IcicleBlock:
    """The tree of one run, as wide as it is there; each node with its time in the other. `counts`: steps of both."""
    (drawn, other), (steps, other_steps) = ((now, before), counts) if width == "now" else ((before, now), counts[::-1])
    depth = trunk(drawn)
    whole = sum(node.time for path, node in drawn.items() if len(path) == 1) / steps
    note += f" As wide as it is {width}: {shown(whole, 'ns')} in a mean step."
    missing = sum(n.time for path, n in other.items() if path not in drawn and path[:-1] in {(), *drawn}) / other_steps
    if missing:
        note += f" {shown(missing, 'ns')} of the other run are of calls that are not here."
    note += f" The {grouped(depth)} calls around everything are left out." if depth else ""
    inside = {path[depth:]: node for path, node in drawn.items() if len(path) > depth}
    head = next((path[:depth] for path in drawn if len(path) > depth), ())
    picture, order = icicle(_TITLE, inside, kind=kind, note=note, max_nodes=MAX_FLAME_NODES, steps=steps)
    times = [other[path].time if (path := (*head, *tail)) in other else 0 for tail in order]
    return replace(picture, other=[time / other_steps if other_steps > 1 else time for time in times], wide=width)


def by_module(difference: Diff) -> RowsBlock | None:
    """The change of the step by the class of the module around each call; nothing where no module is known."""
    frame = difference.rows.frame
    module = pl.col("path").str.split(SEPARATOR).list.eval(pl.element().filter(pl.element().str.starts_with(MODULE)))
    named = frame.with_columns(module=module.list.last().str.strip_prefix(MODULE).fill_null(NO_MODULE))
    if named.get_column("module").eq(NO_MODULE).all():
        return None
    summed = named.group_by("module").agg(
        before=pl.col("base").sum(), now=pl.col("new").sum(), change=pl.col("change").sum()
    )
    shares = summed.with_columns(
        share=pl.col("change") / difference.base if difference.base else pl.lit(None, pl.Float64)
    )
    order = shares.sort(pl.col("change").abs(), pl.col("before"), "module", descending=[True, True, False])
    return table("What changed by module", _BY_MODULE, order, "The changes sum to the change of the step.")
