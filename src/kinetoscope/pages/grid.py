"""A small table of text with a bar in each line: what is drawn without a browser alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinetoscope.pages.blocks import Block


@dataclass(frozen=True, slots=True)
class GridRow:
    """A line of a grid.

    Attributes:
        cells: its texts; the first one is what it is.
        kind: the colour of its bar; where no line has a bar, of the mark before it.
        low, high: from where to where its bar reaches, on one scale for all lines; equal for none.
        indent: how deep it stands in a tree.
        strong: one of the lines that the others stand between.
        about: words beneath it.
    """

    cells: Sequence[str]
    kind: str = ""
    low: float = 0.0
    high: float = 0.0
    indent: int = 0
    strong: bool = False
    about: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class GridBlock(Block):
    """Heads and rows that a page composes itself; the form in which most kinds of blocks are text.

    Attributes:
        heads: of the columns, as many as a row has cells.
        rows: the lines.
        named: the first cell of each row is a name from a trace.
        rest: words on what is left out.
        whole: no column is left out for want of room.
        start: where the axis of the bars begins.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[GridRow]
    named: bool = False
    rest: str = ""
    whole: bool = False
    start: float = 0.0
