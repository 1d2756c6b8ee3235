"""Reads Kineto's trace files: JSON in the Chrome trace format as `torch.profiler` writes it, of every era and vendor.

The document around the events is read by `document`, the events by one or several tokenizers, what is broken by
`repair`. Ignores nothing: whatever is in the file can be had back from the Trace.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from kinetoscope.errors import BrokenTraceError, NotATraceError
from kinetoscope.model.health import Symptom
from kinetoscope.model.source import Source
from kinetoscope.model.trace import Trace
from kinetoscope.readers import recognise, repair
from kinetoscope.readers import tokenizer as tk
from kinetoscope.readers.assembly import assemble
from kinetoscope.readers.columns import Chunk, Columns, Tokenizer, padded
from kinetoscope.readers.document import Document, next_events, open_document
from kinetoscope.readers.stream import BLOCK, Blocks
from kinetoscope.readers.window import Window

NAME = "kineto"

HINT = 'a trace is what torch.profiler writes: prof.export_chrome_trace("trace.json"), or tensorboard_trace_handler'


@dataclass(slots=True)
class _Events:
    """What the tokenizers have made so far.

    Attributes:
        columns: the rows, in file order.
        repaired, lost: kinds of damage and how often; lost_places: where, for the first few.
        odd_commas: commas missing or doubled between events.
        serial_from: where in the text parsing in pieces was given up, if it was.
        cut: the text ended inside the list of events.
    """

    team: list[Tokenizer]
    columns: Columns = field(default_factory=Columns)
    repaired: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    lost_places: list[int] = field(default_factory=list)
    odd_commas: int = 0
    serial_from: int | None = None
    cut: bool = False


def load(source: Source, *, progress: Callable[[int], None] | None = None) -> Trace:
    """The trace in a file.

    Args:
        source: which file, and how to read it.
        progress: told how many more bytes of the file, as stored, have been read.

    Raises:
        NotFoundError: the file cannot be read.
        NotATraceError: it is something else; the message says what.
        BrokenTraceError: no event of it could be kept.
        LimitError: it is larger than the limits of `source.options` allow.
    """
    options = source.options
    with Blocks(source.url, max_size=options.max_size, progress=progress) as blocks:
        window = Window(blocks, max_event=options.max_event)
        document = Document()
        events = _Events([Tokenizer() for _ in range(max(1, options.threads))])
        window.fill()
        _refuse_other_formats(source, window)
        more = open_document(window, document)
        while more:
            _read_events(window, events)
            more = not document.is_list and next_events(window, document)
        trailing = window.rest.strip() if document.complete or document.is_list else b""
        symptoms = _symptoms(blocks, document, events, len(trailing))
        if not document.has_events:
            raise NotATraceError(_not_a_trace(source, document, blocks))
        if not events.columns.rows and (events.lost or events.cut):
            raise BrokenTraceError(f"{source.url}: broken, and no event of it could be kept; record it again")
        return assemble(source, document, [t.tables for t in events.team], events.columns, symptoms, blocks.length)


def _refuse_other_formats(source: Source, window: Window) -> None:
    other = recognise.what_is(window.rest[: 1 << 16])
    if other is not None:
        raise NotATraceError(f"{source.url}: not a Kineto trace: {other.what}; {other.hint}")


def _not_a_trace(source: Source, document: Document, blocks: Blocks) -> str:
    if not blocks.length:
        reason = f" ({blocks.fault[0]})" if blocks.fault else ""
        return f"{source.url}: the file is empty{reason}; {HINT}"
    keys = ", ".join(key for key, _ in document.members[:5])
    found = f"JSON without traceEvents (it has {keys})" if keys else "no JSON object with traceEvents"
    return f"{source.url}: not a Kineto trace: {found}; {HINT}"


def _read_events(window: Window, events: _Events) -> None:
    """Read one list of events; the window stands after its `[`, and afterwards behind its `]` or at the end."""
    status, expect = tk.MORE, tk.FIRST
    if len(events.team) > 1:
        status, expect = _read_in_pieces(window, events)
    if status != tk.DONE:
        _read_serially(window, events, expect)


# --- one after the other


def _read_serially(window: Window, events: _Events, expect: int) -> None:
    tokenizer = events.team[0]
    before = int(tokenizer.tables.at[tk.ODD_COMMAS])
    while True:
        status, window.position, expect = tokenizer.feed(
            window.array, window.limit, window.position, expect, events.columns.append
        )
        if status == tk.DONE:
            break
        if status == tk.BROKEN:
            expect = _mend(window, events)
            if expect == tk.DONE:
                break
        elif not window.fill():
            events.cut = True
            if window.position < window.limit:
                events.lost += 1
                events.lost_places.append(window.place)
            window.position = window.limit
            break
    events.odd_commas += int(tokenizer.tables.at[tk.ODD_COMMAS]) - before
    tokenizer.flush(events.columns.append)


def _mend(window: Window, events: _Events) -> int:
    """Repair the element at the window's position, or leave it out; what may come next, or DONE after the last."""
    begin, end, last = _extent(window)
    text = bytes(window.data[begin:end])
    mended = repair.repair_event(text)
    if mended is None:
        events.lost += 1
        if len(events.lost_places) < 5:
            events.lost_places.append(window.offset + begin)
    else:
        events.repaired[mended.what] += 1
        content = mended.json + b","
        events.team[0].feed(padded(content), len(content), 0, tk.ELEMENT, events.columns.append)
    window.position = end
    if last:
        window.position = end + 1
        return tk.DONE
    return tk.ELEMENT


