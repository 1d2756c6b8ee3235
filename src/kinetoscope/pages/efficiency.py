"""Device efficiency: how near to the limits of the device its work runs, and where the rest of its time goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.charts import Roofline
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.blocks import Block, Control, ControlsBlock, Link, Page, TableBlock, chosen_value
from kinetoscope.pages.pictures.occurrences import Measure, occurrences
from kinetoscope.pages.pictures.roofline import headroom_block, roofline_block
from kinetoscope.pages.sections.tables import ranked, with_values
from kinetoscope.pages.sentences.device_limits import device_limits, without_reasons
from kinetoscope.pages.sentences.recorded import has_device_work, has_steps
from kinetoscope.pages.sentences.steps import way_back
from kinetoscope.schema import Result
from kinetoscope.views.charts.roofline import BOUNDS
from kinetoscope.views.sentences import note_of, say

_ROWS: Final = (
    ("op", "operator and shapes"),
    ("kernel", "kernel"),
    ("module", "module"),
    ("category", "category"),
    ("step", "step"),
)

_MEASURES: Final[dict[str, Measure]] = {"op": "device_self", "kernel": "duration"}
"""What is drawn of each call of a row, where rows are calls."""

_ANY_BOUND: Final = "any"

_ANSWERS: Final = ("COVERAGE", "NO_WORK_SELECTED", "NOT_RECORDED", "LOST_DEVICE_WORK")
"""Codes of the notes that are the answer where no limit can be told."""

_NUMBERS: Final = ("calls", "device_time", "floor", "headroom", "efficiency", "bound")
"""Columns beside the names at first: as many as 1440 px hold; the others can be chosen."""

_OF_CHAINS: Final = ("chain", "calls", "device_time", "saved_time_least", "saved_time", "module", "file", "line", "by")

_NAMES: Final = {"op": ("name", "input_shapes"), "category": ("category",), "step": ("step",)}
"""Columns that tell the rows apart, where it is not the name alone."""


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """The page of the device's limits and of the distance to them."""
    by = chosen_value(params, "by", [value for value, _ in _ROWS], "op")
    bound = chosen_value(params, "bound", (_ANY_BOUND, *BOUNDS), _ANY_BOUND)
    result = named("roofline")(job, select=select, by=by)
    info = named("trace_info")(job, select=select).frame
    steps = named("roofline")(job, select=select, by="step")
    blocks = tuple(_blocks(job, select, params.get("name", ""), _named(result, by), steps, by, bound))
    limits = device_limits(steps, marked=has_steps(info), device=has_device_work(info))
    answer = next((note for note in result.notes if note.code in _ANSWERS), "")
    sentence = without_reasons(limits) or say("{note}", note=note_of(result, answer))
    cannot = tuple(note for note in result.notes if note != str(sentence))
    return Page("efficiency", "Device efficiency", sentence, (), blocks, cannot)


def _named(result: Result, by: str) -> Result:
    """The rows with a name: that of the category, or of the step, where there is a row for each of these."""
    step = pl.format("step {}", "step") if by == "step" else pl.lit(None, pl.String)
    own = pl.col("category") if by == "category" else step
    return replace(result, frame=result.frame.with_columns(name=pl.coalesce(own, "name", pl.lit("(no name)"))))


def _blocks(
    job: Job, select: Selection, name: str, result: Result, steps: Result, by: str, bound: str
) -> Iterator[Block]:
    if not result.frame.height:
        yield from way_back(select)
        return
    known = {bound, *result.frame["bound"]}
    bounds = tuple((each, each) for each in (_ANY_BOUND, *BOUNDS) if each in known or each == _ANY_BOUND)
    yield ControlsBlock((Control("by", "A point for each", by, _ROWS), Control("bound", "Bound by", bound, bounds)))
    drawn = result if bound == _ANY_BOUND else replace(result, frame=result.frame.filter(pl.col("bound") == bound))
    links = {each: Link(params={"bound": _ANY_BOUND if each == bound else each}) for each in BOUNDS}
    facts = result.chart_facts
    if isinstance(facts, Roofline):
        peaks = named("peaks")(job, select=select)
        block = roofline_block("Roofline", drawn, facts, links=links, picks="name", chosen=name, peaks=peaks)
        yield from [block] if block else []
    yield headroom_block(steps)
    headroom = drawn.frame.with_columns(kind=pl.lit("waiting"))
    if headroom["headroom"].sum():
        yield ranked(
            "Most headroom, call by call",
            headroom,
            "headroom",
            schema=result.schema,
            kind="waiting",
            link=lambda each: Link(params={"name": "" if each == name else each}),
            chosen=name,
        )
    if name and by in _MEASURES:
        yield occurrences(job, select, name, _MEASURES[by], kind="computation")
    names = _NAMES.get(by, ("name",))
    yield TableBlock(
        "All rows",
        "roofline",
        {"by": by},
        columns=with_values(result.frame, (*names, *_NUMBERS), always=names),
        sort="-headroom",
        filter=_filter(by, bound, name),
        links={"name": "name"} if by in _MEASURES else {},
    )
    yield from _chains(job, select)


def _chains(job: Job, select: Selection) -> Iterator[TableBlock]:
    """The chains of operators whose intermediate results a fused kernel would not write, if there are any."""
    chains = named("fusion")(job, select=select)
    if chains.frame.height:
        columns = with_values(chains.frame, _OF_CHAINS, always=("chain",))
        yield TableBlock(
            "Chains that one kernel could compute",
            "fusion",
            columns=columns,
            sort="-saved_time",
            links={"file": "file", "line": "line"},
        )


def _filter(by: str, bound: str, name: str) -> str:
    """The filter of the table that the choices ask for; a name says more than what limits it."""
    if name and by not in ("category", "step"):
        return f"name:eq:{name}"
    return "" if bound == _ANY_BOUND else f"bound:eq:{bound}"
