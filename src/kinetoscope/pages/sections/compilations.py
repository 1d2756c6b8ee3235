"""Compilations of torch.compile, their phases, and where its graphs break."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from kinetoscope.analyses import named
from kinetoscope.model.compile.regions import PHASES
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.pages.blocks import Bar, BarsBlock, Block, Link, Part, PartsBlock, TableBlock
from kinetoscope.pages.sections.tables import first_cycle, with_values
from kinetoscope.schema import Result
from kinetoscope.views.numbers import grouped
from kinetoscope.views.text import printable

_MAX_BARS: Final = 8

_PHASES: Final = dict(
    zip(
        PHASES,
        ("Dynamo", "AOTAutograd", "Inductor", "Code generation", "Compiler of kernels", "At run time"),
        strict=True,
    )
)

_OF_COMPILATIONS: Final = (
    "compile_id", "function", "file", "line", "reason", "time", "calls", "cache_misses", "failure", *PHASES,
)  # fmt: skip
_OF_BREAKS: Final = ("file", "line", "function", "code", "reason", "hint", "skipped", "calls", "between", "longest")
"""Columns at first: as many as 1440 px hold; the others can be chosen."""


def compilation_blocks(job: Job, select: Selection) -> Iterator[Block]:
    """Compilations of all that was recorded, and graph breaks of the selection, if anything was compiled."""
    made = named("compilations")(job, select=ALL)
    if not made.frame.height:
        return
    breaks = named("graph_breaks")(job, select=select)
    rows = breaks.frame.filter(pl.col("between") > 0)
    if rows.height:
        yield _bars("Graph breaks", breaks, rows, "between", _break)
    if breaks.frame.height:
        columns = with_values(breaks.frame, _OF_BREAKS, always=("file", "line"))
        yield TableBlock("All graph breaks", "graph_breaks", columns=columns, sort="-between")
    rows = made.frame.filter(pl.col("time") > 0)
    if rows.height:
        yield _bars("Compilations", made, rows, "time", _compilation)
        yield _phases(made, rows)
    columns = with_values(made.frame, _OF_COMPILATIONS, always=("compile_id",))
    yield TableBlock("All compilations", "compilations", columns=columns)


def _bars(title: str, result: Result, rows: pl.DataFrame, value: str, words: Any) -> BarsBlock:
    total = rows[value].sum()
    ranks = rows["rank"].n_unique()
    ordered = first_cycle(rows).sort(value, descending=True, nulls_last=True)
    bars = []
    for row in ordered.head(_MAX_BARS).iter_rows(named=True):
        label, detail, link = words(row)
        label = f"rank {row['rank']}: {label}" if ranks > 1 else label
        bars.append(Bar(printable(label), "host", row[value], row[value] / total, printable(detail), link))
    note = result.schema[value].doc + (" The table below has the others." if rows.height > len(bars) else "")
    return BarsBlock(title, bars, note=note)


def _compilation(row: Mapping[str, Any]) -> tuple[str, str, Link | None]:
    label = " ".join(filter(None, (row["compile_id"], row["function"], _place(row))))
    link = None
    if row["in_trace"] and row["start"] is not None and row["start"] >= 0:
        link = Link(view="timeline", rank=row["rank"], time=(row["start"], row["start"] + row["in_trace"]))
    return label or "unknown", row["reason"] or "", link


def _break(row: Mapping[str, Any]) -> tuple[str, str, Link | None]:
    calls = f"{grouped(row['calls'])} call{'s' * (row['calls'] != 1)}"
    detail = ", ".join(filter(None, (calls, row["reason"])))
    return _place(row) or "unknown place", detail, Link(rank=row["rank"], row=row["row"])


def _place(row: Mapping[str, Any]) -> str:
    return f"{row['file'].rpartition('/')[2]}:{row['line']}" if row["file"] else ""


def _phases(result: Result, rows: pl.DataFrame) -> PartsBlock:
    parts = [
        Part(
            "host",
            label,
            float(rows[phase].sum()),
            result.schema[phase].doc,
            shade=shade,
        )
        for (phase, label), shade in zip(_PHASES.items(), (1.0, 0.85, 0.7, 0.55, 0.4, 0.25), strict=True)
        if rows[phase].sum()
    ]
    return PartsBlock("Time of compiling by phase", parts, note="Of all compilations, before the recording too.")
