"""A page as Markdown: parts that stay or go together, the most important first; see `pages.documents`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kinetoscope.advisor.advice import METHOD
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
from kinetoscope.pages.documents import Lines, document, finding_lines
from kinetoscope.pages.findings import BAR_NOTE
from kinetoscope.pages.grid import GridBlock
from kinetoscope.schema import Unit
from kinetoscope.screens.grid import grid, is_curve, note_of, share_text
from kinetoscope.screens.terminal import result_of
from kinetoscope.views.markdown import code, escaped, fenced, notes, sentence, table, table_row
from kinetoscope.views.numbers import shown


def text(page: Page, budget: int | None = None) -> str:
    """The page as one document, in about `budget` tokens at most.

    Raises:
        UsageError: not even its first part fits.
    """
    return document(list(parts(page)), budget)


def parts(page: Page) -> Iterator[Lines]:
    """The head, each block, the notes."""
    facts = escaped(" · ".join(page.facts))
    if page.title:
        yield [f"# {escaped(page.title)}", "", *([facts, ""] if facts else []), sentence(page.sentence)]
    else:
        yield [f"# {sentence(page.sentence)}", *(["", facts] if facts else [])]
    for block in page.blocks:
        yield from _block(block)
    if page.cannot:
        yield ["## Notes", "", *notes(page.cannot)]
    if page.commands:
        yield ["## Next", "", *(f"- {code(typed, 200)}: {escaped(purpose)}" for typed, purpose in page.commands)]


def _block(block: Block) -> Iterator[Lines]:
    title = getattr(block, "title", "") or ("Where the time goes" if isinstance(block, PartsBlock) else "")
    if isinstance(block, FindingsBlock):
        yield from _findings(block)
        return
    draw: Callable[[Any], list[str]] | None = _DRAW.get(type(block))
    made = grid(block) if draw is None else None
    drawn = draw(block) if draw is not None else _grid(made) if made is not None else []
    if drawn:
        head = [f"## {escaped(title)}", ""] if title else []
        yield [*head, *drawn, *(["", sentence(note_of(block))] if note_of(block) else [])]


def _findings(block: FindingsBlock) -> Iterator[Lines]:
    advice, head = block.advice, [f"## {escaped(block.title or 'What to change')}", ""]
    members = [row.finding for row in block.findings if row.finding is not None]
    if block.headline:
        yield [*head, f"**{sentence(block.headline)}**"]
        head = []
    if advice is None or not members:
        return
    for place, finding in enumerate(members):
        said = " ".join(
            filter(None, [block.note.removeprefix(BAR_NOTE), METHOD if block.headline and advice.timed else ""])
        )
        first = [*head, *([sentence(said), ""] if said else [])] if place == 0 else []
        yield [*first, *finding_lines(finding, advice)]


def _note(block: NoteBlock) -> list[str]:
    said = sentence(" ".join(block.text.split("\n")))
    return [f"**{said}**" if block.alert else said]


def _code(block: CodeBlock) -> list[str]:
    return fenced(block.text, "diff") if block.text else []


def _controls(block: ControlsBlock) -> list[str]:
    return [
        f"- {escaped(control.label)}: {code(f'{control.name}={control.value}')}, or {', '.join(map(code, others))}"
        for control in block.controls
        if not control.runs and (others := [value for value, _ in control.choices if value and value != control.value])
    ]


def _rows(block: RowsBlock) -> list[str]:
    return table(result_of(block), limit=0).splitlines() if block.rows else []


def _parts(block: PartsBlock) -> list[str]:
    return _table_of_parts(block.parts, block.unit)


def _roofline(block: RooflineBlock) -> list[str]:
    return _table_of_parts(block.parts, "ns")


def _table_of_parts(of: Any, unit: Unit) -> list[str]:
    rows: list[Part] = sorted((part for part in of if part.value > 0), key=lambda part: -part.value)
    total = sum(part.value for part in rows)
    cells = [[escaped(part.label), shown(part.value, unit), share_text(part.value / total)] for part in rows]
    return (
        [table_row(line) for line in (["", "time" if unit == "ns" else "size", "share"], _sides(2), *cells)]
        if rows
        else []
    )


def _sides(numbers: int) -> list[str]:
    return ["---", *["---:"] * numbers]


def _grid(of: GridBlock) -> list[str]:
    """A table; how deep a name stands is said by points before it."""
    rows = [
        [
            "· " * row.indent + (code(row.cells[0]) if of.named else escaped(row.cells[0])),
            *(_cell(each) for each in row.cells[1:]),
        ]
        for row in of.rows
    ]
    about = [
        f"- {code(row.cells[0]) if of.named else escaped(row.cells[0])}: {escaped('; '.join(row.about))}"
        for row in of.rows
        if row.about
    ]
    lines = [table_row(line) for line in ([*map(escaped, of.heads)], _sides(len(of.heads) - 1), *rows)]
    return [*lines, *(["", *about] if about else []), *(["", escaped(of.rest)] if of.rest else [])]


def _cell(text: str) -> str:
    """A curve stands in a code span, in which its spaces stay."""
    return code(text) if is_curve(text) else escaped(text)


_DRAW: Final[dict[type[Block], Callable[[Any], list[str]]]] = {
    NoteBlock: _note,
    ControlsBlock: _controls,
    RowsBlock: _rows,
    PartsBlock: _parts,
    RooflineBlock: _roofline,
    CodeBlock: _code,
}
"""Functions that write kinds of blocks that are no grids."""
