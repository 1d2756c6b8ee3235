"""Advice as lines: each finding with its time at stake on the scale of the step, what to change, and where to look.

Draws the findings of the rules, and computes nothing but lengths.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from kinetoscope.advisor.advice import METHOD, Advice, is_part_sure
from kinetoscope.advisor.finding import Evidence, Finding
from kinetoscope.model.steps.grammar import time_range_text
from kinetoscope.model.trace.symptoms import DAMAGED
from kinetoscope.views.numbers import scale, shown
from kinetoscope.views.terminal.lines import FILL, THIN, Line, Piece, plain
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


def lines(advice: Advice, *, path: str, ranks: int, width: int, limit: int | None = None) -> Iterator[Line]:
    """The whole screen, in at most `width` cells.

    Args:
        advice: the findings.
        path: what the user named, for the commands that show more.
        ranks: of the job.
        width: cells in a line.
        limit: findings at most; None takes a screenful, 0 all.
    """
    room = min(width, MAX_LINE_CELLS)
    yield from _head(advice, ranks, room)
    limit = FINDINGS if limit is None else limit or len(advice.findings)
    seen = advice.findings[:limit]
    columns = (
        max((cells(_mark(finding)) for finding in seen), default=0) + 2,
        max((cells(_interval(finding)) for finding in seen if _timed(finding)), default=0) + 2,
    )
    for number, finding in enumerate(seen, 1):
        yield plain()
        yield from _finding(finding, number, columns, path, ranks, room, endless=width >= UNBOUNDED // 2)
    if (more := len(advice.findings) - limit) > 0:
        yield plain()
        yield plain(f"… {more} more finding{'s' * (more > 1)} (--limit 0 shows all)", "dim")
    yield from _foot(advice, room)


def _head(advice: Advice, ranks: int, width: int) -> Iterator[Line]:
    yield from (plain(line, "bold") for line in wrapped(printable(advice.headline), width))
    step = f"A step takes {shown(advice.step, 'ns')}" if advice.step else "There are no steps to measure by"
    where = f" on average over {ranks} ranks" if ranks > 1 and advice.step else ""
    counts = {name: len(advice.of(name)) for name in LOOKS}
    said = ", ".join(f"{count} {name}{'s' * (count > 1 and name != 'critical')}"
                     for name, count in counts.items() if count)  # fmt: skip
    text = f"{step}{where}: {said}." if said else f"{step}{where}."
    yield from (plain(line, "dim") for line in wrapped(text, width))
    for note in advice.notes:
        if DAMAGED in note:
            yield from (plain(line, "warn") for line in wrapped(f"! {printable(note)}", width, indent="  "))


def _finding(
    finding: Finding, number: int, columns: tuple[int, int], path: str, ranks: int, width: int, *, endless: bool
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
    yield from _where(finding, path, ranks, inner, endless=endless)


def _stake(finding: Finding, columns: tuple[int, int], room: int) -> Iterator[Line]:
    """The time at stake on the scale of the step: what is sure, what is possible, what stays."""
    marks, numbers = columns
    words, code = _mark(finding).rsplit(" ", 1)
    label: list[Piece] = [(words, LOOKS[finding.severity]), (f" {code}", "dim")]
    if not _timed(finding):
        yield [(_INDENT, ""), *label]
        return
    if marks + numbers > room:
        yield [(_INDENT, ""), *label]
        yield plain(f"{_INDENT}{_interval(finding)}")
        return
    gap = " " * (marks - cells(_mark(finding)))
    length = room - marks - numbers
    bar = _bar(finding, length) if length >= _MIN_BAR_CELLS else []
    yield [(_INDENT, ""), *label, (gap, ""), *bar, (f"  {_interval(finding)}", "")]


def _mark(finding: Finding) -> str:
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


def _interval(finding: Finding) -> str:
    """`28.4 – 53.6 ms (17 – 32%)`; of what is not sure, `up to 53.6 ms (32%)`."""
    low, high = (_share(end / finding.step) for end in (finding.stake.low, finding.stake.high))
    share = high if low == high or not is_part_sure(finding) else f"{low.removesuffix('%')} – {high}"
    return f"{stake_of(finding)} ({share})"


def stake_of(finding: Finding) -> str:
    """`28.4 – 53.6 ms`; of what is not sure, `up to 53.6 ms`."""
    low, high = finding.stake.low, finding.stake.high
    unit = scale([high], "ns")
    last = unit.with_unit(high)
    if not is_part_sure(finding):
        return f"up to {last}"
    return last if unit.with_unit(low) == last else f"{unit.text(low)} – {last}"


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def _where(finding: Finding, path: str, ranks: int, room: int, *, endless: bool) -> Iterator[Line]:
    """Where to look: the evidence in words, and what to type to see it."""
    for each in finding.evidence:
        command = _command(each, path, ranks)
        place = f" ({printable(each.file)}:{each.line})" if each.file else ""
        words = f"→ {printable(each.text)}{place}"
        if not command:
            yield from (plain(_INDENT + line) for line in wrapped(words, room, indent="  "))
        elif endless or cells(words) + 2 + cells(command) <= room:
            yield ((_INDENT + words + "  ", ""), (command, "dim"))
        else:
            yield from (plain(_INDENT + line) for line in wrapped(words, room, indent="  "))
            yield plain(_INDENT + "  " + command, "dim")  # never shortened: it is there to be copied
    for remark in finding.remarks(ranks):
        yield from (plain(_INDENT + line, "dim") for line in wrapped(f"· {remark}", room, indent="  "))


def _command(each: Evidence, path: str, ranks: int) -> str:
    """`kinetoscope show step-breakdown run --ranks 3 --time-range 1.2ms..3.4ms`; "" where nothing shows it."""
    if not each.analysis:
        return ""
    words = ["kinetoscope", "show", each.analysis.replace("_", "-"), printable(path)]
    if each.rank is not None and ranks > 1:
        words += ["--ranks", str(each.rank)]
    for name, value in each.params.items():
        words += [f"--{name.replace('_', '-')}", printable(str(value))]
    if each.time_range is not None:
        words += ["--time-range", time_range_text(*_outwards(*each.time_range))]
    return " ".join(map(shlex.quote, words))


def _outwards(start: int, end: int) -> tuple[int, int]:
    """A range widened to whole microseconds."""
    return (start // 1000 * 1000, -(-end // 1000) * 1000) if end >= 10**6 else (start, end)


def _foot(advice: Advice, width: int) -> Iterator[Line]:
    notes: Sequence[str] = [note for note in advice.notes if DAMAGED not in note]
    if advice.findings:
        yield plain()
        code = advice.findings[0].code
        yield (
            (f"kinetoscope advise --explain {code}", ""),
            ("   what the rule checks, and why it matters", "dim"),
        )
        yield plain()
        yield from (plain(line, "dim") for line in wrapped(METHOD, width))
    if notes:
        yield plain()
    for note in notes:
        yield from (plain(line, "dim") for line in wrapped(f"· {printable(note)}", width, indent="  "))
