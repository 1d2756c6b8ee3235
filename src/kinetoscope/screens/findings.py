"""Findings on a terminal: each with its time at stake on the scale of the step, what to change, and where to look."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from kinetoscope.advisor.advice import Advice, stake_of, stake_text
from kinetoscope.advisor.commands import command
from kinetoscope.advisor.finding import Finding
from kinetoscope.pages.blocks import FindingsBlock
from kinetoscope.views.terminal.lines import FILL, THIN, Line, Piece, plain
from kinetoscope.views.terminal.screen import UNBOUNDED
from kinetoscope.views.text import cells, padded, printable, right, wrapped

MAX_LINE_CELLS: Final = 100
"""Longer lines are hard to read."""

ENDLESS_CELLS: Final = UNBOUNDED // 2
"""Wider than any terminal: a pipe, or a file, in which no line of code is broken."""

MAX_IN_LINES: Final = 3
"""Findings that are mentioned where a headline stands for them."""

_MIN_BAR_CELLS: Final = 10
"""A shorter bar would show nothing."""

LOOKS = {"critical": "warn", "warning": "communication", "note": "dim"}
_CHANGED = {"-": "waiting", "+": "memory"}  # what goes out and what comes in, in the palette's red and green
_INDENT = "   "
_CERTAIN_GLYPH, _POSSIBLE_GLYPH, _REST_GLYPH = "█", "▒", "·"


def findings(block: FindingsBlock, width: int) -> Iterator[Line]:
    """Each finding with a line before the next one; then how many more there are, and where a rule is explained."""
    advice, seen = block.advice, [row.finding for row in block.findings if row.finding is not None]
    room = min(width, MAX_LINE_CELLS)
    if block.headline:
        yield from (plain(line, "bold") for line in wrapped(f"What to change: {printable(block.headline)}", room))
        yield from _in_lines(advice.notable[1:MAX_IN_LINES] if advice is not None else (), room)
    if advice is None or not seen or block.headline:
        return
    columns = (
        max((cells(mark(finding)) for finding in seen), default=0) + 2,
        max((cells(stake_text(finding)) for finding in seen if _timed(finding)), default=0) + 2,
    )
    for place, finding in enumerate(seen):
        if place:
            yield plain()
        number = advice.findings.index(finding) + 1
        yield from _finding(finding, number, columns, advice, room, endless=width >= ENDLESS_CELLS)
    if block.more:
        yield plain()
        yield plain(f"… {block.more} more finding{'s' * (block.more > 1)} (--limit 0 shows all)", "dim")
    yield plain()
    yield (
        (f"kinetoscope advise --explain {seen[0].code}", ""),
        ("   what the rule checks, and why it matters", "dim"),
    )
    if block.note:
        yield plain()


def _in_lines(others: Sequence[Finding], width: int) -> Iterator[Line]:
    """A line for each: severity, time at stake, what is wrong, the rule's code."""
    stakes = right([stake_of(finding) for finding in others])
    marks = [f"{finding.severity}, {finding.certainty}" for finding in others]
    wide = max(map(cells, marks), default=0)
    for stake, mark, finding in zip(stakes, marks, others, strict=True):
        room = width - wide - cells(stake) - cells(finding.code) - 7
        title = printable(finding.title)
        shortened = title if cells(title) <= room else f"{wrapped(title, room - 1)[0]}…"
        label: Piece = (padded(mark, wide), LOOKS[finding.severity])
        yield (label, (f"  {stake}   ", "waiting"), (shortened, ""), (f"  {finding.code}", "dim"))


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
    yield from code_lines(finding.change, width, f"{_INDENT}  ", endless=endless)
    yield from _where(finding, advice, inner, endless=endless)


def code_lines(code: str, width: int, before: str = "  ", *, endless: bool) -> Iterator[Line]:
    """Lines of code, of a diff in the colours of what goes out and comes in; `endless`: none is broken."""
    for line in code.splitlines():
        style = _CHANGED.get(line[:1], "")
        text = printable(line)
        each = [text] if endless else wrapped(text, width - len(before), indent="      ")
        yield from (plain(before + part, style) for part in each)


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
