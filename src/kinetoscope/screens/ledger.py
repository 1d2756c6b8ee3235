"""A ledger as lines: a row for each run with its step as a bar, and under it what was changed for it.

Draws the result of `compare.ledger.ledger`, and computes nothing but lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from kinetoscope.schema import Result, Unit
from kinetoscope.screens import promises
from kinetoscope.views.numbers import MISSING, scale, significant
from kinetoscope.views.terminal.bars import bar
from kinetoscope.views.terminal.lines import Line, plain
from kinetoscope.views.text import cells, middle, padded, printable, wrapped

MAX_LINE_CELLS: Final = 120

_COLUMNS: Final[tuple[tuple[str, str, Unit], ...]] = (
    ("step_time", "step", "ns"),
    ("samples_per_second", "samples/s", ""),
    ("utilization", "GPU", "fraction"),
    ("matrix_unit_share", "tensor", "fraction"),
    ("memory_peak", "memory", "bytes"),
)
_VERDICT_MARKS: Final = {
    "better": ("▲", "memory"),
    "worse": ("▼", "warn"),
    "same": ("=", "dim"),
    "inconclusive": ("?", "dim"),
}
_WORDS: Final = {"better": "faster", "worse": "slower", "same": "as before", "inconclusive": "may be noise"}
_BAR: Final = 10, 28


def lines(ledger: Result, promised: pl.DataFrame | None, *, width: int) -> Iterator[Line]:
    """The whole screen, in at most `width` cells."""
    width = min(width, MAX_LINE_CELLS)
    rows = ledger.frame.to_dicts()
    texts = [_texts(rows, *column) for column in _COLUMNS if any(row[column[0]] is not None for row in rows)]
    texts += [["× previous", *(_times(row["gain_previous"]) for row in rows)]] if len(rows) > 1 else []
    texts += [["× first", *(_times(row["gain_first"]) for row in rows)]] if len(rows) > 2 else []
    sizes = [max(map(cells, column)) for column in texts]
    verdict = max((cells(_WORDS[row["verdict"]]) + 4 for row in rows if row["verdict"]), default=0)
    taken = sum(size + 2 for size in sizes) + verdict
    names = [printable(row["run"]) for row in rows]
    name = min(max(map(cells, names)), max(width - taken, 16))
    room = min(width - taken - name - 2, _BAR[1])
    room = room if room >= _BAR[0] else 0
    longest = max(row["step_time"] for row in rows)
    head = "".join("  " + padded(column[0], size, right=True) for column, size in zip(texts, sizes, strict=True))
    yield ((padded("run", name), "bold"), (head, "dim"))
    for place, row in enumerate(rows):
        numbers = "".join(
            "  " + padded(column[place + 1], size, right=True) for column, size in zip(texts, sizes, strict=True)
        )
        mark, style = _VERDICT_MARKS.get(row["verdict"] or "", ("", ""))
        words = f" {_WORDS[row['verdict']]}" if row["verdict"] else ""
        yield (
            (padded(middle(names[place], name), name), "bold"),
            (numbers, ""),
            ("  ", ""),
            (mark or " " * bool(verdict), style),
            (padded(words, max(verdict - 3, 0)), "dim"),
            (" " + bar(row["step_time"], longest, room) if room else "", "computation"),
        )
        yield from _about(row, place, rows, promised, width)
    if ledger.notes:
        yield plain()
    for note in ledger.notes:
        yield from (plain(line, "dim") for line in wrapped(f"· {printable(note)}", width, indent="  "))


def _texts(rows: list[dict[str, Any]], name: str, head: str, unit: Unit) -> list[str]:
    """The numbers of a column in one unit, below its head."""
    of = scale([row[name] for row in rows], unit)
    return [head, *(of.with_unit(row[name]) for row in rows)]


def _times(gain: float | None) -> str:
    return MISSING if gain is None else f"×{significant(gain)}"


def _about(
    row: Mapping[str, Any], place: int, rows: list[dict[str, Any]], promised: pl.DataFrame | None, width: int
) -> Iterator[Line]:
    """What was changed for a run, and what of that had been promised."""
    if row["changed"]:
        changes = wrapped(printable(row["changed"]), width - 4, indent="  ")
        yield from (plain(f"  {line}", "dim") for line in changes)
    if promised is not None and place:
        here = promised.filter((pl.col("run") == rows[place - 1]["path"]) & (pl.col("next") == row["path"]))
        yield from ((("  ", ""), *line) for line in promises.lines(here, width=width - 2))
