"""A page on a terminal: a sentence in bold, then one function for each kind of block."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final

import polars as pl

from kinetoscope.model.trace.symptoms import DAMAGED
from kinetoscope.notes import Note
from kinetoscope.pages.blocks import (
    Block,
    CodeBlock,
    ControlsBlock,
    FindingsBlock,
    NoteBlock,
    Page,
    Part,
    PartsBlock,
    RooflineBlock,
    RowsBlock,
)
from kinetoscope.pages.grid import GridBlock, GridRow
from kinetoscope.schema import Column, Result, Schema, Unit
from kinetoscope.screens.findings import ENDLESS_CELLS, code_lines, findings
from kinetoscope.screens.grid import EMPTY_CELLS, MIN_SHOWN_SHARE, grid, is_curve, note_of, share_text
from kinetoscope.views.charts.palette import KINDS, kind_of
from kinetoscope.views.names import briefs
from kinetoscope.views.numbers import scale
from kinetoscope.views.terminal import screen
from kinetoscope.views.terminal.bars import bar
from kinetoscope.views.terminal.lines import FILL, MARK, THIN, Line, Piece, plain, width_of, without_colour
from kinetoscope.views.text import brief, cells, middle, padded, printable, right, wrapped

MAX_PROSE_CELLS: Final = 100
"""Longer lines of text are hard to read."""

MAX_LINE_CELLS: Final = 160
"""Width of a table."""

_MIN_NAME_CELLS: Final = 24
_MIN_WHOLE_NAME_CELLS: Final = 16
_MIN_BAR_CELLS, _MAX_BAR_CELLS = 8, 40
_BAR_PART: Final = 6
"""The part of a line that bars have at least where names are long: a sixth."""


def lines(page: Page, *, width: int) -> Iterator[Line]:
    """The whole page, in at most `width` cells."""
    prose = min(width, MAX_PROSE_CELLS)
    facts = list(_wrapped(" · ".join(page.facts), prose, "dim"))
    if page.title:
        yield plain(middle(printable(page.title), prose), "bold")
        yield from (*facts, plain())
    yield from _wrapped(page.sentence, prose, "bold")
    yield from () if page.title else facts
    damage = [note for note in page.cannot if isinstance(note, Note) and note.code == DAMAGED]
    for note in damage:
        yield from _wrapped(f"! {note}", prose, "warn", indent="  ")
    before: Block | None = NoteBlock("") if page.sentence else None
    for block in page.blocks:
        drawn = list(_block(block, width, prose))
        if drawn and before is not None and not (_is_prose(before) and _is_prose(block)):
            yield plain()
        yield from drawn
        before = block if drawn else before
    others = [each for each in page.cannot if each not in damage]
    if others:
        yield plain()
    for each in others:
        mark: Piece = ("! ", "warn") if isinstance(each, Note) and each.severity != "note" else ("· ", "dim")
        first, *rest = wrapped(printable(each), prose - 2)
        yield (mark, (first, "dim"))
        yield from (plain(f"  {line}", "dim") for line in rest)
    yield from _commands(page.commands, prose)


def text(page: Page) -> str:
    """The same without colour."""
    return without_colour(lines(page, width=MAX_PROSE_CELLS)).rstrip("\n")


def _commands(commands: Sequence[tuple[str, str]], width: int) -> Iterator[Line]:
    """Commands to type next, with their purpose."""
    typed = [printable(command) for command, _ in commands]
    if typed:
        yield plain()
    room = max(map(cells, typed), default=0)
    for text, (_, why) in zip(typed, commands, strict=True):
        text = middle(padded(text, room), width)
        yield ((text, ""), (middle("   " + why, width - cells(text)), "dim"))


def _is_prose(block: Block) -> bool:
    return isinstance(block, NoteBlock) and not block.title


def _wrapped(text: str, width: int, style: str = "", *, indent: str = "") -> Iterator[Line]:
    if text:
        yield from (plain(line, style) for line in wrapped(printable(text), width, indent=indent))


def _block(block: Block, width: int, prose: int) -> Iterator[Line]:
    """Its title, what it shows, its note."""
    draw: Callable[[Any, int], Iterator[Line]] | None = _DRAW.get(type(block))
    made = grid(block) if draw is None else None
    title = getattr(block, "title", "")
    if made is not None:
        title, drawn = "", list(grid_lines(made, width, title))
    else:
        drawn = list(draw(block, width)) if draw is not None else []
    if drawn and title:
        yield from _wrapped(title, prose, "bold")
    yield from drawn
    yield from _wrapped(note_of(block) if drawn else "", prose, "dim")


# --- kinds of blocks


def _note(block: NoteBlock, width: int) -> Iterator[Line]:
    width = min(width, MAX_PROSE_CELLS)
    for text in block.text.split("\n"):
        if block.alert:
            yield from _wrapped(f"! {text}", width, "warn", indent="  ")
        else:
            yield from _wrapped(text, width)


def _controls(block: ControlsBlock, width: int) -> Iterator[Line]:
    """Choices, as `--set` takes it."""
    for control in block.controls:
        others = [value for value, _ in control.choices if value and value != control.value]
        if others and not control.runs:
            said = f"{control.label}: {control.name}={control.value} (--set {control.name}={' or '.join(others)})"
            yield from _wrapped(said, min(width, MAX_PROSE_CELLS), "dim", indent="  ")


def _rows(block: RowsBlock, width: int) -> Iterator[Line]:
    if block.rows:
        yield from screen.table(result_of(block), width=min(width, MAX_LINE_CELLS), limit=0, way="")


def result_of(block: RowsBlock) -> Result:
    """The rows as what tables are drawn of."""
    frame = pl.DataFrame(
        block.rows, schema=[head.name for head in block.columns], orient="row", infer_schema_length=None
    )
    columns = (Column(head.name, frame.schema[head.name], head.doc, head.unit) for head in block.columns)
    return Result(frame, Schema(*columns))


def _roofline(block: RooflineBlock, width: int) -> Iterator[Line]:
    yield from parts_lines(block.parts, "ns", min(width, MAX_PROSE_CELLS))


def _parts(block: PartsBlock, width: int) -> Iterator[Line]:
    yield from parts_lines(block.parts, block.unit, min(width, MAX_PROSE_CELLS))


def parts_lines(parts: Sequence[Part], unit: Unit, width: int) -> Iterator[Line]:
    """One bar, and under it what its colours mean, the largest first."""
    parts = [part for part in parts if part.value > 0]
    if parts:
        yield screen.stack([part.kind for part in parts], [part.value for part in parts], width, form=FILL)
        total = sum(part.value for part in parts)
        seen = [part for part in parts if part.value >= MIN_SHOWN_SHARE * total]
        yield from _legend(sorted(seen, key=lambda part: -part.value), total, unit, width)


def _legend(parts: Sequence[Part], total: float, unit: Unit, width: int) -> Iterator[Line]:
    """Meanings of the colours, in as many columns as fit, each as wide as it needs."""
    for across in range(len(parts), 0, -1):
        down = -(-len(parts) // across)
        columns = [_entries(parts[start : start + down], parts, total, unit) for start in range(0, len(parts), down)]
        if sum(width_of(column[0]) + 4 for column in columns) - 4 <= width:
            break
    for row in zip_longest(*columns, fillvalue=()):
        yield [piece for entry in row for piece in (*entry, ("    ", ""))]


def _entries(parts: Sequence[Part], legend: Sequence[Part], total: float, unit: Unit) -> list[Line]:
    """One column of the legend."""
    of = scale([part.value for part in legend], unit)
    values = right([of.with_unit(part.value) for part in parts])
    shares = right([share_text(part.value / total) for part in parts])
    label = max(cells(printable(part.label)) for part in parts)
    return [
        [_mark(part.kind), (f" {padded(printable(part.label), label)}  {value}  ", ""), (share, "dim")]
        for part, value, share in zip(parts, values, shares, strict=True)
    ]


def _mark(kind: str) -> Piece:
    return KINDS[kind_of(kind) or "idle"].glyph, f"{MARK} {kind_of(kind) or 'idle'}"


def _code(block: CodeBlock, width: int) -> Iterator[Line]:
    yield from code_lines(block.text, min(width, MAX_PROSE_CELLS), endless=width >= ENDLESS_CELLS)


# --- grids


def grid_lines(of: GridBlock, width: int, title: str = "") -> Iterator[Line]:
    """Names at the left, numbers at the right of their columns, and a bar for each line in the room that is left.

    `title` stands before the heads where there is room, else above them.
    """
    drawn = any(row.high > row.low for row in of.rows)
    width = min(width, MAX_PROSE_CELLS if drawn else MAX_LINE_CELLS)
    table = [list(map(printable, cells_of)) for cells_of in (of.heads, *(row.cells for row in of.rows))]
    columns = [_column(texts) for texts in list(zip(*table, strict=True))[1:]]
    marked = not drawn and not any(is_curve(cell) for row in of.rows for cell in row.cells[1:])
    marks = [[_mark(row.kind), (" ", "")] if marked and row.kind else [] for row in of.rows]
    indents = [2 * row.indent + 2 * bool(mark) for row, mark in zip(of.rows, marks, strict=True)]
    longest = max(cells(row[0]) + indent for row, indent in zip(table[1:], indents, strict=True))
    least = min(_MIN_WHOLE_NAME_CELLS if of.whole else _MIN_NAME_CELLS, longest)
    while columns and not of.whole and _wide(columns) + least > width:  # the last columns have no room
        columns.pop()
    numbers = _wide(columns)
    most = max(width - numbers - drawn * (width // _BAR_PART + 2), least)
    head, style = table[0][0], "dim"
    if not head and any(table[0]) and cells(title) <= min(max(longest, _MIN_NAME_CELLS), most):
        head, style = printable(title), "bold"
    elif title:
        yield from _wrapped(title, width, "bold")
    name = min(max(longest, cells(head)), most)
    room = min(width - numbers - name - 2, _MAX_BAR_CELLS) if drawn else 0
    if any(table[0]):
        yield [(padded(middle(head, name), name), style), ("".join(f"  {column[0]}" for column in columns), "dim")]
    names = _names(of, table, [name - indent for indent in indents])
    low, high, falls = of.start, max(row.high for row in of.rows), any(row.low for row in of.rows)
    for place, (row, label, mark) in enumerate(zip(of.rows, names, marks, strict=True), 1):
        first = padded(" " * (2 * row.indent) + label, name - 2 * bool(mark))
        style = "bold" if row.strong else ""
        texts = [(f"  {column[place]}", row.kind if is_curve(column[place]) else style) for column in columns]
        yield [*mark, (first, style), *texts, *_bar(row, low, high, room, falls=falls)]
        for words in row.about:
            yield from _wrapped(f"  {words}", min(width, MAX_PROSE_CELLS), "dim", indent="    ")
    if of.rest:
        yield from _wrapped(f"… {of.rest}" if of.named else of.rest, width, "dim")


def _column(texts: Sequence[str]) -> list[str]:
    """Texts of one width, numbers at the right."""
    size = max(map(cells, texts))
    right = all(text in EMPTY_CELLS or _NUMBER.match(text) for text in texts[1:])
    return [padded(text, size, right=right) for text in texts]


_NUMBER: Final = re.compile(r"[+−±]?[<>×-]?[0-9∞]")


def _wide(columns: Sequence[Sequence[str]]) -> int:
    return sum(cells(column[0]) + 2 for column in columns)


def _names(of: GridBlock, table: Sequence[Sequence[str]], rooms: Sequence[int]) -> list[str]:
    texts = [row[0] for row in table[1:]]
    if of.named and len(set(rooms)) == 1:
        return briefs(texts, rooms[0])
    return [brief(text, room) if of.named else middle(text, room) for text, room in zip(texts, rooms, strict=True)]


def _bar(row: GridRow, low: float, high: float, room: int, *, falls: bool) -> Iterator[Piece]:
    """A line from 0 on, or a block from somewhere to somewhere; what begins before the axis is cut."""
    if room < _MIN_BAR_CELLS or not row.high > row.low:
        return
    kind = kind_of(row.kind) or "host"
    if not falls:
        yield (f"  {bar(row.high, high, room)}", kind)
        return
    start, end = (round((max(at, low) - low) / (high - low) * room) for at in (row.low, row.high))
    start = min(start, room - 1)
    yield ("  " + " " * start, "")
    length, form = max(end - start, 1), THIN if row.indent else FILL
    if row.low < low:
        yield ("┄┄", "dim")
        length -= 2
    yield (KINDS[kind].glyph * length, f"{form} {kind}")


_DRAW: Final[dict[type[Block], Callable[[Any, int], Iterator[Line]]]] = {
    NoteBlock: _note,
    ControlsBlock: _controls,
    RowsBlock: _rows,
    RooflineBlock: _roofline,
    PartsBlock: _parts,
    FindingsBlock: findings,
    CodeBlock: _code,
}
"""Functions that draw kinds of blocks that are no grids."""
