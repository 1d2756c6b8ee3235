"""Sources: the line of the program that costs most, and the file around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.model.job import Job
from kinetoscope.model.selection import Selection
from kinetoscope.pages.blocks import Bar, Bars, Block, Controls, Link, Page, Source, SourceLine, Table
from kinetoscope.pages.controls import choice, chosen
from kinetoscope.schema import Result
from kinetoscope.views.numbers import grouped, shown
from kinetoscope.views.text import brief, printable

_LINES: Final = 12
_FILES: Final = 30
_NAME: Final = 60  # cells of a place in a sentence
_NAMED: Final = 3  # operators that are named beside a line

_TIMES: Final = (("device_self", "device time"), ("host_self", "host time"))


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """Which lines of the user's program take the time."""
    result = named("operator_stacks")(job, select=select)
    on_device = bool(result.frame.get_column("device_self").sum())
    time = chosen(params, "time", [value for value, _ in _TIMES], "device_self" if on_device else "host_self")
    lines = _lines(result, time)
    if not lines.height:
        words = "No operator could be traced to a line of the program: record with_stack=True."
        return Page("sources", "Sources", words, cannot=result.notes)
    total = float(result.frame.get_column(time).sum())
    file, line, spent = lines.select("file", "line", "time").row(0)
    words = dict(_TIMES)[time]
    sentence = (
        f"`{brief(printable(file), _NAME)}:{line}` costs most: {shown(spent, 'ns')} of {words},"
        f" {shown(spent / total, 'fraction')} of all."
    )
    return Page(
        "sources", "Sources", sentence, blocks=tuple(_blocks(result, lines, time, total, params)), cannot=result.notes
    )


def _lines(result: Result, time: str) -> pl.DataFrame:
    """file, line, function, time, calls, names of operators: those that take most first."""
    placed = result.frame.filter(pl.col("file").is_not_null() & (pl.col(time) > 0)).sort(time, descending=True)
    sums = placed.group_by("file", "line", maintain_order=True).agg(
        pl.col("function").first(),
        pl.col(time).sum().alias("time"),
        pl.col("calls").sum(),
        pl.col("name").unique(maintain_order=True),
    )
    return sums.sort(["time", "file", "line"], descending=[True, False, False])


def _blocks(result: Result, lines: pl.DataFrame, time: str, total: float, params: Mapping[str, str]) -> Iterator[Block]:
    files = lines.group_by("file").agg(pl.col("time").sum()).sort(["time", "file"], descending=[True, False])
    names = files.get_column("file").to_list()[:_FILES]
    file = params.get("file") or names[0]
    yield Controls(
        (
            choice("time", "Time", time, _TIMES),
            choice("file", "File", file, [(each, each) for each in dict.fromkeys((file, *names))]),
        )
    )
    bars = [
        Bar(
            f"{row['file']}:{row['line']}",
            "computation" if time == "device_self" else "host",
            row["time"],
            row["time"] / total,
            row["function"] or "",
            Link(params={"file": row["file"]}),
        )
        for row in lines.head(_LINES).iter_rows(named=True)
    ]
    note = f"{result.schema[time].doc} Operators that no line of the program could be found for are left out."
    yield Bars("Lines that cost most", bars, note=note)
    of_file = lines.filter(file=file).sort("line")
    yield Source(
        file,
        file,
        [
            SourceLine(row["line"] or 0, row["time"], row["time"], _detail(row["calls"], row["name"]))
            for row in of_file.iter_rows(named=True)
        ],
    )
    links = {"file": "file", "line": "line", "name": "name"}
    yield Table("Operators by call stack", "operator_stacks", sort=f"-{time}", links=links)


def _detail(calls: int, names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{grouped(calls)} calls: {', '.join(printable(name) for name in names[:_NAMED])}{more}"
