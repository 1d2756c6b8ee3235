"""A result in a notebook: its chart as SVG and below it an escaped table, in one HTML that any front end shows.

No script, no style sheet, nothing from the network: what a trace says can only ever be text.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import polars as pl

from kinetoscope.schema import Column, Lines, Result, Schema, StackedBars
from kinetoscope.views.charts.chart import specification
from kinetoscope.views.charts.svg import svg
from kinetoscope.views.names import shortened
from kinetoscope.views.numbers import grouped
from kinetoscope.views.terminal.columns import Formatted, formatted
from kinetoscope.views.terminal.screen import to_text
from kinetoscope.views.text import printable

ROWS = 50
"""Rows shown; the frame has all."""

SERIES_ROWS = 10
"""The same, of a result whose picture says more than its rows."""

_NAME_CELLS = 72  # cells of a name
_SHOWN_CALLS = 20  # rows of a comparison's calls


def to_html(result: Result, *, limit: int | None = None) -> str:
    """Chart, rows (0: all; None: so many as suit the result; what a column means is the tip of its head), notes."""
    if limit is None:
        limit = SERIES_ROWS if isinstance(result.chart_facts, Lines) else ROWS
    frame = result.frame.head(limit) if limit else result.frame
    columns = formatted(frame, result.schema, result.frame)
    drawn = result.chart_facts is not None and result.frame.height
    parts = ["<div>", svg(specification(result)) if drawn else "", "<table><thead><tr>", *map(_head, columns)]
    parts.append("</tr></thead><tbody>")
    cells = [list(_cells(column)) for column in columns]
    parts.extend("<tr>" + "".join(column[row] for column in cells) + "</tr>" for row in range(frame.height))
    parts.append("</tbody></table>")
    parts.extend(_after(result, result.frame.height - frame.height))
    parts.append("</div>")
    return "".join(parts)


def mimebundle(result: Result) -> dict[str, Any]:
    """What `_repr_mimebundle_` returns. A front end shows one of what it is offered, so the HTML holds the chart."""
    return {"text/plain": to_text(result), "text/html": to_html(result)}


def difference(sentence: str, fall: Result, rows: Result) -> str:
    """Two runs: what changed, by kind of time and by call; `fall` has a row a kind, and others with a `part`."""
    kinds = fall.frame.filter(pl.col("part").is_null()).sort("base", descending=True)
    names = kinds.get_column("category").to_list()
    both = Schema(Column("step", pl.String, "Which."), *(Column(name, pl.Int64, "Time.", "ns") for name in names))
    steps = [("before", *kinds.get_column("base")), ("now", *kinds.get_column("new"))]
    frame = pl.DataFrame(steps, schema={column.name: column.dtype for column in both}, orient="row")
    picture = svg(specification(Result(frame, both, chart_facts=StackedBars("step", tuple(names))))) if names else ""
    schema = fall.schema.only(["category", "base", "new", "change", "share"])
    tables = to_html(Result(kinds.select(schema.names), schema)) + to_html(rows, limit=_SHOWN_CALLS)
    return f"<div><p><b>{_safe(sentence)}</b></p>{picture}{tables}</div>"


def _head(column: Formatted) -> str:
    unit = f" ({escape(column.unit)})" if column.unit else ""
    return f'<th title="{_safe(column.column.doc)}"{_side(column)}>{_safe(column.column.name)}{unit}</th>'


def _cells(column: Formatted) -> Iterator[str]:
    """Names by their grammar, in full in the tooltip."""
    texts = column.texts if column.right else shortened(column.texts, _NAME_CELLS)
    for text, full in zip(texts, column.texts, strict=True):
        tip = f' title="{escape(full)}"' if text != full else ""
        yield f"<td{_side(column)}{tip}>{escape(text)}</td>"


def _side(column: Formatted) -> str:
    align = "right;font-variant-numeric:tabular-nums" if column.right else "left"
    return f' style="text-align:{align};white-space:nowrap"'


def _after(result: Result, more: int) -> Iterator[str]:
    if more:
        yield f"<p>… {grouped(more)} more rows</p>"
    if result.notes:
        yield "<ul>" + "".join(f"<li>{_safe(note)}</li>" for note in result.notes) + "</ul>"


def _safe(text: str) -> str:
    return escape(printable(text))
