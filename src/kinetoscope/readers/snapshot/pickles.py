"""A memory snapshot from a pickle or from JSON: blocks of the file in, columns out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Int32s, Int64s, UInt8s
from kinetoscope.errors import BrokenTraceError, NotATraceError
from kinetoscope.model.snapshot.snapshot import (
    ALLOCATED,
    INACTIVE,
    PENDING_FREE,
    STATES,
    SegmentBlocks,
    Segments,
    Snapshot,
    SnapshotAnnotations,
    SnapshotEvents,
    SnapshotFrames,
    SnapshotStacks,
)
from kinetoscope.model.snapshot.snapshot import NONE as NOTHING
from kinetoscope.model.trace.text import number_of
from kinetoscope.notes import Note
from kinetoscope.readers.pickled import machine as m
from kinetoscope.readers.pickled import tables as t
from kinetoscope.readers.pickled.objects import Objects
from kinetoscope.readers.pickled.running import Words, run
from kinetoscope.readers.pickled.tables import MachineTables
from kinetoscope.readers.pickled.texts import strings_of
from kinetoscope.readers.snapshot.events import MAX_TIME_US, EventChunks

MAX_DEVICES: Final = 1024
MAX_POOLS: Final = 1 << 16
_SIZES: Final = (m.TOTAL_SIZE, m.ALLOCATED_SIZE, m.ACTIVE_SIZE, m.REQUESTED_SIZE)
MAX_BYTES: Final = 1 << 62
"""Bytes of all events, blocks or segments: sums of them must fit into 64 bits."""
_WORDS: Final = Words("a memory snapshot", "write it anew with torch.cuda.memory._dump_snapshot(...)")


def load(url: str, blocks: Iterable[bytes]) -> Snapshot:
    """The snapshot in a pickle or in JSON, given as blocks of its decompressed bytes.

    Raises:
        NotATraceError: it is a pickle of something else, or calls something.
        BrokenTraceError: it is cut, or damaged.
    """
    events = EventChunks()
    tables = MachineTables(events=events)
    room = run(url, blocks, tables, _WORDS)
    tables.keep_results()
    return _Assembly(url, tables, events, room).snapshot()


class _Assembly:
    """A snapshot of what the machine left."""

    def __init__(self, url: str, tables: MachineTables, events: EventChunks, room: int) -> None:
        self._url = url
        self._tables = tables
        self._chunks = events
        arena: UInt8s = tables.arrays["arena"][: tables.at[m.ARENA]]
        strings = strings_of(arena, tables.rows("offsets", m.STRINGS), room)
        if strings is None:
            raise BrokenTraceError(f"{url}: more text than any memory snapshot holds; {_WORDS.copy}")
        self._strings = strings
        self._lists = tables.rows("lists", m.LISTS)
        self._objects = Objects(tables, strings)
        self._events = events.whole()
        self._require(events.bytes <= MAX_BYTES, "sizes of events")
        top = int(tables.arrays["kinds"][0]), int(tables.arrays["values"][0])
        if top[0] == m.SEGMENT_LIST:
            self._top = {"segments": top}
        else:
            self._top = self._objects.of(*top)
        if not {"segments", "device_traces"} & self._top.keys():
            keys = ", ".join(list(self._top)[:5]) or "none"
            raise NotATraceError(
                f"{url}: a pickle that is no memory snapshot (its keys: {keys}); "
                "write one with torch.cuda.memory._dump_snapshot('snapshot.pickle')"
            )

    def snapshot(self) -> Snapshot:
        """All of it."""
        frames = self._tables.rows("frames", m.FRAMES_READ)
        line = np.clip(frames[:, 2], 0, np.iinfo(np.int32).max)
        segments, blocks = self._segments("segments")
        stacks, text_stacks, moved = self._stacks()
        host_events = self._histories("host_traces")
        host_segments, host_blocks = self._segments("host_segments")
        host = bool(host_events or len(host_segments))  # torch writes empty lists where it recorded nothing
        snapshot = Snapshot(
            url=self._url,
            segments=segments,
            blocks=blocks,
            events=self._histories("device_traces"),
            frames=SnapshotFrames(_known_text(frames[:, 0]), _known_text(frames[:, 1]), _narrow(line)),
            stacks=stacks,
            text_stacks=text_stacks,
            annotations=self._annotations(),
            pools=self._pools(segments, *([host_segments] if host else [])),
            strings=self._strings,
            settings=self._settings(),
            host_segments=host_segments if host else None,
            host_blocks=host_blocks if host else None,
            host_events=(*host_events, _part(self._events, 0, 0))[0] if host else None,
            notes=tuple(self._notes()),
        )
        if moved is not None:
            self._renumber(snapshot, moved)
        return snapshot

    def _require(self, condition: bool, what: str) -> None:
        if not condition:
            raise BrokenTraceError(f"{self._url}: {what} beyond what a memory snapshot can have; {_WORDS.copy}")

    def _require_bytes(self, of: str, *columns: Int64s) -> None:
        is_sound = all((each >= NOTHING).all() and each.sum(dtype=np.float64) <= MAX_BYTES for each in columns)
        self._require(is_sound, f"sizes of {of}")

    def _rows(self, key: str, kind: int) -> tuple[int, int]:
        """First and number of the rows of a list at the top."""
        have, value = self._top.get(key, (m.NEW_LIST, 0))
        if have in (m.NEW_LIST, m.NONE):
            return 0, 0
        if have != kind:
            raise BrokenTraceError(
                f"{self._url}: {key!r} of the snapshot is not what torch writes there; {_WORDS.copy}"
            )
        first, count = self._lists[value].tolist()
        return first, count

    def _segments(self, key: str) -> tuple[Segments, SegmentBlocks]:
        first, count = self._rows(key, m.SEGMENT_LIST)
        rows = self._tables.arrays["segments"][first : first + count]
        column = {key: rows[:, place] for place, key in enumerate(m.SEGMENT_KEYS)}
        lists = column[m.BLOCKS]
        none = lists < 0
        spans = self._lists[np.where(none, 0, lists)] if len(self._lists) else np.zeros((count, 2), np.int64)
        sizes = np.where(none, 0, spans[:, 1])
        first_block = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
        if first_block[-1] > self._tables.at[m.BLOCKS_READ]:
            raise BrokenTraceError(f"{self._url}: segments share their blocks; {_WORDS.copy}")
        of_segment = np.repeat(np.arange(count), sizes)
        places = np.arange(first_block[-1]) + (spans[:, 0] - first_block[:-1])[of_segment]
        self._require_bytes("segments", *(column[key] for key in _SIZES))
        in_order = bool((places == np.arange(len(places))).all())
        written = self._tables.arrays["blocks"]
        self._require(
            bool(((column[m.DEVICE] >= NOTHING) & (column[m.DEVICE] < MAX_DEVICES)).all()), "a device's number"
        )
        self._require(int(column[m.TOTAL_SIZE].max(initial=0)) <= MAX_BYTES, "a segment's size")
        segments = Segments(
            device=_narrow(column[m.DEVICE]),
            address=column[m.ADDRESS].copy(),
            size=np.maximum(column[m.TOTAL_SIZE], 0),
            allocated=column[m.ALLOCATED_SIZE].copy(),
            active=column[m.ACTIVE_SIZE].copy(),
            requested=column[m.REQUESTED_SIZE].copy(),
            stream=np.where(column[m.STREAM] == NOTHING, 0, column[m.STREAM]),
            is_small=column[m.SEGMENT_TYPE] == t.SMALL,
            pool=_narrow(column[m.SEGMENT_POOL_ID]),
            is_expandable=column[m.IS_EXPANDABLE] == 1,
            stack=_narrow(column[m.FRAMES]),
            first_block=_narrow(first_block),
        )
        return segments, self._blocks(
            written[: len(places)] if in_order else written[places], segments.address, first_block, of_segment
        )

    def _blocks(self, rows: Int64s, start: Int64s, first_block: Int64s, of_segment: Int64s) -> SegmentBlocks:
        column = {key: rows[:, place] for place, key in enumerate(m.BLOCK_KEYS)}
        size = np.maximum(column[m.SIZE], 0)
        self._require_bytes("blocks", column[m.SIZE], column[m.REQUESTED_SIZE])
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(size)])
        inside = before[:-1] - before[first_block[:-1]][of_segment]
        state = column[m.STATE] - t.FIRST_STATE
        state[column[m.STATE] == t.AWAITING_FREE] = PENDING_FREE
        state[(state < 0) | (state >= len(STATES))] = ALLOCATED
        requested, stack = column[m.REQUESTED_SIZE].copy(), column[m.FRAMES].copy()
        old = np.flatnonzero(column[m.HISTORY] >= 0)
        if len(old):
            latest = self._tables.arrays["requests"][self._lists[column[m.HISTORY][old], 0]]
            requested[old] = np.where(latest[:, 0] >= 0, latest[:, 0], requested[old])
            stack[old] = latest[:, 1]
        requested = np.where(requested == NOTHING, size, requested)
        inactive = state == INACTIVE
        return SegmentBlocks(
            address=np.where(column[m.ADDRESS] == NOTHING, start[of_segment] + inside, column[m.ADDRESS]),
            size=size,
            requested=np.where(inactive, 0, requested),
            state=state.astype(np.int8),
            stack=_narrow(np.where(inactive, NOTHING, stack)),
        )

    def _notes(self) -> Iterator[Note]:
        """What could not be read of the events."""
        events = self._chunks
        if events.left_out:
            which = number_of(events.left_out, "event of the memory snapshot has", "events of the memory snapshot have")
            yield Note(
                "EVENTS_LEFT_OUT",
                f"{which} no action, address or size, or one that cannot be, and"
                f" {'is' if events.left_out == 1 else 'are'} left out: levels of memory may be wrong by"
                f" {'its' if events.left_out == 1 else 'their'} bytes.",
            )
        if events.odd:
            which = number_of(events.odd, "value", "values")
            text = f"{which} of events of the memory snapshot cannot be, such as a time that is no number: unknown."
            yield Note("ODD_EVENTS", text)

    def _histories(self, key: str) -> tuple[SnapshotEvents, ...]:
        if self._top.get(key, (m.NONE, 0))[0] == m.EVENT_LIST:  # no list of devices around it
            return (_part(self._events, *self._rows(key, m.EVENT_LIST)),)
        first, count = self._rows(key, m.DEVICE_LIST)
        self._require(count <= MAX_DEVICES, f"{count:,} devices")
        lists = self._tables.arrays["devices"][first : first + count].tolist()
        parts = [_part(self._events, *(self._lists[row].tolist() if row >= 0 else (0, 0))) for row in lists]
        for part in parts:
            _fill_times(part.time)
        return tuple(parts)

    def _annotations(self) -> SnapshotAnnotations:
        first, count = self._rows("external_annotations", m.ANNOTATION_LIST)
        rows = self._tables.arrays["annotations"][first : first + count]
        column = {key: rows[:, place] for place, key in enumerate(m.ANNOTATION_KEYS)}
        known = (column[m.TIME_US] >= 0) & (column[m.TIME_US] <= MAX_TIME_US)
        return SnapshotAnnotations(
            name=_narrow(column[m.NAME]),
            is_start=column[m.STAGE] == t.START,
            device=_narrow(np.maximum(column[m.DEVICE], 0)),
            time=np.where(known, column[m.TIME_US] * 1000, NOTHING),
        )

    def _stacks(self) -> tuple[SnapshotStacks, SnapshotStacks, Int32s | None]:
        """Stacks of frames, those of texts, and the new number of each sequence if there are both."""
        ends = self._tables.rows("ends", m.SEQUENCES)
        items: Int32s = self._tables.arrays["items"][: self._tables.at[m.ITEMS]]
        firsts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])[: len(ends)]
        is_text = items[firsts] < 0
        if not is_text.any():
            return SnapshotStacks(items, ends), SnapshotStacks(items[:0], ends[:0]), None
        lengths = ends - firsts
        of_text = np.repeat(is_text, lengths)
        moved = np.where(is_text, np.cumsum(is_text), np.cumsum(~is_text)) - 1
        return (
            SnapshotStacks(items[~of_text], np.cumsum(lengths[~is_text])),
            SnapshotStacks(~items[of_text], np.cumsum(lengths[is_text])),
            _narrow(moved),
        )

    def _pools(self, *of: Segments) -> tuple[tuple[int, int], ...]:
        """The pools of events and segments, whose columns have the codes of their texts, and then their numbers."""
        columns = [each for each in (self._events.pool, *(each.pool for each in of)) if each.flags.writeable]
        number = np.full(len(self._strings), NOTHING, np.int32)
        for column in columns:
            number[column[column >= 0]] = 0
        pools, codes = list[tuple[int, int]](), np.flatnonzero(number == 0)
        self._require(len(codes) <= MAX_POOLS, f"{len(codes):,} pools")
        for code in codes.tolist():
            pool = json.loads(self._strings.text(code))
            self._require(len(pool) == 2, "a pool's number")
            number[code] = len(pools)
            pools.append((pool[0], pool[1]))
        for column in columns:
            column[column >= 0] = number[column[column >= 0]]
        return tuple(pools)

    def _renumber(self, snapshot: Snapshot, moved: Int32s) -> None:
        """Replace numbers of sequences by those of stacks, in place."""
        hosts = [each for each in (snapshot.host_segments, snapshot.host_blocks) if each is not None]
        columns = [each.stack for each in (self._events, snapshot.segments, snapshot.blocks, *hosts)]
        for column in (*columns, self._events.forward_stack):
            if column.flags.writeable:
                column[column >= 0] = moved[column[column >= 0]]

    def _settings(self) -> dict[str, Any]:
        value = self._objects.value(*self._top.get("allocator_settings", (m.NONE, 0)))
        return value if isinstance(value, dict) else {}


def _part(events: SnapshotEvents, first: int, count: int) -> SnapshotEvents:
    return SnapshotEvents(**{name: column[first : first + count] for name, column in vars(events).items()})


def _fill_times(time: Int64s) -> None:
    """Give events whose time cannot be that of the event before, in place; the first ones that of the next."""
    known = np.flatnonzero(time != NOTHING)
    if 0 < len(known) < len(time):
        time[:] = time[known[np.maximum(np.searchsorted(known, np.arange(len(time)), side="right") - 1, 0)]]


def _known_text(column: Int64s) -> Int32s:
    return _narrow(np.where(column == NOTHING, t.EMPTY, column))


def _narrow(column: NDArray[np.int64]) -> Int32s:
    return column.astype(np.int32)
