"""Compare: how much longer a step of this run takes than one of another, and which calls account for all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from kinetoscope.compare.diff import ROWS, Diff, diff
from kinetoscope.compare.naming import told_apart
from kinetoscope.compare.waterfall import LABELS
from kinetoscope.errors import InputError
from kinetoscope.model.job import Job
from kinetoscope.model.selection import Selection
from kinetoscope.pages.blocks import Bar, Bars, Block, Chart, Head, Page, Rows
from kinetoscope.pages.pictures import waterfall
from kinetoscope.views.palette import kind_of

_MOST: Final = 2000
"""Rows of the table; further ones hardly changed, and stand in what `kinetoscope diff --format csv` writes."""

_CALLS: Final = (
    "name",
    "category",
    "status",
    "base",
    "new",
    "change",
    "base_calls",
    "new_calls",
    "verdict",
    "was_name",
    "path",
    "input_shapes",
    "was_path",
    "was_shapes",
)


def page(job: Job, select: Selection, params: Mapping[str, str], *, base: Job | None = None) -> Page:
    """What changed from `base` to `job`."""
    del params
    if base is None:
        return Page("compare", "Compare", "Choose a run to compare with, at the top.")
    try:
        found = diff(base, job, select=select)
    except InputError as error:
        return Page("compare", "Compare", "One of the runs has no step to compare.", cannot=(str(error),))
    before, after = told_apart([base.path, job.path])
    facts = (f"from {before}", f"to {after}")
    return Page("compare", "Compare", found.sentence, facts, tuple(_blocks(found)), found.notes)


def _blocks(found: Diff) -> Iterator[Block]:
    fall = found.waterfall.frame
    categories = fall.filter(pl.col("part").is_null()).to_dicts()
    yield _fall(found, categories)
    longest = max((max(row["base"], row["new"]) for row in categories), default=0)
    for title, column, width in (("Before", "base", "wide"), ("Now", "new", "narrow")):
        bars = [_bar(row["category"], row[column], getattr(found, column)) for row in _in_order(categories)]
        yield Bars(title, bars, cumulative=False, full=longest, width="wide" if width == "wide" else "narrow")
    yield _parts(found)
    yield _calls(found)


def _fall(found: Diff, categories: list[dict[str, Any]]) -> Chart:
    changes = [(_label(str(row["category"])), float(row["change"])) for row in categories]
    note = "Each bar is the change of one kind of time in the mean step; together they are the whole change, exactly."
    begin = ("Step before", float(found.base))
    return waterfall("From the one step to the other", begin, changes, "Step now", unit="ns", note=note)


def _in_order(categories: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As instants are charged."""
    order = list(LABELS)
    return sorted(categories, key=lambda row: order.index(str(row["category"])))


def _bar(category: str, time: int, step: int) -> Bar:
    return Bar(_label(category), kind_of(category) or "idle", time, time / step if step else 0.0)


def _label(category: str) -> str:
    return LABELS[category].capitalize()


def _parts(found: Diff) -> Rows:
    """What changed most in each kind of time, by name."""
    frame = found.waterfall.frame
    divided = frame.filter(pl.col("part").is_not_null()).get_column("category").unique().to_list()
    shown = frame.filter(pl.col("part").is_not_null() | ~pl.col("category").is_in(divided))
    rows = [
        (_label(row["category"]), row["part"] or "all of it", row["base"], row["new"], row["change"], row["share"])
        for row in shown.iter_rows(named=True)
    ]
    heads = (
        Head("category", "String", doc="Kind of time."),
        Head("part", "String", doc="What changed in it, by name."),
        Head("before", "Int64", "ns", "Time in the mean step, before."),
        Head("now", "Int64", "ns", "Time in the mean step, now."),
        Head("change", "Int64", "ns", "Now less before; all of them sum to the change of the step."),
        Head("share", "Float64", "fraction", "Change / mean step before."),
    )
    return Rows("What changed in each kind of time", heads, rows)


def _calls(found: Diff) -> Rows:
    """Every call, kernel and copy whose time or number changed, those that changed most first."""
    frame = found.rows.frame
    frame = frame.filter((pl.col("change") != 0) | (pl.col("base_calls") != pl.col("new_calls")))
    heads = tuple(
        Head(_NAMES.get(name, name), str(ROWS[name].dtype), ROWS[name].unit, ROWS[name].doc) for name in _CALLS
    )
    left = frame.slice(_MOST)
    rest = f" Left out are {left.height:,} that changed least." if left.height else ""
    note = f"The changes of all rows sum to the change of the step.{rest}"
    shown = frame.head(_MOST).with_columns(pl.col("category").replace(LABELS)).select(_CALLS)
    return Rows("Calls, kernels and copies by change", heads, shown.rows(), note=note)


_NAMES: Final = {"base": "before", "new": "now", "base_calls": "calls_before", "new_calls": "calls_now"}
