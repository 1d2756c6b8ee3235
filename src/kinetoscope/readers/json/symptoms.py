"""The reader's symptoms of a text: how much of it was broken, cut, repaired or lost."""

from __future__ import annotations

from collections.abc import Iterator

from kinetoscope.model.trace.symptoms import cut_stream
from kinetoscope.model.trace.text import number_of
from kinetoscope.notes import Note
from kinetoscope.readers.files.stream import Text
from kinetoscope.readers.json.document import TraceDocument
from kinetoscope.readers.json.events import ParsedEvents


def findings(text: Text, document: TraceDocument, elements: ParsedEvents, trailing: int) -> list[Note]:
    """All symptoms; `trailing` is how many bytes follow the end of the document, or its last whole value."""
    return [
        *_of_the_text(text, document, elements, trailing),
        *_of_the_events(elements, text.length),
        *_of_the_rest(document),
    ]


def _of_the_text(text: Text, document: TraceDocument, elements: ParsedEvents, trailing: int) -> Iterator[Note]:
    behind = trailing / text.length if text.length else 0.0
    if text.fault:
        yield cut_stream("; ".join(text.fault), text.unread)
    if elements.cut:
        last = (
            ""
            if elements.cut_place is None
            else f" The event at byte {elements.cut_place:,}, which is cut, is left out."
        )
        yield Note("TRUNCATED", f"The text ends at byte {text.length:,}, inside the list of events.{last}", "error")
    elif not document.complete and not document.is_list:
        ignored = f" The last {trailing:,} bytes are ignored." if trailing else ""
        message = f"The text ends before the closing brace; all events are there.{ignored}"
        yield Note("TRUNCATED", message, "warning", lost=behind)
    elif trailing:
        yield Note(
            "TRAILING", f"{trailing:,} bytes after the end of the trace are ignored.", "warning", trailing, behind
        )
    if text.goes_on:
        yield Note("TRAILING", "What follows the compressed data in the file is ignored.", "warning")


def _of_the_events(elements: ParsedEvents, length: int) -> Iterator[Note]:
    lost = elements.lost_bytes / length if length else 0.0
    if elements.repaired:
        kinds = ", ".join(f"{what} ({count})" for what, count in elements.repaired.most_common(5))
        total = elements.repaired.total()
        yield Note(
            "REPAIRED",
            f"{number_of(total, 'event was', 'events were')} broken JSON and repaired: {kinds}.",
            "warning",
            total,
            0.0 if elements.lost or elements.rubbish else lost,
        )
    if elements.lost:
        places = ", ".join(f"{place:,}" for place in elements.lost_places)
        message = f"{number_of(elements.lost, 'broken event')} left out (at byte {places})."
        yield Note("LOST", message, "error", elements.lost, lost)
    if elements.rubbish:
        message = f"{number_of(elements.rubbish, 'piece')} of text between events, no JSON, left out."
        yield Note("RUBBISH", message, "warning", elements.rubbish, 0.0 if elements.lost else lost)
    if elements.odd_commas:
        message = f"{number_of(elements.odd_commas, 'comma')} between events missing or doubled; nothing was lost."
        yield Note("ODD_COMMAS", message, "note", elements.odd_commas)


def _of_the_rest(document: TraceDocument) -> Iterator[Note]:
    if document.lists > 1:
        message = f"The file has {document.lists} lists of events; they are read as one."
        yield Note("SEVERAL_LISTS", message, "note", document.lists)
    if document.repaired:
        message = f"Top-level values were broken JSON and were repaired: {'; '.join(document.repaired[:5])}."
        yield Note("REPAIRED_METADATA", message, "note", len(document.repaired))
