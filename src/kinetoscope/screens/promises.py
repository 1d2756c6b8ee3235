"""What was promised and what came, as lines: under a difference, and under a run of a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kinetoscope.views.numbers import scale, shown
from kinetoscope.views.terminal.lines import Line, plain
from kinetoscope.views.text import middle, printable

_SAID: Final = 4
_OUTCOMES: Final = {
    "as promised": "as promised",
    "more": "more than promised",
    "less": "less than promised",
    "noise": "that may be noise",
}
_STATUS_GLYPHS: Final = {"gone": "✓", "mostly gone": "~", "still runs": "="}


def lines(rows: pl.DataFrame, *, width: int) -> Iterator[Line]:
    """A line for each finding that is gone (✓), mostly gone (~) or hidden (=), and one for what came of all of them.

    Where nothing can be credited the mark is a dash.
    """
    for row in rows.head(_SAID).to_dicts():
        room = max(width - 2 - len(row["code"]) - 2, 20)
        credited = row["outcome"] not in ("void", "noise") or row["status"] == "still runs"
        mark = _STATUS_GLYPHS[row["status"]] if credited else "–"
        yield ((f"{mark} {row['code']}", "bold"), (f"  {middle(printable(row['message']), room)}", ""))
        if row["together"] > 1:
            yield plain(f"  promised {_interval(row['promised_low'], row['promised_high'])}", "dim")
    if rows.height > _SAID:
        yield plain(f"  {rows.height - _SAID} more", "dim")
    hidden = rows.filter(pl.col("status") == "still runs")
    if hidden.height:
        yield plain(
            "  = is not found any more, but the kernel that it showed takes as long as before: not counted", "dim"
        )
    rows = rows.filter(pl.col("status") != "still runs")
    if rows.height and rows.item(0, "outcome") == "void":
        yield plain("  void: the runs are on different devices, or of different programs")
    elif rows.height:
        first = rows.row(0, named=True)
        promised = _interval(first["together_low"], first["together_high"])
        together = f"{first['together']} together promised" if first["together"] > 1 else "promised"
        yield plain(f"  {together} {promised}; brought {_brought(first['brought'])}: {_OUTCOMES[first['outcome']]}")


def _interval(low: int, high: int) -> str:
    """The two ends in one unit: `28.4–53.6 ms`."""
    unit = scale([low, high], "ns")
    return f"{unit.text(low)}–{unit.with_unit(high)} a step"


def _brought(time: int) -> str:
    return shown(time, "ns") if time >= 0 else f"a step that is {shown(-time, 'ns')} longer"
