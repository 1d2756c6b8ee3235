"""What was promised and what came, in lines: under a difference, and under a run of a ledger."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kinetoscope.views.numbers import scale, shown
from kinetoscope.views.text import middle

_SHOWN_FINDINGS: Final = 4
"""Findings with a line of their own."""

_MESSAGE_CELLS: Final = 80

_OUTCOMES: Final = {
    "as promised": "as promised",
    "more": "more than promised",
    "less": "less than promised",
    "noise": "that may be noise",
}
_STATUS_GLYPHS: Final = {"gone": "✓", "mostly gone": "~", "still runs": "="}


def promise_lines(rows: pl.DataFrame) -> Iterator[str]:
    """A line for each finding that is gone (✓), mostly gone (~) or hidden (=), and one for what came of all of them.

    Where nothing can be credited the mark is a dash.
    """
    for row in rows.head(_SHOWN_FINDINGS).to_dicts():
        credited = row["outcome"] not in ("void", "noise") or row["status"] == "still runs"
        mark = _STATUS_GLYPHS[row["status"]] if credited else "–"
        yield f"{mark} {row['code']}  {middle(row['message'], _MESSAGE_CELLS)}"
        if row["together"] > 1:
            yield f"  promised {_interval(row['promised_low'], row['promised_high'])}"
    if rows.height > _SHOWN_FINDINGS:
        yield f"  {rows.height - _SHOWN_FINDINGS} more"
    if rows.filter(pl.col("status") == "still runs").height:
        yield "  = is not found any more, but the kernel that it showed takes as long as before: not counted"
    counted = rows.filter(pl.col("status") != "still runs")
    if counted.height:
        yield f"  {_outcome(counted)}"


def _outcome(rows: pl.DataFrame) -> str:
    first = rows.row(0, named=True)
    if first["outcome"] == "void":
        return "void: the runs are on different devices, or of different programs"
    promised = _interval(first["together_low"], first["together_high"])
    together = f"{first['together']} together promised" if first["together"] > 1 else "promised"
    return f"{together} {promised}; brought {_brought(first['brought'])}: {_OUTCOMES[first['outcome']]}"


def _interval(low: int, high: int) -> str:
    """The two ends in one unit: `28.4–53.6 ms`."""
    unit = scale([low, high], "ns")
    return f"{unit.text(low)}–{unit.with_unit(high)} a step"


def _brought(time: int) -> str:
    return shown(time, "ns") if time >= 0 else f"a step that is {shown(-time, 'ns')} longer"
