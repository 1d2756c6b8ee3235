"""The fall from one mean step to another: by kinds of time, and in each by what changed most."""

from __future__ import annotations

from typing import Final

import polars as pl

from kinetoscope.analyses.step_breakdown import CATEGORIES
from kinetoscope.model.history.rank_series import PARTS as PARTS_OF_STEP
from kinetoscope.model.history.tables import PART_WORDS
from kinetoscope.model.trace.text import number_of
from kinetoscope.schema import Column, Schema

WATERFALL = Schema(
    Column("category", pl.String, "Category of `step_breakdown`; of whole runs a part of a step."),
    Column("part", pl.String, "What changed in it, by name; null in the row of the category itself."),
    Column("base", pl.Int64, "Time in a mean step of the first run.", "ns"),
    Column("new", pl.Int64, "Time in a mean step of the second run.", "ns"),
    Column(
        "change", pl.Int64, "The second less the first; categories sum to the change, parts to their category.", "ns"
    ),
    Column("share", pl.Float64, "Change / mean step of the first run.", "fraction"),
    Column("from_time", pl.Int64, "Where it begins in the fall from the one step to the other.", "ns"),
    Column("to_time", pl.Int64, "Where it ends.", "ns"),
    Column("owners", pl.Int64, "How many rows of the table are in it."),
)
"""The rows of `Diff.waterfall`: categories with most change first, each followed by its parts."""

LABELS: Final = {
    "computation": "computation",
    "communication": "exposed communication",
    "memcpy": "exposed copies",
    "memset": "exposed memsets",
    "runtime": "runtime calls",
    "data_loading": "data loading",
    "host": "host operators",
    "other": "Python and waiting",
    **{part: PART_WORDS[part] for part in PARTS_OF_STEP},
}
"""Words for the categories; for the parts of a step, which take their place where whole runs are compared."""

PARTS: Final = 4
"""Parts of a category that have a row of their own in the waterfall."""

MIN_CHANGE_SHARE: Final = 0.002
"""Share of the step from which on a change is a part of its own, and from which on it is held against noise: no
realistic number of steps shows less."""


def waterfall(rows: pl.DataFrame, step: int) -> pl.DataFrame:
    """The rows of WATERFALL, of rows as `diff.ROWS` has them; `step` is the mean step of the first run, ns."""
    bars: list[tuple[object, ...]] = []
    at = step
    sums = rows.group_by("category").agg(pl.col("base", "new", "change").sum(), owners=pl.len())
    place = {name: place for place, name in enumerate((*CATEGORIES, *PARTS_OF_STEP))}
    categories = sorted(sums.rows(), key=lambda row: (-abs(row[3]), place[row[0]]))
    for category, before, after, change, owners in categories:
        if not before and not after:
            continue
        bars.append((category, None, before, after, change, change / step if step else None, at, at + change, owners))
        inner = at
        for part, *numbers, count in _parts(rows.filter(pl.col("category") == category), step):
            bars.append(
                (category, part, *numbers, numbers[2] / step if step else None, inner, inner + numbers[2], count)
            )
            inner += numbers[2]
        at += change
    return WATERFALL.frame(bars)


def _parts(rows: pl.DataFrame, step: int) -> list[tuple[str, int, int, int, int]]:
    """Changes in a category: by name, the few that changed most; and the rest."""
    label = pl.when(pl.col("was_name").is_null()).then("name").otherwise(pl.col("was_name") + " → " + pl.col("name"))
    sums = (
        rows.with_columns(part=label)
        .group_by("part")
        .agg(pl.col("base", "new", "change").sum(), owners=pl.len())
        .sort(pl.col("change").abs(), "part", descending=[True, False])
    )
    large = sums.filter(pl.col("change").abs() >= MIN_CHANGE_SHARE * step).head(PARTS)
    others = sums.join(large, on="part", how="anti")
    parts = large.rows()
    if parts and others.get_column("change").sum():
        rest = others.select(pl.col("base", "new", "change", "owners").sum()).row(0)
        parts.append((number_of(others.height, "other"), *rest))
    return parts
