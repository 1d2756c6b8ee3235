"""Ledger: a line for each run with its step as a bar, and under it what was changed for it and what that brought."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from kinetoscope.pages.answers.promises import promise_lines
from kinetoscope.pages.blocks import Page
from kinetoscope.pages.grid import GridBlock, GridRow
from kinetoscope.schema import Result, Unit
from kinetoscope.views.numbers import MISSING, scale, significant

_COLUMNS: Final[tuple[tuple[str, str, Unit], ...]] = (
    ("step_time", "step", "ns"),
    ("samples_per_second", "samples/s", ""),
    ("utilization", "GPU", "fraction"),
    ("matrix_unit_share", "tensor", "fraction"),
    ("memory_peak", "memory", "bytes"),
)
_VERDICTS: Final = {"better": "▲ faster", "worse": "▼ slower", "same": "= as before", "inconclusive": "? may be noise"}


def of_ledger(ledger: Result, promised: pl.DataFrame | None = None) -> Page:
    """The runs in a row; with `promised` (see `delivery`), what of each run's findings was kept."""
    rows = ledger.frame.to_dicts()
    columns = [*_columns(rows)]
    lines = [
        GridRow(
            (row["run"], *(column[place + 1] for column in columns)),
            "computation",
            0.0,
            row["step_time"],
            strong=True,
            about=tuple(_about(row, place, rows, promised)),
        )
        for place, row in enumerate(rows)
    ]
    heads = ("run", *(column[0] for column in columns))
    return Page("ledger", "", "", (), (GridBlock("", heads, lines, named=True, whole=True),), ledger.notes)


def _columns(rows: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """The head of each column with a value, and its texts in one unit."""
    for name, head, unit in _COLUMNS:
        of = scale([row[name] for row in rows], unit)
        if any(row[name] is not None for row in rows):
            yield [head, *(of.with_unit(row[name]) for row in rows)]
    for name, head in (("gain_previous", "× previous"), ("gain_first", "× first"))[: len(rows) - 1]:
        yield [head, *(MISSING if row[name] is None else f"×{significant(row[name])}" for row in rows)]
    if any(row["verdict"] for row in rows):
        yield ["", *(_VERDICTS.get(row["verdict"] or "", "") for row in rows)]


def _about(
    row: Mapping[str, Any], place: int, rows: Sequence[Mapping[str, Any]], promised: pl.DataFrame | None
) -> Iterator[str]:
    """What was changed for a run, and what of that had been promised."""
    if row["changed"]:
        yield row["changed"]
    if promised is not None and place:
        here = promised.filter((pl.col("run") == rows[place - 1]["path"]) & (pl.col("next") == row["path"]))
        yield from promise_lines(here)
