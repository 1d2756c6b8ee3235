"""Reads Kineto's trace files: JSON in the Chrome trace format as `torch.profiler` writes it, of every era and vendor.

The document around the events is read by `document`, the events by `events`, what is broken by `repair`. Nothing in the
file is ignored: all of it can be had back from the Trace.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from kinetoscope.errors import BrokenTraceError, LimitError, NotATraceError
from kinetoscope.model.compile.files import COMPILE_TABLES
from kinetoscope.model.trace.source import DEFAULT_MAX_SIZE, Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.files.stored import stamp_of
from kinetoscope.readers.files.stream import Text, TextBlocks, is_url, opened
from kinetoscope.readers.json import probe, sniff
from kinetoscope.readers.json.assembly import assemble
from kinetoscope.readers.json.columns import SIZES, EventColumns, Sizes, Tokenizer
from kinetoscope.readers.json.document import TraceDocument, next_events, open_document
from kinetoscope.readers.json.events import ParsedEvents, read_elements
from kinetoscope.readers.json.merged import load_part, parts
from kinetoscope.readers.json.symptoms import findings
from kinetoscope.readers.json.window import TextWindow
from kinetoscope.readers.reader import TRIALS, Reader

NAME: Final = "kineto"

SIDECAR: Final = ".meta.json"
"""Ending of the file of facts about a run that our recorder writes beside a trace."""

UNSUSPICIOUS_EVENTS: Final = 1 << 22
"""Events up to which it does not matter how short they are."""

SHORTEST_EVENT_BYTES: Final = 32
"""Bytes of text of an event, on average, below which they are made up: one with a name and times has more."""

HINT = 'a trace is what torch.profiler writes: prof.export_chrome_trace("trace.json"), or tensorboard_trace_handler'


def load(source: Source, *, progress: Callable[[int], None] | None = None) -> Trace:
    """The trace in a file.

    Args:
        source: which file, which part of it, and how to read it.
        progress: called with the bytes of the file, as stored, that were read since; perhaps in another thread.

    Raises:
        NotFoundError: the file cannot be read.
        NotATraceError: it is something else; the message says what.
        BrokenTraceError: no event of it could be kept.
        LimitError: it is larger than the limits of `source.options` allow.
    """
    if source.part:
        return load_part(source, stamp_of(source.url, source.url), partial(load, progress=progress))
    ahead = source.options.threads > 1 or is_url(source.url)
    with opened(source, progress=progress, ahead=ahead) as blocks:
        _refuse_other_formats(source, blocks)
        return read(source, blocks)


def read(source: Source, text: Text, *, sizes: Sizes = SIZES) -> Trace:
    """The trace in a text, wherever that comes from.

    Args:
        source: what to call it, and how to read it.
        text: the blocks.
        sizes: how large the tables are at first.

    Raises: as `load` does, but for what comes of opening the file.
    """
    window = TextWindow(text, max_event=source.options.max_event)
    document = TraceDocument()
    team = [Tokenizer(sizes) for _ in range(max(1, source.options.threads))]
    elements = ParsedEvents(team, EventColumns(partial(_refuse_short_events, source, text)))
    more = open_document(window, document)
    while more:
        read_elements(window, elements)
        more = not document.is_list and next_events(window, document)
    if not document.lists and document.is_object and not document.complete:
        raise BrokenTraceError(
            f"{source.url}: cut at byte {text.length:,}, before its events: whoever wrote it was killed, or had no "
            "space left; copy it again, or record it again"
        )
    if not document.lists:
        raise NotATraceError(_not_a_trace(source, document))
    if not elements.columns.rows and (elements.lost or elements.rubbish or elements.cut):
        raise BrokenTraceError(f"{source.url}: broken, and no event of it could be kept; record it again")
    trailing = len(window.rest().strip()) + sum(len(block.strip()) for block in text)
    symptoms = findings(text, document, elements, trailing)
    return assemble(source, document, [t.tables for t in elements.team], elements.columns, symptoms, text.length)


def _refuse_short_events(source: Source, text: Text, rows: int) -> None:
    """Raise where events are so many and so short that they can only be made to fill the memory."""
    if (
        rows > UNSUSPICIOUS_EVENTS
        and text.length < SHORTEST_EVENT_BYTES * rows
        and source.options.max_size == DEFAULT_MAX_SIZE
    ):
        raise LimitError(
            f"{source.url}: {rows:,} events in {text.length:,} bytes of text, which no trace has; if the file is "
            "genuine, set your own limit with --max-size"
        )


def _refuse_other_formats(source: Source, blocks: TextBlocks) -> None:
    """Raise what says that this is something else, if it clearly is."""
    head = blocks.peek()
    if not head and blocks.fault:
        raise BrokenTraceError(f"{source.url}: {blocks.fault[0]} before any text; copy it again, or record it again")
    other = sniff.other_format(head)
    if other is not None:
        raise NotATraceError(f"{source.url}: not a Kineto trace: {other.name}; {other.hint}")


def _not_a_trace(source: Source, document: TraceDocument) -> str:
    keys = ", ".join(key for key, _ in document.members[:5])
    content = f"JSON without traceEvents (it has {keys})" if keys else "no JSON object with traceEvents"
    return f"{source.url}: not a Kineto trace: {content}; {HINT}"


READER: Final = Reader(
    NAME,
    load,
    probe=probe.probe,
    thorough=probe.probe_thoroughly,
    parts=parts,
    richness=5,
    suffixes=(".json", ".json.gz", ".json.zst", ".chrome_trace"),
    # `convert --to perfetto` writes the trace once more; what stands in `compile` is about the program, not of it;
    # `try` writes its result above the traces of its trials.
    excluded=(SIDECAR, f"/{TRIALS}", ".perfetto.json", ".perfetto.json.gz", *COMPILE_TABLES),
)
