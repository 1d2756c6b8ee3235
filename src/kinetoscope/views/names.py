"""Names of a table or a chart in little room: shortened by their grammar, and never two alike that differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from kinetoscope.views.grammar import short
from kinetoscope.views.text import ELLIPSIS, brief, cells, fitting, middle, printable


def shortened(names: Sequence[str], width: int = 1 << 30) -> list[str]:
    """Each name in at most `width` cells (16 or more), safe to be shown; two that differ are never shown alike.

    Of those that would be, the types of their lambdas stay, or they stay whole; and what they share is cut.
    """
    distinct = list(dict.fromkeys(names))
    shown = dict(zip(distinct, _apart(distinct), strict=True))
    cut = dict(zip(distinct, _cut([shown[name] for name in distinct], width), strict=True))
    return [cut[name] for name in names]


def briefs(names: Sequence[str], width: int) -> list[str]:
    """Each name of a list as `text.brief` has it; those that it would show alike by what tells them apart."""
    shown = {name: brief(printable(name), width) for name in names}
    repeated = _several(list(shown.values()))
    rest = [name for name, text in shown.items() if text in repeated]
    shown |= zip(rest, shortened(rest, width), strict=True)
    return [shown[name] for name in names]


def short_names(frame: pl.DataFrame) -> dict[str, str]:
    """The names among the texts of `frame` that are shown in another form, and that form."""
    texts = [frame.get_column(name).unique(maintain_order=True) for name, of in frame.schema.items() if of == pl.String]
    names = [text for text in dict.fromkeys(text for each in texts for text in each) if text and short(text) != text]
    return dict(zip(names, shortened(names), strict=True))


def _apart(names: Sequence[str]) -> list[str]:
    """The shortest form of each that no other has."""
    forms = [[printable(form) for form in (short(name), short(name, types=True), name)] for name in names]
    chosen = [of[0] for of in forms]
    for form in (1, 2):
        taken = _several(chosen)
        chosen = [forms[place][form] if each in taken else each for place, each in enumerate(chosen)]
    return chosen


def _several(texts: Sequence[str]) -> set[str]:
    seen: set[str] = set()
    return {text for text in texts if text in seen or seen.add(text)}  # type: ignore[func-returns-value]


def _cut(texts: Sequence[str], width: int) -> list[str]:
    """Without their middle where too long; without what they share where that makes two alike."""
    cut = [middle(text, width) for text in texts]
    for repeated in _several(cut):
        places = [place for place, each in enumerate(cut) if each == repeated]
        for place, text in zip(places, _differing([texts[place] for place in places], width), strict=True):
            cut[place] = text
    return list(_numbered(cut, width))


def _differing(texts: Sequence[str], width: int) -> Iterator[str]:
    """Texts by where they begin to differ, with as much of the beginning as there is room for."""
    low, high = min(texts), max(texts)
    shared = next((at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    for text in texts:
        head, tail = fitting(text, width // 3), text[max(shared - 4, 0) :]
        room = width - cells(head) - cells(ELLIPSIS)
        yield head + ELLIPSIS + (tail if cells(tail) <= room else fitting(tail, room - cells(ELLIPSIS)) + ELLIPSIS)


def _numbered(texts: Sequence[str], width: int) -> Iterator[str]:
    seen: dict[str, int] = {}
    for text in texts:
        seen[text] = seen.get(text, 0) + 1
        number = f" ({seen[text]})"
        yield text if seen[text] == 1 else middle(text, width - cells(number)) + number
