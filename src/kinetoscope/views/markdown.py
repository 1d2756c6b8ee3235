"""Markdown for reviews and for agents: tables, notes and text that a trace cannot turn into markup.

Names come from traces, and Markdown goes where others see it: names stand in code spans that nothing in them ends, and
text holds no markup, no links, and calls nobody by an @.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from kinetoscope.schema import Result
from kinetoscope.views.names import shortened
from kinetoscope.views.numbers import MISSING, grouped
from kinetoscope.views.terminal.columns import formatted
from kinetoscope.views.text import brief, printable

ROWS: Final = 50
"""Rows of a table, unless more are asked for; GitHub takes a comment of 65,536 characters."""

CODE_CELLS: Final = 80
"""Cells of a name."""

_MAX_NOTES: Final = 12
_NO_MARKUP: Final = str.maketrans({mark: f"\\{mark}" for mark in "\\`*[]>#|~!"} | {"<": "&lt;", "@": "@\u200b"})
_EMPHASIS: Final = re.compile(r"(?<!\w)_|_(?!\w)")
_PLAIN_WORDS: Final = re.compile(r"[A-Za-z]+(?: [A-Za-z]+)*")


def table(result: Result, *, limit: int | None = None) -> str:
    """The rows (0: all) in units for people, and the notes. Columns without a value are left out."""
    limit = ROWS if limit is None else limit
    frame = result.frame.head(limit) if limit else result.frame
    columns = [column for column in formatted(frame, result.schema, result.frame) if not column.empty]
    if not frame.height or not columns:
        return lines(["No rows.", "", *notes(result.sentences)])
    heads = [
        f"{escaped(each.column.name)} ({each.unit})" if each.unit else escaped(each.column.name) for each in columns
    ]
    cells = [each.texts if each.right else _named(each.texts) for each in columns]
    out = [table_row(heads), table_row(["---:" if each.right else "---" for each in columns])]
    out += [table_row(texts) for texts in zip(*cells, strict=True)]
    if more := result.frame.height - frame.height:
        out += ["", f"… {grouped(more)} more rows"]
    return lines([*out, "", *notes(result.sentences)])


def lines(texts: Sequence[str]) -> str:
    """Lines of a document, which ends with one line feed."""
    return "\n".join(texts).rstrip("\n") + "\n"


def table_row(cells: Sequence[str]) -> str:
    """A row of a table; its cells are Markdown already."""
    return re.sub(r"\|  (?=\|)", "| ", f"| {' | '.join(cells)} |")


def notes(of: Sequence[str]) -> list[str]:
    """Notes as a list, the first of them."""
    more = [f"- … {len(of) - _MAX_NOTES} more notes"] if len(of) > _MAX_NOTES else []
    return [f"- {escaped(note)}" for note in of[:_MAX_NOTES]] + more


def code(name: str, cells: int = CODE_CELLS) -> str:
    """A code span, also in a cell of a table: no backtick ends it, no bar ends the cell."""
    text = brief(printable(name), cells).replace("`", "'").replace("|", "\\|")
    return f"`{text}`" if text else ""


def fenced(text: str, language: str) -> list[str]:
    """A block of code that no line of the text ends."""
    fence = "`" * max(3, *(len(line) - len(line.lstrip("`")) + 1 for line in text.splitlines() or [""]))
    return [f"{fence}{language}", *(printable(line) for line in text.splitlines()), fence]


def escaped(text: str) -> str:
    """Text without markup, links and mentions."""
    return _EMPHASIS.sub(r"\\_", printable(text).translate(_NO_MARKUP)).replace("://", ":\u200b//")


def sentence(text: str) -> str:
    """A sentence in which names stand between backquotes: they stay code spans, the rest is text."""
    return "".join(code(part) if place % 2 else escaped(part) for place, part in enumerate(text.split("`")))


def _named(texts: Sequence[str]) -> list[str]:
    names = shortened(texts, CODE_CELLS)
    return [name if _PLAIN_WORDS.fullmatch(name) or name == MISSING else code(name) for name in names]
