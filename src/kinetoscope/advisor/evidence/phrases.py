"""Words that the messages of several rules need: names out of traces, made safe and short; counts; lists.

A name out of a trace is data, whatever it says: between backquotes, without backquotes of its own, without what could
act on a terminal, and no longer than a line can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kinetoscope.views.text import ELLIPSIS, brief, cells, printable

LIMIT: Final = 60
"""Cells that a name may fill between its backquotes."""

_LONGEST: Final = 4096
"""Characters of a name that are looked at; nobody calls anything by more, but a file may."""


def quoted(name: str, limit: int = LIMIT) -> str:
    """A name out of a trace between backquotes, at most `limit` cells of it: its middle goes.

    Of a kernel's signature the arguments go first. Line breaks become spaces, backquotes apostrophes.
    """
    if len(name) > _LONGEST:
        name = name[: _LONGEST // 2] + name[-_LONGEST // 2 :]
    text = printable(" ".join(name.split())).replace("`", "'")
    return f"`{brief(text or '(no name)', limit)}`"


def place(file: str, line: int, limit: int = LIMIT) -> str:
    """A place in the source between backquotes, `train.py:12`: of a long path the beginning goes."""
    path, tail = printable(" ".join(file[-_LONGEST:].split())).replace("`", "'"), f":{line}"
    room = limit - len(tail)
    if cells(path) > room:
        path = ELLIPSIS + ending(path, room - 1)
    return f"`{path}{tail}`"


def ending(text: str, width: int) -> str:
    """The longest end of a text that fills at most `width` cells."""
    text = text[-width:] if width > 0 else ""
    while cells(text) > width:
        text = text[1:]
    return text


def each_step(count: float, one: str, more: str = "") -> str:
    """How many there are in a step on average, for a sentence: `1 copy a step`, `2.5 copies a step`."""
    number = f"{count:,.0f}" if count >= 9.95 or abs(count - round(count)) < 0.05 else f"{count:,.1f}"
    return f"{number} {one if number == '1' else more or one + 's'} a step"


def share(part: float, whole: float) -> str:
    """A share as a whole percentage, `12%`; `under 1%` where that would be 0."""
    ratio = part / whole if whole > 0 else 0.0
    return "under 1%" if 0 < ratio < 0.005 else f"{ratio:.0%}"


def joined(words: Sequence[str], limit: int = 4) -> str:
    """Words as a sentence lists them: `a, b and c`; of many the first ones, `and 7 more`."""
    if len(words) > limit:
        words = [*words[: limit - 1], f"{len(words) - limit + 1} more"]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))
