"""The elements of `traceEvents`: tokenized one after the other, or in pieces on several threads; broken ones mended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from kinetoscope.readers.files.stream import MAX_BLOCK_BYTES
from kinetoscope.readers.json import tokenizer as tk
from kinetoscope.readers.json.columns import EventColumns, Tokenizer, padded
from kinetoscope.readers.json.document import goes_on
from kinetoscope.readers.json.parallel import read_pieces
from kinetoscope.readers.json.window import TextWindow

_MAX_FAILURES: Final = 8
"""Failures of parsing in pieces in one list, after little progress; each costs the parsing of some blocks."""

_PROGRESS_BYTES: Final = 16 * MAX_BLOCK_BYTES
"""Bytes that parsing in pieces must come for a failure not to count."""

_MAX_MENDED_BYTES: Final = 1 << 24
"""Bytes of a broken element beyond which it is given up: mending takes time, and what is so long is a hole."""

_OVERLAP_BYTES: Final = 1 << 16
"""Bytes that are searched again for the next element when there is more text: the end of the one was not there yet."""


_SWALLOWED_BYTES: Final = 16_384
"""Bytes of a broken element from which on it was more than one."""


@dataclass(slots=True)
class ParsedEvents:
    """What the tokenizers have made so far.

    Attributes:
        team: one tokenizer for each thread.
        columns: the rows, in file order.
        repaired: kinds of damage and how often.
        lost, lost_places: elements that could not be repaired; where the first few of them stood.
        lost_bytes: of elements, and of parts of them, that are left out for being no JSON.
        rubbish: pieces of text between elements that are no JSON.
        odd_commas: commas missing or doubled between elements.
        cut: the text ended inside the list.
        cut_place: where the element begins that was cut, if one was.
    """

    team: list[Tokenizer]
    columns: EventColumns = field(default_factory=EventColumns)
    repaired: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    lost_places: list[int] = field(default_factory=list)
    lost_bytes: int = 0
    rubbish: int = 0
    odd_commas: int = 0
    cut: bool = False
    cut_place: int | None = None


def read_elements(window: TextWindow, elements: ParsedEvents) -> None:
    """Read one list; the window stands after its `[`, and afterwards behind its `]` or at the end of the text."""
    status, expect = tk.MORE, tk.FIRST
    failures_left = _MAX_FAILURES if len(elements.team) > 1 else 0
    while status != tk.DONE and not elements.cut:
        if failures_left and (window.position < window.limit or window.fill()):
            begin = window.place
            outcome = read_pieces(window, elements.team, elements.columns, expect)
            status, expect = outcome.status, outcome.expect
            elements.odd_commas += outcome.odd_commas
            failures_left -= window.place - begin < _PROGRESS_BYTES
        if status != tk.DONE:
            status, expect = _read_serially(window, elements, expect, to_the_end=not failures_left)
        if status == tk.DONE and goes_on(window):
            elements.rubbish += 1
            status, expect = tk.MORE, tk.ELEMENT


def _read_serially(window: TextWindow, elements: ParsedEvents, expect: int, *, to_the_end: bool) -> tuple[int, int]:
    """Read on with one tokenizer: DONE, or MORE at the end of the text (or of what the window holds now)."""
    tokenizer = elements.team[0]
    before = tokenizer.odd_commas
    begin = window.place
    while True:
        status, window.position, expect = tokenizer.feed(
            window.array, window.limit, window.position, expect, elements.columns.append
        )
        if status == tk.BROKEN:
            status, expect = _mend(window, elements)
        if status == tk.DONE or (not to_the_end and status == tk.MORE and window.place > begin and not window.ended):
            break
        if status == tk.MORE and not window.fill():
            elements.cut = True
            elements.cut_place = window.place if window.position < window.limit else None
            window.position = window.limit
            break
    elements.odd_commas += tokenizer.odd_commas - before
    tokenizer.flush(elements.columns.append)
    return status, expect


def _mend(window: TextWindow, elements: ParsedEvents) -> tuple[int, int]:
    """Repair the element at the window's position, or leave it out; BROKEN, or DONE after the last; what may follow."""
    from kinetoscope.readers.json import repair

    begin, end, last = _extent(window)
    text = memoryview(window.data)[begin:end]
    mended = repair.repair_event(bytes(text)) if len(text) <= _MAX_MENDED_BYTES else None
    if mended is not None and _keep(mended.json, elements):
        elements.repaired[mended.what] += 1
        if len(text) > _SWALLOWED_BYTES:  # others were swallowed by a text that did not end
            elements.lost_bytes += len(text)
        elif "dropped" in mended.what:  # what else is shorter was only written otherwise
            elements.lost_bytes += max(0, len(text) - len(mended.json))
    elif window.data[begin] != ord("{"):
        elements.rubbish += 1
        elements.lost_bytes += len(text)
    else:
        elements.lost_bytes += len(text)
        elements.lost += 1
        if len(elements.lost_places) < 5:
            elements.lost_places.append(window.offset + begin)
    window.position = end + last
    return tk.DONE if last else tk.BROKEN, tk.ELEMENT


def _keep(content: bytes, elements: ParsedEvents) -> bool:
    """Tokenize one element; false if it is no JSON after all."""
    status, position, _ = elements.team[0].feed(
        padded(content + b","), len(content) + 1, 0, tk.ELEMENT, elements.columns.append
    )
    return status == tk.MORE and position > len(content)


def _extent(window: TextWindow) -> tuple[int, int, bool]:
    """Where the broken element begins and ends, and whether the list ends there."""
    from kinetoscope.readers.json import resync

    searched = 0
    while True:
        text = memoryview(window.data)[: window.limit]
        begin = window.position
        brace = window.data.find(b"{", begin + max(searched, 1), window.limit)
        follows = -1 if brace < 0 else resync.next_event(text, max(begin, brace - _OVERLAP_BYTES))
        final = follows < 0 and window.ended
        before = text if follows < 0 else text[:follows]
        closes = resync.end_of_events(before, begin + (0 if final else searched), final=final)
        if closes >= 0:
            return begin, closes, True
        if follows >= 0 or window.ended:
            return begin, follows if follows >= 0 else window.limit, False
        searched = max(window.limit - begin - _OVERLAP_BYTES, 0)
        window.fill()
