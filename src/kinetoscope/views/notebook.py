"""A result in a notebook: its chart as SVG and below it an escaped table, in one HTML that any front end shows.

No script, no style sheet, nothing from the network: what a trace says can only ever be text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import polars as pl

from kinetoscope.charts import Lines
from kinetoscope.schema import Result
from kinetoscope.views.charts.chart import chart_in_cell
from kinetoscope.views.charts.svg import svg
from kinetoscope.views.names import shortened
from kinetoscope.views.numbers import grouped
from kinetoscope.views.terminal.columns import Formatted, formatted
from kinetoscope.views.text import printable

ROWS = 20
"""Rows shown; the frame has all."""

SERIES_ROWS = 10
"""The same, of a result whose picture says more than its rows."""

MAX_NOTES = 12
"""Notes shown."""

_NAME_CELLS = 64  # cells of a name


def to_html(result: Result, *, limit: int | None = None) -> str:
    """Chart, rows (0: all; None: so many as suit the result; what a column means is the tip of its head), notes.

    Columns without a single value are left out, and named below.
    """
    if limit is None:
        limit = SERIES_ROWS if isinstance(result.chart_facts, Lines) else ROWS
    frame = result.frame.head(limit) if limit else result.frame
    every = formatted(frame, result.schema, result.frame)
    values = result.frame.select(pl.all().count()).row(0, named=True)
    empty = [name for name, count in values.items() if not count and result.frame.height]
    columns = [column for column in every if column.column.name not in empty]
    drawn = result.chart_facts is not None and result.frame.height
    cells = [list(_cells(column)) for column in columns]
    rows = ("<tr>" + "".join(column[row] for column in cells) + "</tr>" for row in range(frame.height))
    return boxed(
        svg(chart_in_cell(result)) if drawn else "",
        '<div style="overflow-x:auto"><table><thead><tr>',
        *map(_head, columns),
        "</tr></thead><tbody>",
        *rows,
        "</tbody></table></div>",
        *_left_out(result.frame.height, frame.height, empty),
        notes(result.sentences),
    )


def boxed(*parts: str) -> str:
    """Parts of HTML below one another."""
    return f"<div>{''.join(parts)}</div>"


def notes(sentences: Sequence[str]) -> str:
    """A list of sentences; nothing if there are none."""
    items = [f"<li>{_safe(note)}</li>" for note in sentences[:MAX_NOTES]]
    if len(sentences) > MAX_NOTES:
        items.append(f"<li>… {len(sentences) - MAX_NOTES} more; <code>.notes</code> has all.</li>")
    return f"<ul>{''.join(items)}</ul>" if items else ""


def grid(rows: Sequence[Sequence[str]]) -> str:
    """A table of texts; the first row is its head."""
    head, *body = (_row(row, "td" if place else "th") for place, row in enumerate(rows))
    return f"<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>"


def _row(texts: Sequence[str], tag: str) -> str:
    cells = (f'<{tag} style="text-align:left;white-space:nowrap">{_safe(text)}</{tag}>' for text in texts)
    return f"<tr>{''.join(cells)}</tr>"


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


def _left_out(rows: int, shown: int, empty: Sequence[str]) -> Iterator[str]:
    if shown < rows:
        yield f"<p>… {grouped(shown)} of {grouped(rows)} rows; <code>.frame</code> has all.</p>"
    if empty:
        yield f"<p>… no values in {_safe(', '.join(empty))}</p>"


def _safe(text: str) -> str:
    return escape(printable(text))
