"""A gate's answer as lines of text: the sentence, a line a metric, what changed most, the notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kinetoscope.compare.gate.causes import Cause
from kinetoscope.compare.gate.gate import Check, Gate, is_doubtful
from kinetoscope.compare.gate.summary import changed, interval, sentence, signed, valued
from kinetoscope.views.numbers import shown
from kinetoscope.views.terminal.lines import Line, plain, without_colour
from kinetoscope.views.text import brief, cells, padded, printable, wrapped

WIDEST: Final = 110
"""Cells; longer lines are hard to read."""

_METRIC: Final = 44
_CALL: Final = 52


def lines(found: Gate, causes: Sequence[Cause] = (), *, width: int = WIDEST) -> Iterator[Line]:
    """The whole answer, in at most `width` cells but for the tables."""
    width = min(width, WIDEST)
    yield from (plain(line, "bold") for line in wrapped(sentence(found), width))
    yield plain()
    yield from _aligned([["metric", "base", "new", "change", "interval", "limit", "verdict"], *map(_row, found.checks)])
    if causes:
        yield plain()
        yield from _aligned([["what changed most in a step", "base", "new", "change", ""], *map(_cause, causes)])
    if found.notes:
        yield plain()
    for note in found.notes:
        yield from (plain(line, "dim") for line in wrapped(f"· {printable(note)}", width, indent="  "))


def text(found: Gate, causes: Sequence[Cause] = ()) -> str:
    """The same without colour."""
    return without_colour(lines(found, causes))


def _row(check: Check) -> list[str]:
    verdict = check.verdict
    doubt = is_doubtful(verdict)
    word = f"{verdict.word}: fails" if check.failed else "inconclusive" if doubt else verdict.word
    values = [valued(verdict.base, check), valued(verdict.new, check), signed(verdict.change), interval(check)]
    return [brief(printable(check.metric), _METRIC), *values, shown(verdict.limit, "fraction"), word]


def _cause(each: Cause) -> list[str]:
    name, why = brief(printable(each.name), _CALL), printable(each.status or each.kind)
    return [name, shown(each.base, "ns"), shown(each.new, "ns"), changed(each), why]


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[Line]:
    """The rows as a table: the first column and the last at the left, the others at the right."""
    widths = [max(cells(row[column]) for row in rows) for column in range(len(rows[0]))]
    last = len(widths) - 1
    for place, row in enumerate(rows):
        parts = [padded(part, widths[at], right=0 < at < last) for at, part in enumerate(row)]
        yield plain("  ".join(parts).rstrip(), "dim" if place == 0 else "")
