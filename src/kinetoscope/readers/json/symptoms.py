"""The reader's symptoms of a text: how much of it was broken, cut, repaired or lost."""

from __future__ import annotations

from collections.abc import Iterator

from kinetoscope.model.trace.symptoms import Symptom
from kinetoscope.model.trace.text import number_of
from kinetoscope.readers.files.stream import Text
from kinetoscope.readers.json.document import TraceDocument
from kinetoscope.readers.json.events import ParsedEvents


def findings(text: Text, document: TraceDocument, elements: ParsedEvents, trailing: int) -> list[Symptom]:
    """All symptoms; `trailing` is how many bytes follow the end of the document, or its last whole value."""
    return [
        *_of_the_text(text, document, elements, trailing),
        *_of_the_events(elements, text.length),
        *_of_the_rest(document),
    ]


def _of_the_text(text: Text, document: TraceDocument, elements: ParsedEvents, trailing: int) -> Iterator[Symptom]:
    behind = trailing / text.length if text.length else 0.0
    if text.fault:
        yield Symptom("STREAM", "error", f"{'; '.join(text.fault)}: what could be read is kept.", lost=text.unread)
    if elements.cut:
        last = (
            ""
            if elements.cut_place is None
            else f" The event at byte {elements.cut_place:,}, which is cut, is left out."
        )
        yield Symptom("TRUNCATED", "error", f"The text ends at byte {text.length:,}, inside the list of events.{last}")
    elif not document.complete and not document.is_list:
        ignored = f" The last {trailing:,} bytes are ignored." if trailing else ""
        message = f"The text ends before the closing brace; all events are there.{ignored}"
        yield Symptom("TRUNCATED", "warning", message, lost=behind)
    elif trailing:
        yield Symptom(
            "TRAILING", "warning", f"{trailing:,} bytes after the end of the trace are ignored.", trailing, behind
        )
    if text.goes_on:
        yield Symptom("TRAILING", "warning", "What follows the compressed data in the file is ignored.")


def _of_the_events(elements: ParsedEvents, length: int) -> Iterator[Symptom]:
    lost = elements.lost_bytes / length if length else 0.0
    if elements.repaired:
        kinds = ", ".join(f"{what} ({count})" for what, count in elements.repaired.most_common(5))
        total = elements.repaired.total()
        yield Symptom(
            "REPAIRED",
            "warning",
            f"{number_of(total, 'event was', 'events were')} broken JSON and repaired: {kinds}.",
            total,
            0.0 if elements.lost or elements.rubbish else lost,
        )
    if elements.lost:
        places = ", ".join(f"{place:,}" for place in elements.lost_places)
        message = f"{number_of(elements.lost, 'broken event')} left out (at byte {places})."
        yield Symptom("LOST", "error", message, elements.lost, lost)
    if elements.rubbish:
        message = f"{number_of(elements.rubbish, 'piece')} of text between events, no JSON, left out."
        yield Symptom("RUBBISH", "warning", message, elements.rubbish, 0.0 if elements.lost else lost)
    if elements.odd_commas:
        message = f"{number_of(elements.odd_commas, 'comma')} between events missing or doubled; nothing was lost."
        yield Symptom("ODD_COMMAS", "note", message, elements.odd_commas)


def _of_the_rest(document: TraceDocument) -> Iterator[Symptom]:
    if document.lists > 1:
        message = f"The file has {document.lists} lists of events; they are read as one."
        yield Symptom("SEVERAL_LISTS", "note", message, document.lists)
    if document.repaired:
        message = f"Top-level values were broken JSON and were repaired: {'; '.join(document.repaired[:5])}."
        yield Symptom("REPAIRED_METADATA", "note", message, len(document.repaired))
