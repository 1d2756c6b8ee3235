"""Operators: the few that make most of the time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, cast

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.blocks import Block, Control, ControlsBlock, Link, Page, TableBlock, chosen_value
from kinetoscope.pages.pictures.occurrences import occurrences
from kinetoscope.pages.sections.categories import category_bars, category_control, category_filter, of_category
from kinetoscope.pages.sections.tables import concentration_sentence, ranked, summed, with_values
from kinetoscope.pages.sentences.steps import way_back
from kinetoscope.schema import Schema

Time = Literal["device_self", "host_self"]

_KINDS: dict[Time, str] = {"device_self": "computation", "host_self": "host"}
_COLUMNS = {
    "name": ("name", "category"),
    "shapes": ("name", "input_shapes"),
    "stack": ("name", "call_stack"),
}
_NUMBERS = ("calls", "host_self", "device_total", "device_self", "headroom", "efficiency", "matrix_self_share")

_OPERATORS = ~pl.col("name").str.starts_with("ProfilerStep")
"""Rows of calls: what no call of a step explains is no call's."""

_TIMES: dict[Time, str] = {
    "device_self": "device time",
    "host_self": "host time",
}


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """The operators that take most of the device's time, or of the host's."""
    result = named("operators")(job, select=select)
    frame = result.frame.filter(_OPERATORS)
    has_device = bool(frame.get_column("device_self").sum())
    time = cast(Time, chosen_value(params, "time", tuple(_TIMES), "device_self" if has_device else "host_self"))
    group_by = chosen_value(params, "group_by", ("name", "shapes", "stack"), "name")
    category = category_control(params, frame)
    value = "total" if time == "device_self" else "host_self"
    bars = category_bars(job, select, value, kind=_KINDS[time], chosen=category.value)
    return Page(
        name="operators",
        title="Operators",
        sentence=concentration_sentence(result, time, select, what="operator", of=_TIMES[time], rows=_OPERATORS),
        blocks=(
            ControlsBlock(
                (
                    Control("time", "Time", time, tuple(_TIMES.items())),
                    Control(
                        "group_by",
                        "A row for each",
                        group_by,
                        (("name", "name"), ("shapes", "name and shapes"), ("stack", "name and call stack")),
                    ),
                    category,
                )
            ),
            *([bars] if bars else []),
            *_selected(job, select, params, of_category(frame, category), time, result.schema),
            TableBlock(
                "All operators",
                "operators",
                {"group_by": group_by},
                columns=with_values(frame, (*_COLUMNS[group_by], *_NUMBERS), always=_COLUMNS[group_by]),
                sort=f"-{time}",
                filter=category_filter(category),
                links={"name": "name"},
            ),
        ),
        cannot=result.notes,
    )


def _selected(
    job: Job, select: Selection, params: Mapping[str, str], frame: pl.DataFrame, time: Time, schema: Schema
) -> Iterator[Block]:
    """The first operators, and each call of the one that the reader chose, else of the first."""
    rows = summed(frame, time)
    if not rows.height:
        yield from way_back(select)
        return
    chosen, kind = params.get("name") or str(rows.get_column("name")[0]), _KINDS[time]
    title = f"Operators by {_TIMES[time]}"
    yield ranked(
        title, frame, time, schema=schema, kind=kind, link=lambda each: Link(params={"name": each}), chosen=chosen
    )
    yield occurrences(job, select, chosen, time, kind=kind)
