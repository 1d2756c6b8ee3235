"""Categories of operators and kernels on a page: bars of their time, and the choice of one."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.blocks import BarsBlock, Control, Link
from kinetoscope.pages.sections.tables import named_bars
from kinetoscope.views.charts.palette import kind_of

EVERY = "all"
"""The choice of all categories."""

_NOTE = "By words in the name of the operator, else of the kernel. A click shows one category below."


def category_bars(job: Job, select: Selection, value: str, *, kind: str, chosen: str) -> BarsBlock | None:
    """A bar for each category with time in the column `value` of `categories`; None where there is none.

    A click chooses the category, or all of them where it is chosen already.
    """
    result = named("categories")(job, select=select)
    sums = result.frame.group_by("category").agg(pl.col("work", "operators", value).sum())
    sums = sums.filter(pl.col(value) > 0).sort([value, "category"], descending=[True, False])
    total = sums.get_column(value).sum()
    if not total:
        return None
    count = "work" if value == "total" else "operators"
    rows = [
        (name, kind_of(name) if name != "other" else "", calls, time, time / total)
        for name, calls, time in sums.select("category", count, value).iter_rows()
    ]
    bars = named_bars(
        [(name, own or kind, calls, time, share) for name, own, calls, time, share in rows],
        lambda name: Link(params={"category": EVERY if name == chosen else name}),
        chosen=chosen,
    )
    return BarsBlock("By category", bars, result.schema[value].unit, cumulative=False, note=_NOTE)


def category_control(params: Mapping[str, str], frame: pl.DataFrame) -> Control:
    """The choice of a category among those of a table."""
    present = sorted(frame.get_column("category").drop_nulls().unique().to_list(), key=str.lower)
    value = params.get("category", EVERY)
    return Control(
        "category", "Category", value if value in present else EVERY, tuple((each, each) for each in (EVERY, *present))
    )


def of_category(frame: pl.DataFrame, control: Control) -> pl.DataFrame:
    """The rows of the chosen category."""
    return frame if control.value == EVERY else frame.filter(pl.col("category") == control.value)


def category_filter(control: Control) -> str:
    """The filter of a table that the choice asks for."""
    return "" if control.value == EVERY else f"category:eq:{control.value}"
