"""Modules: the tree of nn.Modules by their time, on the device or the host, in the forward or the backward pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, cast

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.blocks import Block, Control, ControlsBlock, IcicleBlock, Page, TableBlock, chosen_value
from kinetoscope.pages.flame import FRAME, flame
from kinetoscope.pages.pictures import layers
from kinetoscope.pages.pictures.layers import Path, class_of_module, joined
from kinetoscope.pages.sections.tables import with_values
from kinetoscope.pages.sentences.steps import nothing
from kinetoscope.schema import Result, Unit
from kinetoscope.views.sentences import Sentence, computed, join, say, total
from kinetoscope.views.text import brief, printable

_NODES = 4000
"""Rectangles; what is left out is too narrow to be seen."""

_NAME_CELLS = 60  # cells of a name in a sentence
_TIME_CHOICES = (("device", "device"), ("host", "host"))
_PASS_CHOICES = (("total", "forward and backward"), ("forward", "forward"), ("backward", "backward"))


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """The page of the modules that the time is spent for."""
    result = named("modules")(job, select=select)
    on_device = bool(result.frame.get_column("device_total").sum())
    where = chosen_value(params, "where", [value for value, _ in _TIME_CHOICES], "device" if on_device else "host")
    which = chosen_value(params, "pass", [value for value, _ in _PASS_CHOICES], "total")
    value = f"{where}_{which}"
    return Page(
        "modules",
        "Modules",
        _sentence(result, value, where, select),
        (),
        tuple(_blocks(result, value, where, which, flame(job, select, weight=where, chosen=params.get(FRAME, "")))),
        result.notes,
    )


def _sentence(result: Result, value: str, where: str, select: Selection) -> Sentence:
    whole = total(result, value, depth=0)
    if not result.frame.height:
        return join([nothing("module", select).removesuffix("."), "; the tree below is of calls."], "")
    if not whole:
        return say("Modules were recorded, and no {where} time in them.", where=where)
    takes = say("Modules take {time} of {where} time", time=whole, where=where)
    if not value.endswith("total"):  # of one pass the time of a module's own is not known
        return join([takes, "."], "")
    kind, count, own = (computed(result, partial(_heaviest, at=at, where=where), unit) for at, unit in _HEAVIEST)
    if not own:
        return join([takes, "."], "")
    name = kind.words(f"`{brief(printable(str(kind.value)), _NAME_CELLS)}`")
    which = say("the {count} {name}", count=count, name=name) if count.number > 1 else say("{name}", name=name)
    return say(
        "{takes}; {which} alone {own} ({share}), without the modules inside.",
        takes=takes, which=which, own=own, share=own / whole,
    )  # fmt: skip


_HEAVIEST: Final[tuple[tuple[int, Unit], ...]] = ((0, ""), (1, ""), (2, "ns"))
"""Class, how many there are, time: places in a row of `_heaviest`, and their units."""


def _heaviest(frame: pl.DataFrame, *, at: int, where: str) -> str | int:
    """Of the class of modules with the most time of their own: its name, how many there are, or that time.

    torch numbers the modules of a class: `Linear_0`, `Linear_1`.
    """
    own = f"{where}_self"
    kinds = frame.with_columns(kind=pl.col("name").str.replace(r"_\d+$", ""))
    sums = kinds.group_by("kind").agg(pl.col("path").n_unique(), pl.col(own).sum())
    return cast(str | int, sums.sort([own, "kind"], descending=[True, False]).row(0)[at])


def _blocks(result: Result, value: str, where: str, which: str, calls: Iterator[Block]) -> Iterator[Block]:
    yield ControlsBlock(
        (Control("where", "Time of", where, _TIME_CHOICES), Control("pass", "Pass", which, _PASS_CHOICES))
    )
    if result.frame.height:
        yield icicle("Modules", result, value)
    yield from calls
    if result.frame.height:
        times = [f"{where}_{of}" for of in ("total", "self", "forward", "backward")]
        times += ["headroom", "efficiency"] if where == "device" else []
        columns = with_values(result.frame, ("name", "calls", *times, "operators", "path"))
        yield TableBlock("All modules", "modules", columns=columns, sort=f"-{value}", links={"name": "name"})


def icicle(title: str, result: Result, value: str) -> IcicleBlock:
    """The rows of `modules`, whose paths make the tree."""
    summed = result.frame.group_by("path").agg(pl.col("name", "depth").first(), pl.col(value, "calls").sum())
    rows = summed.filter(pl.col(value) > 0).sort(["depth", value, "path"], descending=[False, True, False])
    paths: dict[str, Path] = {}
    for path, name, depth in rows.select("path", "name", "depth").iter_rows():
        around = paths.get(path[: len(path) - len(name) - 1]) if depth else ()
        if around is not None:
            paths[path] = (*around, name)
    times = rows.select("path", value, "calls").iter_rows()
    tree = joined(((paths[path], time, calls) for path, time, calls in times if path in paths), class_of_module())
    kind = "host" if value.startswith("host") else "computation"
    note = result.schema[value].doc + " Modules of one class are together."
    return layers.icicle(title, tree, kind=kind, note=note, max_nodes=_NODES)[0]
