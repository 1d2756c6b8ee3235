"""The summary as lines: one sentence, one bar, small steps, two short tables, what is odd, what to type next.

Draws a `digest`, and computes nothing but lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kinetoscope.advisor.advice import stake_of
from kinetoscope.pages.blocks import Part
from kinetoscope.pages.digest import Digest, TopRow
from kinetoscope.screens.findings import LOOKS
from kinetoscope.screens.grid import share_text
from kinetoscope.screens.terminal import parts_lines, right
from kinetoscope.views.names import briefs
from kinetoscope.views.numbers import scale
from kinetoscope.views.terminal.bars import bar, sparkline
from kinetoscope.views.terminal.lines import Line, Piece, plain, without_colour
from kinetoscope.views.text import cells, middle, padded, printable, wrapped

MAX_COLUMNS = 100
"""Cells; longer lines are hard to read."""

_SAID = 3  # remarks on health that are shown; doctor shows all
_LABELLED = 4, 16  # cells of a step, and how many steps have their number below


def lines(digest: Digest, *, width: int) -> Iterator[Line]:
    """The whole screen, in at most `width` cells."""
    width = min(width, MAX_COLUMNS)
    sections = (_head, _words, _changes, _step, _spread, _tops, _health, _next)
    begun = False
    for section in sections:
        drawn = list(section(digest, width))
        if drawn and begun:
            yield plain()
        yield from drawn
        begun = begun or bool(drawn)


def text(digest: Digest) -> str:
    """The same without colour."""
    return without_colour(lines(digest, width=MAX_COLUMNS)).rstrip("\n")


def _head(digest: Digest, width: int) -> Iterator[Line]:
    yield plain(middle(printable(digest.name), width), "bold")
    if digest.facts:
        yield from (plain(line, "dim") for line in wrapped(printable(" · ".join(digest.facts)), width))


def _words(digest: Digest, width: int) -> Iterator[Line]:
    yield from (plain(line, "bold") for line in wrapped(printable(digest.headline), width))
    for said in filter(None, (*digest.memory, digest.serving, digest.limits)):
        yield from (plain(line) for line in wrapped(printable(said), width))
    for said in digest.damage:
        yield from (plain(line, "warn") for line in wrapped(f"! {printable(said)}", width, indent="  "))
    if digest.ranks:
        yield from (plain(line) for line in wrapped(printable(digest.ranks), width))
    if digest.loss and not digest.changes:
        yield from (plain(line) for line in wrapped(printable(digest.loss), width))


def _changes(digest: Digest, width: int) -> Iterator[Line]:
    """The headline of the findings; then the next ones: severity, time at stake, what is wrong, the rule's code.

    `advise` says it in full.
    """
    said = digest.first + "".join(f" ({each.severity}, {each.code})" for each in digest.changes[:1])
    if digest.first:
        yield from (plain(line, "bold") for line in wrapped(f"What to change: {printable(said)}", width))
    others = digest.changes[1:]
    stakes = right([stake_of(change) for change in others])
    marks = [f"{change.severity}, {change.certainty}" for change in others]
    wide = max(map(cells, marks), default=0)
    for stake, mark, change in zip(stakes, marks, others, strict=True):
        room = width - wide - cells(stake) - cells(change.code) - 7
        title = printable(change.title)
        shortened = title if cells(title) <= room else f"{wrapped(title, room - 1)[0]}…"
        label: Piece = (padded(mark, wide), LOOKS[change.severity])
        yield (label, (f"  {stake}   ", "waiting"), (shortened, ""), (f"  {change.code}", "dim"))
    if digest.advice is not None and digest.advice.limits:
        yield from (plain(line, "dim") for line in wrapped(digest.advice.limits, width))


def _step(digest: Digest, width: int) -> Iterator[Line]:
    """One bar for the average step, and under it the meanings of its colours."""
    return parts_lines([Part(part.kind, part.label, part.time) for part in digest.parts], "ns", width)


def _spread(digest: Digest, width: int) -> Iterator[Line]:
    """Steps or ranks as columns of one line, from zero, so that an uneven one is seen; few have their numbers below."""
    spread = digest.spread
    if spread is None:
        return
    cell, most = _LABELLED
    title: Piece = padded(spread.title, 8), "bold"
    times = [column.time for column in spread.columns]
    words = middle(spread.words, width - 10 - min(len(times), 30))
    if len(times) <= min(most, (width - 10 - cells(words)) // cell):
        columns = "".join(each * (cell - 1) + " " for each in sparkline(times))
        yield (title, (columns, spread.kind), (f" {words}", ""))
        labels = [f"{middle(column.label, cell - 1):^{cell - 1}} " for column in spread.columns]
        yield plain(" " * 8 + "".join(labels), "dim")
        return
    columns = sparkline(_thinned(times, width - cells(words) - 10))
    yield (title, (columns, spread.kind), (f"  {words}", ""))


def _thinned(values: Sequence[float], room: int) -> list[float]:
    """At most `room` values, each the largest of those it stands for: a slow step must not get lost."""
    size = -(-len(values) // room)
    return [max(values[start : start + size]) for start in range(0, len(values), size)]


def _tops(digest: Digest, width: int) -> Iterator[Line]:
    begun = False
    for title, rows in digest.tops:
        if rows and begun:
            yield plain()
        if rows:
            yield from _top(title, rows, width)
            begun = True


def _top(title: str, rows: Sequence[TopRow], width: int) -> Iterator[Line]:
    unit = scale([row.time for row in rows], rows[0].unit)
    counted = all(row.calls is not None for row in rows)
    calls = right(["calls" if counted else "", *(row.count for row in rows)])
    times = right(["time" if counted else "size", *(unit.with_unit(row.time) for row in rows)])
    shares = right(["share", *(share_text(row.share) for row in rows)])
    picture = width // 6
    name = width - picture - cells(calls[0]) - cells(times[0]) - cells(shares[0]) - 8
    numbers = [f"  {call}  {time}  {share}  " for call, time, share in zip(calls, times, shares, strict=True)]
    largest = max(row.share for row in rows)
    yield ((padded(middle(printable(title), name), name), "bold"), (numbers[0], "dim"))
    names = briefs([row.name for row in rows], name)
    for row, text, number in zip(rows, names, numbers[1:], strict=True):
        yield ((padded(text, name) + number, ""), (bar(row.share, largest, picture), row.kind))


def _health(digest: Digest, width: int) -> Iterator[Line]:
    said = _SAID - bool(digest.ranks)  # of several ranks there is more to say above
    for severity, message in digest.health[:said]:
        first, *rest = wrapped(printable(message), width - 3)
        mark: Piece = ("! ", "warn") if severity in ("error", "warning") else ("· ", "dim")
        yield (mark, (first, ""))
        if rest:
            yield plain(f"  {rest[0]}{'…' if rest[1:] else ''}")
    if len(digest.health) > said:
        yield plain(f"· {len(digest.health) - said} more: see kinetoscope doctor", "dim")


def _next(digest: Digest, width: int) -> Iterator[Line]:
    commands = [(printable(command), why) for command, why in digest.commands]
    room = max(cells(command) for command, _ in commands)
    for command, why in commands:
        text = middle(padded(command, room), width)
        yield ((text, ""), (middle("   " + why, width - cells(text)), "dim"))
