"""Sources: the line of the program that costs most, and the file around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.model.job import Job
from kinetoscope.model.selection import Selection
from kinetoscope.model.stacks import user_sources
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
    result = named("operator_stacks")(job, select=select, backward="forward")
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


def _totals(result: Result, time: str, file: str) -> dict[int, int]:
    """Time of each line of a file, with all that it calls: each stack counts once for each of its lines."""
    totals: dict[int, int] = {}
    stacks = result.frame.filter(pl.col("call_stack").is_not_null() & (pl.col(time) > 0))
    for stack, spent in stacks.group_by("call_stack").agg(pl.col(time).sum()).iter_rows():
        for line in {source.line for source in user_sources(stack) if source.file == file and source.line is not None}:
            totals[line] = totals.get(line, 0) + spent
    return totals


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
    note = (
        f"{result.schema[time].doc} The backward pass counts where its forward call stands;"
        " operators that no line of the program could be found for are left out."
    )
    yield Bars("Lines that cost most", bars, note=note)
    yield Source("The file", file, _of_file(lines.filter(file=file), _totals(result, time, file)))
    links = {"file": "file", "line": "line", "name": "name"}
    forward = {"backward": "forward"}
    told = ("name", "file", "line", "function", "calls", "host_total", "host_self", "device_total", "device_self")
    yield Table("Operators by call stack", "operator_stacks", forward, columns=told, sort=f"-{time}", links=links)


def _of_file(lines: pl.DataFrame, totals: Mapping[int, int]) -> list[SourceLine]:
    own = {row["line"]: row for row in lines.iter_rows(named=True)}
    return [
        SourceLine(
            line,
            own[line]["time"] if line in own else 0,
            totals.get(line, own[line]["time"] if line in own else 0),
            _detail(own[line]["calls"], own[line]["name"]) if line in own else "",
        )
        for line in sorted({*own, *totals} - {None})
    ]


def _detail(calls: int, names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{grouped(calls)} calls: {', '.join(printable(name) for name in names[:_NAMED])}{more}"
