"""A result in a notebook: an escaped table, and its chart by the Vega-Lite mime type, which needs no package.

No script, no style sheet, nothing from the network: what a trace says can only ever be text.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from kinetoscope.schema import Result
from kinetoscope.views.chart import specification
from kinetoscope.views.columns import Formatted, formatted
from kinetoscope.views.numbers import grouped
from kinetoscope.views.terminal import to_text
from kinetoscope.views.text import printable

ROWS = 50
"""Rows shown; the frame has all."""

# JupyterLab draws version 5, newer front ends 6; what we declare is the same in both.
_MIMES = ("application/vnd.vegalite.v6+json", "application/vnd.vegalite.v5+json")


def to_html(result: Result, *, limit: int = ROWS) -> str:
    """The first `limit` rows (0: all) as a table, each column's meaning in its header's tooltip; then the notes."""
    frame = result.frame.head(limit) if limit else result.frame
    columns = formatted(frame, result.schema, result.frame)
    parts = ["<table><thead><tr>", *map(_head, columns), "</tr></thead><tbody>"]
    parts.extend("<tr>" + "".join(_cell(column, row) for column in columns) + "</tr>" for row in range(frame.height))
    parts.append("</tbody></table>")
    parts.extend(_after(result, result.frame.height - frame.height))
    return "".join(parts)


def mimebundle(result: Result) -> dict[str, Any]:
    """What `_repr_mimebundle_` returns: text, HTML, and the chart where one is declared and there are rows."""
    bundle: dict[str, Any] = {"text/plain": to_text(result), "text/html": to_html(result)}
    if result.chart_facts is not None and result.frame.height:
        bundle |= dict.fromkeys(_MIMES, specification(result))
    return bundle


def _head(column: Formatted) -> str:
    unit = f" ({escape(column.unit)})" if column.unit else ""
    return f'<th title="{_safe(column.column.doc)}"{_side(column)}>{_safe(column.column.name)}{unit}</th>'


def _cell(column: Formatted, row: int) -> str:
    return f"<td{_side(column)}>{escape(column.texts[row])}</td>"


def _side(column: Formatted) -> str:
    align = "right;font-variant-numeric:tabular-nums" if column.right else "left"
    return f' style="text-align:{align}"'


def _after(result: Result, more: int) -> Iterator[str]:
    if more:
        yield f"<p>… {grouped(more)} more rows</p>"
    if result.notes:
        yield "<ul>" + "".join(f"<li>{_safe(note)}</li>" for note in result.notes) + "</ul>"


def _safe(text: str) -> str:
    return escape(printable(text))
