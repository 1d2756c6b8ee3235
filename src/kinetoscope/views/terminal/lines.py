"""Lines of styled text: what every terminal view is made of, and the only place that turns them into output.

A style is "" (plain), `bold`, `dim`, `warn`, or the name of a kind of time, which has its colour in the palette. After
`FILL`, `THIN` or `MARK` and a space the text is the glyphs of a bar, of a line or of a legend, which have a better form
where there is colour. Without colour nothing but text comes out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Final, TextIO

from kinetoscope.views.charts.palette import KINDS
from kinetoscope.views.text import cells

Piece = tuple[str, str]
"""Text, and its style."""

FILL, THIN, MARK = "fill", "thin", "mark"

TRUE_COLOUR: Final = 1 << 24
"""Colours of a terminal that shows all of them."""

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


def with_colour(lines: Iterable[Line], colours: int = TRUE_COLOUR) -> str:
    """The lines with the codes of a terminal of so many colours; where there is none, glyphs stay glyphs."""
    return "".join("".join(_coded(*piece, colours) for piece in _stripped(line)) + "\n" for line in lines)


def write(lines: Iterable[Line], stream: TextIO) -> None:
    """Print the lines on a stream, line by line: coloured if it is a terminal that wants colour, else bare text."""
    colours = _colours(os.environ) if stream.isatty() else None
    for line in lines:
        stream.write(without_colour([line]) if colours is None else with_colour([line], colours))


def _colours(environ: Mapping[str, str]) -> int | None:
    """How many colours a terminal shows, by its environment; None if it takes no codes at all."""
    term = environ.get("TERM", "").lower()
    if term in ("dumb", "unknown"):
        return None
    if environ.get("NO_COLOR"):
        return 0
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return TRUE_COLOUR
    return 256 if "256" in term or "kitty" in term else 16


def _stripped(line: Line) -> list[Piece]:
    """The line without spaces at its end."""
    pieces = list(line)
    while pieces and not (last := pieces[-1][0].rstrip()):
        pieces.pop()
    return [*pieces[:-1], (last, pieces[-1][1])] if pieces else []


def _coded(text: str, style: str, colours: int) -> str:
    """A piece in its style; a bar in the form that it has where there is colour."""
    form, _, kind = style.rpartition(" ")
    kind = "waiting" if kind == "warn" else kind
    code = {"bold": "1", "dim": "2"}.get(style, "")
    if kind in KINDS and colours:
        code = _foreground(kind, colours)
        text = _FORMS[form][kind == "idle"] * len(text) if form else text
    return f"\x1b[{code}m{text}\x1b[0m" if code and text else text


@cache
def _foreground(kind: str, colours: int) -> str:
    """The code of the colour of a kind of time, or of the one nearest to it that the terminal has."""
    if colours == 16:
        return _OF_16[kind]
    wanted = [int(KINDS[kind].terminal[at : at + 2], 16) for at in (1, 3, 5)]
    if colours == TRUE_COLOUR:
        return "38;2;{};{};{}".format(*wanted)
    return min(_OF_256, key=lambda code: sum((a - b) ** 2 for a, b in zip(_OF_256[code], wanted, strict=True)))


_LEVELS: Final = (0, 95, 135, 175, 215, 255)
_OF_256: Final = {
    f"38;5;{16 + 36 * r + 6 * g + b}": (_LEVELS[r], _LEVELS[g], _LEVELS[b]) for r, g, b in product(range(6), repeat=3)
} | {f"38;5;{232 + k}": (8 + 10 * k,) * 3 for k in range(24)}
"""The cube of colours and the greys of xterm's 256."""

_OF_16: Final = {
    "computation": "94",
    "communication": "33",
    "memory": "32",
    "data_loading": "35",
    "runtime": "36",
    "host": "90",
    "waiting": "31",
    "idle": "90",
}
"""Of the 16 colours, whose looks each terminal chooses: those that read on black and on white, and stay apart."""
