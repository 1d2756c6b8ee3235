"""Sources: the function of the program that costs most, and the file around it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.model.execution.frames import user_sources
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.blocks import (
    Bar,
    BarsBlock,
    Block,
    Control,
    ControlsBlock,
    LineTime,
    Link,
    Page,
    SourceBlock,
    TableBlock,
    chosen_value,
)
from kinetoscope.schema import Result
from kinetoscope.views.numbers import grouped
from kinetoscope.views.sentences import Quantity, code, join, say, total
from kinetoscope.views.text import brief, printable

_LINES: Final = 12
_FILES: Final = 30
_NAME_CELLS: Final = 60  # cells of a place in a sentence
_NOTABLE_TIME_SHARE: Final = 0.001  # share that is worth a sentence: what `shown` does not round to nothing
_MORE_COLUMNS: Final = ("device_total", "host_total")
_FOLDER: Final = re.compile(r"^.*[/\\\\]")
_NAMED_OPERATORS: Final = 3  # operators that are named beside a line

_TIMES: Final = (("device_self", "device time"), ("host_self", "host time"))


def page(job: Job, select: Selection, params: Mapping[str, str]) -> Page:
    """The page of the functions of the user's program that take the time."""
    result = named("operator_stacks")(job, select=select, backward="forward")
    on_device = bool(result.frame.get_column("device_self").sum())
    time = chosen_value(params, "time", [value for value, _ in _TIMES], "device_self" if on_device else "host_self")
    functions = _functions(result, time)
    if not functions.height:
        recorded = result.frame.get_column("call_stack").count()
        why = "all stacks are of libraries" if recorded else "record with_stack=True"
        none = say("No operator could be traced to a line of the program: {why}.", why=why)
        return Page("sources", "Sources", none, cannot=result.notes)
    whole = _whole(job, select, result, time)
    first = functions.row(0, named=True)
    most = total(result, time, file=first["file"], line=first["line"])
    sentence = say(
        "{name} costs most: {time} of {words}, {share} of all.",
        name=code(brief(_label(first), _NAME_CELLS)), time=most, words=dict(_TIMES)[time], share=most / whole,
    )  # fmt: skip
    left = (whole - total(result, time, pl.col("file").is_not_null() & (pl.col(time) > 0))) / whole
    if left.number >= _NOTABLE_TIME_SHARE:
        sentence = join([sentence, say("{share} could not be placed in the program.", share=left)])
    blocks = tuple(_blocks(result, functions, time, int(whole.number), params))
    return Page("sources", "Sources", sentence, blocks=blocks, cannot=result.notes)


def _whole(job: Job, select: Selection, result: Result, time: str) -> Quantity:
    """All device work, launched in a call or not; of the host what calls take."""
    if time == "device_self":
        return total(named("kernels")(job, select=select, copies=True), "total")
    return total(result, time)


def _functions(result: Result, time: str) -> pl.DataFrame:
    """file, line, function, module, time, calls, names of operators: those that take most first."""
    placed = result.frame.filter(pl.col("file").is_not_null() & (pl.col(time) > 0)).sort(time, descending=True)
    sums = placed.group_by("file", "line", maintain_order=True).agg(
        pl.col("function").first(),
        pl.when(pl.col("module").n_unique() == 1).then(pl.col("module").first()).alias("module"),
        pl.col(time).sum().alias("time"),
        pl.col("calls").sum(),
        pl.col("name").unique(maintain_order=True),
    )
    return sums.sort(["time", "file", "line"], descending=[True, False, False])


def _label(row: Mapping[str, Any], *, path: bool = False) -> str:
    """Such as `forward (Qwen2MLP) · modeling_qwen2.py:56`."""
    file = printable(row["file"])
    module = f" ({printable(row['module'])})" if row["module"] else ""
    place = f"{file if path else _FOLDER.sub('', file)}:{row['line']}"
    return f"{printable(row['function'])}{module} · {place}" if row["function"] else place


def _totals(result: Result, time: str, file: str) -> dict[int, int]:
    """Time of each line of a file, with all that it calls: each stack counts once for each of its lines."""
    totals: dict[int, int] = {}
    stacks = result.frame.filter(pl.col("call_stack").is_not_null() & (pl.col(time) > 0))
    for stack, spent in stacks.group_by("call_stack").agg(pl.col(time).sum()).iter_rows():
        for line in {source.line for source in user_sources(stack) if source.file == file and source.line is not None}:
            totals[line] = totals.get(line, 0) + spent
    return totals


def _blocks(
    result: Result, functions: pl.DataFrame, time: str, whole: int, params: Mapping[str, str]
) -> Iterator[Block]:
    files = functions.group_by("file").agg(pl.col("time").sum()).sort(["time", "file"], descending=[True, False])
    names = files.get_column("file").to_list()[:_FILES]
    file = params.get("file") or names[0]
    yield ControlsBlock(
        (
            Control("time", "Time", time, _TIMES),
            Control("file", "File", file, [(each, each) for each in dict.fromkeys((file, *names))]),
        )
    )
    bars = [
        Bar(
            _label(row),
            "computation" if time == "device_self" else "host",
            row["time"],
            row["time"] / whole,
            _detail(row["calls"], row["name"]),
            Link(params={"file": row["file"]}),
            name=_label(row, path=True),
        )
        for row in functions.head(_LINES).iter_rows(named=True)
    ]
    note = (
        f"{result.schema[time].doc} The line is that of the function's `def`; in the oldest files that of the call. The"
        " backward pass counts where its forward call stands; what could not be placed in the program is left out."
    )
    yield BarsBlock("Functions that cost most", bars, note=note)
    yield SourceBlock("The file", file, _of_file(functions.filter(file=file), _totals(result, time, file)))
    links = {"file": "file", "line": "line", "name": "name"}
    params = {"backward": "forward", "group_by": "line"}
    columns = ("name", "function", "module", "file", "line", "calls", "device_self", "host_self", *_MORE_COLUMNS)
    yield TableBlock("Operators by function", "operator_stacks", params, columns=columns, sort=f"-{time}", links=links)


def _of_file(functions: pl.DataFrame, totals: Mapping[int, int]) -> list[LineTime]:
    own = {row["line"]: row for row in functions.iter_rows(named=True)}
    return [
        LineTime(
            line,
            own[line]["time"] if line in own else 0,
            totals.get(line, own[line]["time"] if line in own else 0),
            _detail(own[line]["calls"], own[line]["name"]) if line in own else "",
        )
        for line in sorted({*own, *totals} - {None})
    ]


def _detail(calls: int, names: list[str]) -> str:
    more = f" and {len(names) - _NAMED_OPERATORS} more" if len(names) > _NAMED_OPERATORS else ""
    count = f"{grouped(calls)} {'call' if calls == 1 else 'calls'}"
    return f"{count}: {', '.join(printable(name) for name in names[:_NAMED_OPERATORS])}{more}"
