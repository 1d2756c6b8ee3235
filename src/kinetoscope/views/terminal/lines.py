"""Lines of styled text: what every terminal view is made of, and the only place that turns them into output.

A style is "" (plain), `bold`, `dim`, `warn`, or the name of a kind of time, which has its colour in the palette. After
`FILL`, `THIN` or `MARK` and a space the text is the glyphs of a bar, of a line or of a legend, which have a better form
where there is colour. Text is never read as markup. Without colour nothing but text comes out, and Rich is not even
imported.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from kinetoscope.views.charts.palette import KINDS
from kinetoscope.views.text import cells

if TYPE_CHECKING:
    from rich.console import Console

Piece = tuple[str, str]
"""Text, and its style."""

FILL, THIN, MARK = "fill", "thin", "mark"

_FORMS = {FILL: "█░", THIN: "━─", MARK: "■□"}  # of a kind of time, and of the neutral one

Line = Sequence[Piece]


def plain(text: str = "", style: str = "") -> Line:
    """A line of one style."""
    return ((text, style),)


def width_of(line: Line) -> int:
    """How many cells a line fills."""
    return sum(cells(text) for text, _ in line)


def without_colour(lines: Iterable[Line]) -> str:
    """The lines as text, each ended by a newline, no spaces at the ends."""
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in lines)


def with_colour(lines: Iterable[Line]) -> str:
    """The lines with the ANSI codes of a terminal of 16 million colours."""
    from rich.console import Console

    stream = io.StringIO()
    emit(lines, Console(file=stream, force_terminal=True, color_system="truecolor", no_color=False))
    return stream.getvalue()


def emit(lines: Iterable[Line], console: Console) -> None:
    """Print the lines on a Rich console in the colours that it can show; where it shows none, glyphs stay glyphs."""
    from rich.text import Text

    coloured = console.color_system is not None and not console.no_color
    for line in lines:
        text = Text(end="\n")
        for piece, style in line:
            text.append(*(_inked(piece, style) if coloured else (piece, style if style in ("bold", "dim") else "")))
        text.rstrip()
        console.print(text, soft_wrap=True, highlight=False, markup=False, emoji=False)


def write(lines: Iterable[Line], stream: TextIO) -> None:
    """Print the lines on a stream: coloured if it is a terminal that wants colour, bare text if it is not."""
    if not stream.isatty():
        stream.write(without_colour(lines))
        return
    from rich.console import Console

    emit(lines, Console(file=stream))


def _inked(text: str, style: str) -> Piece:
    """A piece as Rich takes it: the colour of its kind, and the form that it has where there is colour."""
    form, _, kind = style.rpartition(" ")
    kind = "waiting" if kind == "warn" else kind
    if kind not in KINDS:
        return text, style
    return _FORMS[form][kind == "idle"] * len(text) if form else text, KINDS[kind].terminal
