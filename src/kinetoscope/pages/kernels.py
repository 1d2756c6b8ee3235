"""Kernels: the few that make most of the device's time, and each call of the chosen one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.model.answer import Partial
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.graphs.annotated import annotated_keys
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.pages.blocks import Block, Control, ControlsBlock, Link, Page, TableBlock, chosen_value
from kinetoscope.pages.pictures.occurrences import occurrences
from kinetoscope.pages.sections.categories import category_bars, category_control, category_filter, of_category
from kinetoscope.pages.sections.compilations import compilation_blocks
from kinetoscope.pages.sections.compiled import compiled_blocks
from kinetoscope.pages.sections.graphs import graph_blocks
from kinetoscope.pages.sections.tables import concentration_sentence, ranked, summed, with_values
from kinetoscope.pages.sentences.steps import way_back
from kinetoscope.schema import Column, Result, Schema
from kinetoscope.views.sentences import EMPTY, Sentence, join, say, total

_COLUMNS = ("name", "category", "calls", "total", "share", "headroom", "efficiency", "occupancy", "matrix_unit")
_LAUNCHES = ("name", "operator", "grid", "block", "calls", "total", "headroom", "waves", "occupancy")
_ANNOTATED = ("name", "annotations", "category", "calls", "total", "share", "mean", "max")
_BY_ARGUMENT = ("argument", "name", "category", "calls", "total", "share", "mean", "max")
"""Columns at first: as many as 1440 px hold; the others can be chosen."""

_ARGUMENT = "argument:"
"""Beginning of the choices that are arguments of kernels."""

_KEYS = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("key", pl.String, "Argument that somebody gave kernels, such as `module_fqn`."),
)

_ROWS = (
    ("name", "name"),
    ("launch", "name, launch and operator"),
    ("annotation", "name and annotations around the launch"),
)


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """The kernels and copies that take most of the devices' time."""
    result = named("kernels")(job, select=select, copies=True)
    makes = concentration_sentence(result, "total", select, what="kernel", of="device time")
    sentence = join([makes, _matrix_units(result)])
    notes = tuple(note for note in result.notes if note.code != "ANNOTATED_KERNELS")  # the control offers it
    return Page("kernels", "Kernels", sentence, (), tuple(_blocks(job, select, params, result)), notes)


def _blocks(job: Job, select: Selection, params: Mapping[str, str], result: Result) -> Iterator[Block]:
    arguments = job.map(_keys_of_trace, _KEYS, ALL).frame["key"].unique(maintain_order=True).to_list()
    choices = (*_ROWS, *((f"{_ARGUMENT}{key}", f"name and argument {key}") for key in arguments))
    group_by = chosen_value(params, "group_by", [value for value, _ in choices], "name")
    category = category_control(params, result.frame)
    yield ControlsBlock((Control("group_by", "A row for each", group_by, choices), category))
    frame = of_category(result.frame, category)
    rows = summed(frame, "total")
    if rows.height:
        name = params.get("name") or str(rows.get_column("name")[0])
        kinds = rows.filter(pl.col("name") == name).get_column("kind")
        if bars := category_bars(job, select, "total", kind="computation", chosen=category.value):
            yield bars
        yield ranked(
            "Kernels and copies",
            frame,
            "total",
            schema=result.schema,
            link=lambda each: Link(params={"name": each}),
            chosen=name,
        )
        yield occurrences(job, select, name, "duration", kind=str(kinds[0]) if len(kinds) else "computation")
        yield from graph_blocks(job, select, params)
        yield from compiled_blocks(job, select, params)
        yield TableBlock("Time by kind", "kernel_kinds")
    else:
        yield from compiled_blocks(job, select, params)
        yield from way_back(select)
    yield from compilation_blocks(job, select)
    argument = group_by.removeprefix(_ARGUMENT) if group_by.startswith(_ARGUMENT) else ""
    by = {"group_by": "name", "argument": argument} if argument else {"group_by": group_by}
    shown = {"launch": _LAUNCHES, "annotation": _ANNOTATED}.get(group_by, _BY_ARGUMENT if argument else _COLUMNS)
    columns = with_values(result.frame, shown, always=("name", "argument") if argument else ("name",))
    yield TableBlock(
        "All kernels and copies",
        "kernels",
        {**by, "copies": "true"},
        columns=columns,
        sort="-total",
        filter=category_filter(category),
        links={"name": "name"},
    )


def _keys_of_trace(trace: Trace, _: Selection) -> Partial:
    return Partial(pl.DataFrame({"key": annotated_keys(trace, device_work(trace).rows)}, {"key": pl.String}))


def _matrix_units(result: Result) -> Sentence:
    """The share of computation on tensor cores, where names tell of enough."""
    known = (pl.col("kind") == "computation") & pl.col("matrix_unit").is_in(["yes", "no"])
    whole = total(result, "total", known)
    if not whole:
        return EMPTY
    share = total(result, "total", known, matrix_unit="yes") / whole
    return say("Of the computation whose names tell, {share} runs on matrix units.", share=share)