def _extent(window: Window) -> tuple[int, int, bool]:
    """Where the broken element begins and ends, and whether the list of events ends there."""
    while True:
        text = memoryview(window.data)[: window.limit]
        begin = window.position
        follows = repair.next_event(text, begin)
        closes = repair.end_of_events(text[:follows] if follows >= 0 else text, begin)
        if closes >= 0 and (follows < 0 or closes < follows):
            return begin, closes, True
        if follows >= 0:
            return begin, follows, False
        if not window.fill():
            return begin, window.limit, False


# --- in pieces, on several threads


@dataclass(slots=True)
class _Piece:
    text: bytearray
    limit: int
    place: int
    tokenizer: int
    outcome: Future[tuple[int, int, int, list[Chunk], int]]


def _read_in_pieces(window: Window, events: _Events) -> tuple[int, int]:
    """Read as far as pieces go: DONE, or MORE or BROKEN with the window where one tokenizer must go on alone.

    A piece counts only if the one before it ended exactly at its beginning, and it itself ends exactly at the next;
    else what was made of it and of those after it is thrown away, and its text goes back.
    """
    team = events.team
    pools = [ThreadPoolExecutor(1, f"kinetoscope-parse-{k}") for k in range(len(team))]
    pending: deque[_Piece] = deque()
    status, expect = tk.MORE, tk.FIRST
    whole = True
    try:
        for number, (text, limit, place) in enumerate(window.pieces()):
            k = number % len(team)
            first = tk.FIRST if number == 0 else tk.ELEMENT
            pending.append(_Piece(text, limit, place, k, pools[k].submit(_parse, team[k], text, limit, first)))
            if len(pending) > len(team) and not (settled := _settle(pending, events))[0]:
                whole, status, expect = settled
                break
        while whole and pending:
            whole, status, expect = _settle(pending, events)
        if not whole:
            for piece in pending:
                piece.outcome.result()
            _give_back(window, pending)
    finally:
        for pool in pools:
            pool.shutdown()
    return status, expect


def _parse(tokenizer: Tokenizer, text: bytearray, limit: int, expect: int) -> tuple[int, int, int, list[Chunk], int]:
    before = int(tokenizer.tables.at[tk.ODD_COMMAS])
    chunks: list[Chunk] = []

    def keep(chunk: Chunk) -> None:
        chunks.append(chunk.copy())

    status, position, expect = tokenizer.feed(np.frombuffer(text, np.uint8), limit, 0, expect, keep)
    tokenizer.flush(keep)
    return status, position, expect, chunks, int(tokenizer.tables.at[tk.ODD_COMMAS]) - before


def _settle(pending: deque[_Piece], events: _Events) -> tuple[bool, int, int]:
    """Accept the oldest piece: was it whole, and if not, how did it end and what may come next?

    A piece that was not whole stays first in `pending`, with `limit` and `place` moved to what is left of it.
    """
    piece = pending[0]
    status, position, expect, chunks, odd = piece.outcome.result()
    for chunk in chunks:
        events.columns.append(chunk, piece.tokenizer)
    events.odd_commas += odd
    if status == tk.MORE and position == piece.limit and (expect == tk.ELEMENT):
        pending.popleft()
        return True, status, expect
    piece.text = piece.text[position : piece.limit]
    piece.place += position
    piece.limit = len(piece.text)
    if status != tk.DONE:
        events.serial_from = piece.place
    return False, status, expect


def _give_back(window: Window, pending: deque[_Piece]) -> None:
    window.unread([piece.text[: piece.limit] for piece in pending], pending[0].place)


# --- what there is to say about it


def _symptoms(blocks: Blocks, document: Document, events: _Events, trailing: int) -> list[Symptom]:
    found = []
    if blocks.fault:
        found.append(Symptom("STREAM", "error", f"{'; '.join(blocks.fault)}: what could be read is kept."))
    if events.cut:
        place = f" at byte {blocks.length:,}" if blocks.length else ""
        last = " The event that was cut is left out." if events.lost_places else ""
        found.append(Symptom("TRUNCATED", "error", f"The text ends{place}, inside the list of events.{last}"))
    elif not document.complete and not document.is_list:
        found.append(Symptom("TRUNCATED", "warning", "The text ends before the closing brace; all events are there."))
    if events.repaired:
        kinds = ", ".join(f"{what} ({count})" for what, count in events.repaired.most_common(5))
        total = events.repaired.total()
        found.append(Symptom("REPAIRED", "warning", f"{total} events were broken JSON and were repaired: {kinds}.", total))
    if events.lost:
        places = ", ".join(f"{place:,}" for place in events.lost_places[:5])
        message = f"{events.lost} events could not be repaired and are left out (at byte {places})."
        found.append(Symptom("LOST", "error", message, events.lost))
    if document.repaired:
        message = f"Top-level values were broken JSON and were repaired: {'; '.join(document.repaired[:5])}."
        found.append(Symptom("REPAIRED_METADATA", "note", message, len(document.repaired)))
    if events.odd_commas:
        message = f"{events.odd_commas} commas between events are missing or doubled; no event was lost by it."
        found.append(Symptom("ODD_COMMAS", "note", message, events.odd_commas))
    if trailing:
        found.append(Symptom("TRAILING", "warning", f"{trailing:,} bytes after the end of the trace are ignored.", trailing))
    return found


def threads_for(stored: int | None, compressed: bool, cores: int) -> int:
    """How many threads are worth it for a file of so many bytes: one for what is parsed before threads have started."""
    if stored is None:
        return cores
    return cores if stored * (10 if compressed else 1) > 8 * BLOCK else 1
