"""Advice as lines: each finding with its time at stake on the scale of the step, what to change, and where to look.

Draws the findings of the rules, and computes nothing but lengths.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from kinetoscope.advisor.advice import METHOD, Advice, stake_text
from kinetoscope.advisor.commands import command
from kinetoscope.advisor.finding import Finding
from kinetoscope.model.trace.symptoms import DAMAGED
from kinetoscope.views.terminal.lines import FILL, THIN, Line, Piece, plain, without_colour
from kinetoscope.views.terminal.screen import UNBOUNDED
from kinetoscope.views.text import cells, printable, wrapped

MAX_LINE_CELLS: Final = 100
"""Longer lines are hard to read."""

FINDINGS: Final = 5
"""Shown where nobody asks for another number: what fits on a screen."""

_MIN_BAR_CELLS: Final = 10
"""A shorter bar would show nothing."""

LOOKS = {"critical": "warn", "warning": "communication", "note": "dim"}
_CHANGED = {"-": "waiting", "+": "memory"}  # what goes out and what comes in, in the palette's red and green
_INDENT = "   "
_CERTAIN_GLYPH, _POSSIBLE_GLYPH, _REST_GLYPH = "█", "▒", "·"


def lines(advice: Advice, *, width: int, limit: int | None = None) -> Iterator[Line]:
    """The whole screen, in at most `width` cells.

    Args:
        advice: the findings.
        width: cells in a line.
        limit: findings at most; None takes a screenful, 0 all.
    """
    room = min(width, MAX_LINE_CELLS)
    yield from _head(advice, room)
    limit = FINDINGS if limit is None else limit or len(advice.findings)
    seen = advice.findings[:limit]
    columns = (
        max((cells(mark(finding)) for finding in seen), default=0) + 2,
        max((cells(stake_text(finding)) for finding in seen if _timed(finding)), default=0) + 2,
    )
    for number, finding in enumerate(seen, 1):
        yield plain()
        yield from _finding(finding, number, columns, advice, room, endless=width >= UNBOUNDED // 2)
    if (more := len(advice.findings) - limit) > 0:
        yield plain()
        yield plain(f"… {more} more finding{'s' * (more > 1)} (--limit 0 shows all)", "dim")
    yield from _foot(advice, room)


def text(advice: Advice) -> str:
    """The whole advice without colour."""
    return without_colour(lines(advice, width=MAX_LINE_CELLS, limit=0)).rstrip("\n")


def _head(advice: Advice, width: int) -> Iterator[Line]:
    yield from (plain(line, "bold") for line in wrapped(printable(advice.headline), width))
    counts = {name: len(advice.of(name)) for name in LOOKS}
    said = ", ".join(f"{count} {name}{'s' * (count > 1 and name != 'critical')}"
                     for name, count in counts.items() if count)  # fmt: skip
    text = f"{advice.measure}: {said}." if said else f"{advice.measure}."
    yield from (plain(line, "dim") for line in wrapped(text, width))
    for note in advice.notes:
        if DAMAGED in note:
            yield from (plain(line, "warn") for line in wrapped(f"! {printable(note)}", width, indent="  "))


def _finding(
    finding: Finding, number: int, columns: tuple[int, int], advice: Advice, width: int, *, endless: bool
) -> Iterator[Line]:
    inner = width - len(_INDENT)
    first, *rest = wrapped(printable(finding.message), inner)
    yield ((f"{number:>2} ", "dim"), (first, "bold"))
    yield from (plain(_INDENT + line, "bold") for line in rest)
    yield from _stake(finding, columns, inner)
    if finding.why:
        yield from (plain(_INDENT + line, "dim") for line in wrapped(printable(finding.why), inner))
    for line in finding.change.splitlines():
        style = _CHANGED.get(line[:1], "")
        text = printable(line)
        each = [text] if endless else wrapped(text, inner - 2, indent="      ")
        yield from (plain(f"{_INDENT}  {part}", style) for part in each)
    yield from _where(finding, advice, inner, endless=endless)


def _stake(finding: Finding, columns: tuple[int, int], room: int) -> Iterator[Line]:
    """The time at stake on the scale of the step: what is sure, what is possible, what stays."""
    marks, numbers = columns
    words, code = mark(finding).rsplit(" ", 1)
    label: list[Piece] = [(words, LOOKS[finding.severity]), (f" {code}", "dim")]
    if not _timed(finding):
        yield [(_INDENT, ""), *label]
        return
    if marks + numbers > room:
        yield [(_INDENT, ""), *label]
        yield plain(f"{_INDENT}{stake_text(finding)}")
        return
    gap = " " * (marks - cells(mark(finding)))
    length = room - marks - numbers
    bar = _bar(finding, length) if length >= _MIN_BAR_CELLS else []
    yield [(_INDENT, ""), *label, (gap, ""), *bar, (f"  {stake_text(finding)}", "")]


def mark(finding: Finding) -> str:
    """`critical, sure DATA001`; of what costs no time there is nothing to be sure of: `note RECORDING001`."""
    return f"{finding.severity}{f', {finding.certainty}' if _timed(finding) else ''} {finding.code}"


def _timed(finding: Finding) -> bool:
    return finding.step > 0 and finding.stake.high > 0


def _bar(finding: Finding, length: int) -> list[Piece]:
    low, high = (min(max(value / finding.step, 0.0), 1.0) for value in (finding.stake.low, finding.stake.high))
    sure = round(low * length)
    until = max(math.ceil(high * length), sure, 1)
    parts = (
        (sure, _CERTAIN_GLYPH, f"{FILL} waiting"),
        (until - sure, _POSSIBLE_GLYPH, f"{THIN} waiting"),
        (length - until, _REST_GLYPH, f"{THIN} idle"),
    )
    return [(glyph * count, style) for count, glyph, style in parts if count]


def _where(finding: Finding, advice: Advice, room: int, *, endless: bool) -> Iterator[Line]:
    """Where to look: the evidence in words, and what to type to see it."""
    for each in finding.evidence:
        shown_by = command(each, advice.path, advice.ranks)
        place = f" ({printable(each.file)}:{each.line})" if each.file else ""
        words = f"→ {printable(each.text)}{place}"
        if not shown_by:
            yield from (plain(_INDENT + line) for line in wrapped(words, room, indent="  "))
        elif endless or cells(words) + 2 + cells(shown_by) <= room:
            yield ((_INDENT + words + "  ", ""), (shown_by, "dim"))
        else:
            yield from (plain(_INDENT + line) for line in wrapped(words, room, indent="  "))
            yield plain(_INDENT + "  " + shown_by, "dim")  # never shortened: it is there to be copied
    for remark in finding.remarks(advice.ranks):
        yield from (plain(_INDENT + line, "dim") for line in wrapped(f"· {remark}", room, indent="  "))


def _foot(advice: Advice, width: int) -> Iterator[Line]:
    notes: Sequence[str] = [note for note in advice.notes if DAMAGED not in note]
    if advice.findings:
        yield plain()
        code = advice.findings[0].code
        yield (
            (f"kinetoscope advise --explain {code}", ""),
            ("   what the rule checks, and why it matters", "dim"),
        )
    if advice.timed:
        yield plain()
        yield from (plain(line, "dim") for line in wrapped(METHOD, width))
    if notes:
        yield plain()
    for note in notes:
        yield from (plain(line, "dim") for line in wrapped(f"· {printable(note)}", width, indent="  "))
