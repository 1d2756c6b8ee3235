"""Perfetto's own format (`.pftrace`): torch's export of that name, and any recording with track events.

torch 2.13 and later write it for a path with `.pftrace` in it, where CUPTI is new enough: stages of GPUs for device
work, track events for the host. Its slices nest, so of spans that overlap the end of the first is cut.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import numpy as np

from kinetoscope.errors import BrokenTraceError, LimitError
from kinetoscope.model.trace.build import TraceBuilder
from kinetoscope.model.trace.json_events import (
    FACT_FIRST_TIME,
    FACT_METADATA_EVENTS,
    FACT_NESTED,
    FACT_PREFIX,
    FACT_READING,
    FACT_TRACKS,
)
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.symptoms import cut_stream, note_of
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.readers.byte_ranges import ByteRanges
from kinetoscope.readers.files.stream import opened
from kinetoscope.readers.left_out import kinds_not_read
from kinetoscope.readers.perfetto.annotations import text_of
from kinetoscope.readers.perfetto.events import TrackEvents
from kinetoscope.readers.perfetto.interned import Interned
from kinetoscope.readers.perfetto.packets import CHROME, Packets, packets
from kinetoscope.readers.perfetto.stages import GpuStages, add_counters
from kinetoscope.readers.perfetto.tracks import RecordedTracks
from kinetoscope.readers.perfetto.wire import LENGTH, VARINT, fields
from kinetoscope.readers.reader import Reader

_READ: Final = frozenset((5, 6, 11, 52, 53, 60))
_WITHOUT_EVENTS: Final = frozenset(
    (1, 2, 3, 8, 9, 10, 12, 13, 33, 35, 36, 41, 42, 43, 44, 45, 50, 58, 59, 69, 79, 87, 89, 98, 133)
)
"""Fields of packets that hold no events, besides those that are read."""

_NAMES: Final = {1: "ftrace_events", 7: "sys_stats", 34: "ftrace_stats", 37: "profile_packet", 66: "perf_sample"}


def load(source: Source, *, progress: Callable[[int], None] | None = None) -> Trace:
    """The trace in a recording.

    Raises:
        NotFoundError, LimitError: the file cannot be read.
        BrokenTraceError: nothing of it can be read.
    """
    with opened(source, progress=progress) as blocks:
        text = b"".join(blocks)
        fault = [*blocks.fault]
    try:
        read = packets(np.frombuffer(text, np.uint8), source.options.max_size)
        facts = _facts(read)
        built = TraceBuilder()
        notes = [*_built(read, facts, built)]
    except LimitError as error:
        raise LimitError(f"{source.url}: {error}") from error
    if not built.places:
        said = "a Perfetto recording without track events, GPU stages or counters"
        raise BrokenTraceError(f"{source.url}: {said}" + (", which is damaged" if fault or read.cut else ""))
    if fault or read.cut:
        why = "; ".join(fault) or "a packet ends early"
        notes.insert(0, cut_stream(why))
    return built.build(source, metadata=_metadata(read, facts), text_bytes=len(text), notes=tuple(notes))


def _built(read: Packets, facts: dict[str, Any], built: TraceBuilder) -> Iterator[Note]:
    origin = (read.origin or 0) - facts.get(FACT_FIRST_TIME, 0)
    own = FACT_TRACKS in facts
    tables = Interned(read, np.array(facts.get(FACT_NESTED, []), np.int64))
    tracks = RecordedTracks(read, {each[0]: (each[1], each[2]) for each in facts.get(FACT_TRACKS, ())})
    events = TrackEvents(read, tables, tracks, origin, own=own)
    stages = GpuStages(read, tables, origin)
    for each in facts.get(FACT_METADATA_EVENTS, ()):
        arguments = {key: [value] for key, value in (each.get("args") or {}).items()}
        time = [round(float(each["ts"]) * 1000)] if "ts" in each else None
        built.add_as_written(
            "M",
            "",
            str(each.get("name")),
            time,
            time or [0],
            process=[each.get("pid")],
            thread=[each["tid"]] if "tid" in each else None,
            arguments=arguments,
        )
    last = max((int(each.max()) for each in (events.time, stages.end) if len(each)), default=0)
    stages.add_to(built, events)
    events.add_to(built, last)
    add_counters(read, tables, origin, built)
    for what, name, (process, thread) in tracks.names() if built.places else ():
        if what == "process_name":
            built.name_process(name, process=process)
        else:
            built.name_thread(name, process=process, thread=thread)
    yield from _notes(read, events, stages)
    yield from _noted_before(facts.get(FACT_READING))


def _noted_before(reading: Any) -> Iterator[Note]:
    """Notes on what was odd about the trace from which we wrote the recording."""
    for each in reading if isinstance(reading, list) else []:
        with suppress(ValueError):  # no note of ours
            yield note_of(each)


def _notes(read: Packets, events: TrackEvents, stages: GpuStages) -> Iterator[Note]:
    if stages.of_torch:
        yield Note("CUT_SPANS", "torch cuts spans where the next one begins that overlaps: durations may be too short.")
    if events.unfinished:
        spans = number_of(events.unfinished, "span was", "spans were")
        yield Note("OPEN_SPANS", f"{spans} open when the recording ended: cut off there.", "warning")
    if events.unbegun:
        yield Note(
            "SPANS_WITHOUT_BEGIN", f"{number_of(events.unbegun, 'event ends', 'events end')} a span that did not begin."
        )
    if read.unknown_clocks:
        packets_of = number_of(read.unknown_clocks, "packet has", "packets have")
        yield Note("UNKNOWN_CLOCKS", f"{packets_of} times by a clock that nothing relates to the others.", "warning")
    if damaged := int(read.fields.damaged.sum()):
        yield Note(
            "DAMAGED_PACKETS",
            f"{number_of(damaged, 'packet is', 'packets are')} damaged, and left out from there.",
            "warning",
        )
    numbers, counts = np.unique(read.fields.number[read.fields.kind == LENGTH], return_counts=True)
    others = {
        int(number): int(count)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True)
        if number not in _READ and number not in _WITHOUT_EVENTS
    }
    named = {_NAMES.get(number, f"field {number}"): count for number, count in sorted(others.items())}
    yield from kinds_not_read("Packets of the recording", named)


def _facts(read: Packets) -> dict[str, Any]:
    """Facts of the trace besides its events, in our own export."""
    bundles = fields(read.fields.data, read.fields.ranges(CHROME))
    _, ranges = bundles.repeated(2)
    entries = fields(read.fields.data, ranges)
    names, values = entries.ranges(1), entries.ranges(5)
    facts = {}
    for place in range(len(names)):
        name = _text(read, names, place)
        if name.startswith(FACT_PREFIX):
            try:
                facts[name.removeprefix(FACT_PREFIX)] = json.loads(_text(read, values, place))
            except (ValueError, RecursionError):
                continue
    return facts


def _text(read: Packets, ranges: ByteRanges, place: int) -> str:
    start, end = int(ranges.start[place]), int(ranges.end[place])
    return text_of(read.fields.data[start:end].tobytes()) if start >= 0 else ""


def _metadata(read: Packets, facts: dict[str, Any]) -> dict[str, Any]:
    own = {
        key: value
        for key, value in facts.items()
        if key not in (FACT_TRACKS, FACT_METADATA_EVENTS, FACT_FIRST_TIME, FACT_NESTED, FACT_READING)
    }
    if FACT_TRACKS in facts or read.since_1970 is None:
        return own
    return {"baseTimeNanoseconds": read.since_1970}


# --- what it is


_NUMBER_FIELDS: Final = frozenset((3, 8, 10, 13, 41, 42, 58, 79, 87, 98))
"""Fields of a packet that are numbers; all others are messages."""

_END_OF_FIELDS: Final = 10_000


def is_recording(head: bytes) -> bool:
    """True for packets: two at least, or the whole of what there is, and all as packets can be."""
    whole = fields(np.frombuffer(head, np.uint8), ByteRanges(np.zeros(1, np.int64), np.array([len(head)])))
    if not len(whole.number) or whole.number[0] != 1:
        return False
    place = whole.having(1)
    end = int(whole.at[place[-1]] + whole.value[place[-1]]) if len(place) else 0
    if len(place) != len(whole.number) or (len(place) < 2 and end != len(head)):
        return False
    read = fields(whole.data, whole.repeated(1)[1])
    numbers = np.isin(read.number, [*_NUMBER_FIELDS])
    right = np.where(numbers, read.kind == VARINT, read.kind == LENGTH)
    return bool(len(read.number) and right.all() and (read.number < _END_OF_FIELDS).all() and not read.damaged.any())


READER: Final = Reader(
    "perfetto",
    load,
    lambda _, head: is_recording(head),
    richness=4,
    suffixes=(".pftrace", ".pftrace.gz", ".perfetto-trace", ".pftrace.zst", ".perfetto-trace.gz"),
)
