"""Text from a trace, made safe and short enough to be shown.

A trace is untrusted: its names may hold terminal escapes, characters that reverse the reading order, or halves of
surrogate pairs. Everything that goes to a person passes through `printable`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from kinetoscope.views.grammar import short

_UNSAFE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, DEL and C1: cursor, colour, title, clipboard
    "\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"  # reversed or invisible text, line separators
    "\ufff9-\ufffb\U000e0000-\U000e007f"  # interlinear annotation, tags
    "\ud800-\udfff"  # halves of surrogate pairs, which no encoding takes
    "]"
)

ELLIPSIS = "…"


def printable(text: str) -> str:
    r"""`text` with all that could act on a terminal or mislead a reader spelled out, as `\x1b` or `\u202e`."""
    return _UNSAFE.sub(_spelled, text)


def _spelled(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode("ascii")


def cells(text: str) -> int:
    """How many cells of a terminal `text` fills: two for a wide character, none for a combining mark."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(character) for character in text)


def _cells_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def middle(text: str, width: int) -> str:
    """`text` in at most `width` cells: the middle goes, because names of kernels differ at both ends."""
    if cells(text) <= width:
        return text
    if width <= 1:
        return ELLIPSIS[:width]
    left = fitting(text, width // 2)
    right = fitting(text[::-1], width - 1 - cells(left))[::-1]
    return left + ELLIPSIS + right


def brief(name: str, width: int) -> str:
    """The name of a call or kernel in at most `width` cells: by its grammar first, then without its middle."""
    return name if cells(name) <= width else middle(short(name), width)


def fitting(text: str, width: int) -> str:
    """The longest beginning of `text` that fills at most `width` cells."""
    if text.isascii():
        return text[: max(width, 0)]
    used = 0
    for index, character in enumerate(text):
        used += _cells_of(character)
        if used > width:
            return text[:index]
    return text


def padded(text: str, width: int, *, right: bool = False) -> str:
    """`text` filled with spaces to `width` cells, at the right or, with `right`, at the left of them."""
    space = " " * (width - cells(text))
    return space + text if right else text + space


def right(texts: Sequence[str]) -> list[str]:
    """The texts, as wide as the widest, at the right."""
    size = max(map(cells, texts), default=0)
    return [padded(text, size, right=True) for text in texts]


def wrapped(text: str, width: int, *, indent: str = "") -> list[str]:
    """`text` as lines of at most `width` cells, broken at spaces; lines after the first begin with `indent`.

    Spaces that the text begins with stay.
    """
    words = text.lstrip(" ")
    lines = [" " * (len(text) - len(words))]
    for word in words.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1].strip(" ") else lines[-1] + word
        if lines[-1].strip(" ") and cells(joined) > width:
            lines.append(indent + word)
        else:
            lines[-1] = joined
    return lines
