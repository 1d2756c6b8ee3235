"""Perfetto's own format of events that are given as JSON: `.pftrace`, which is smaller than JSON.

Each event becomes a track event: spans begin and end, arrows and other phases are what Perfetto calls legacy events,
arguments are annotations. Names are written once. What our reader needs to have all back as it was, and Perfetto has
no place for, are metadata whose names begin with `kinetoscope.`. It is compressed with gzip, as torch's own is.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np

from kinetoscope.model.trace.json_events import (
    FACT_FIRST_TIME,
    FACT_METADATA_EVENTS,
    FACT_NESTED,
    FACT_PREFIX,
    FACT_TRACKS,
)
from kinetoscope.views.exports.target import written

ENDINGS: Final = (".pftrace", ".pftrace.gz", ".perfetto-trace")
"""Of names of files that are written so."""

_SEQUENCE: Final = b"\x50\x01"  # trusted_packet_sequence_id: 1
_NEEDS_STATE: Final = b"\x68\x02"  # sequence_flags: it needs what is interned
_CLEARED: Final = b"\x68\x01"
_BEGIN, _END, _INSTANT, _COUNTER = (b"\x48" + bytes([kind]) for kind in (1, 2, 3, 4))  # types of track events
_ONE_BYTE: Final = [bytes([value]) for value in range(128)]
_FIRST_INSTANT: Final = 1
"""The time of the first event, ns; 0 would be no time."""

_SCOPES: Final = {"g": 1, "p": 2, "t": 3}
_FREE_NUMBERS: Final = 1_000_000_000
"""Processes get numbers from here on that Perfetto has none for: texts, and the devices 0."""

_END_OF_ORDERS: Final = 1 << 31
_TABLES: Final = {"category": (1, 2), "name": (2, 2), "key": (3, 2), "text": (29, 2)}
_REALTIME, _BOOTTIME = 1, 6


def is_named(path: str | Path) -> bool:
    """True if the name of a file says that it is written so."""
    return str(path).endswith(ENDINGS)


def write(events: Iterable[str], path: str | Path, members: Mapping[str, Any]) -> None:
    """Write events, each as JSON, to a file.

    Args:
        events: of Kineto's format.
        path: the file; it appears when it is complete.
        members: what stands at the top level of the trace: `baseTimeNanoseconds`, `distributedInfo`, ….

    Raises:
        OSError: the file cannot be written.
    """
    from isal import igzip

    recording = _Recording()
    for text in events:
        event = json.loads(text)
        if isinstance(event, dict):
            recording.add(event)
    with written(path) as file, igzip.open(file, "wb", compresslevel=2) as stream:  # type: ignore[no-untyped-call]
        for piece in recording.pieces(members):
            stream.write(piece)


class _Recording:
    """The events so far, as they will stand in the file but for their times."""

    def __init__(self) -> None:
        self._interned: dict[str, dict[tuple[str, bool], int]] = {name: {} for name in _TABLES}
        self._uuids: dict[tuple[Any, ...], int] = {}
        self._metadata: list[dict[str, Any]] = []
        self._times: list[tuple[int, int]] = []
        self._bodies: list[bytes] = []
        self._ends: list[bytes] = []

    def add(self, event: dict[str, Any]) -> None:
        """Take an event."""
        phase, start = event.get("ph"), _nanoseconds(event.get("ts", 0))
        if phase == "M":
            self._metadata.append(event)
        if phase == "M" or start is None or not isinstance(phase, str) or len(phase) != 1 or phase > "~":
            return
        arguments = event.get("args")
        arguments = arguments if isinstance(arguments, dict) else {}
        place = _hashable(event.get("pid")), _hashable(event.get("tid"))
        if phase == "C":
            self._add_samples(str(event.get("name")), place, start, arguments)
            return
        track = b"\x58" + _varint(self._uuid("thread", *place))
        name, category = event.get("name"), event.get("cat")
        label = track + b"\x50" + _varint(self._code("name", "" if name is None else str(name)))
        if isinstance(category, str):
            label += b"\x18" + _varint(self._code("category", category))
        label += b"".join(_field(4, self._annotation(key, value)) for key, value in arguments.items())
        if phase == "X":
            end = start + max(_nanoseconds(event.get("dur", 0)) or 0, 0)
            self._append(start, end, _BEGIN + label, _END + track)
        elif phase in "iI":
            scope = bytes([0x70, _SCOPES.get(event.get("s", "t"), 3)])
            self._append(start, start, _INSTANT + label + _field(6, scope))
        else:
            self._append(start, start, label + _field(6, _legacy(phase, event)))

    def pieces(self, members: Mapping[str, Any]) -> Iterator[bytes]:
        """All parts of the file, in order."""
        first = min((start for start, _ in self._times), default=0)
        base = members.get("baseTimeNanoseconds")
        yield _packet(_FIRST_INSTANT, b"", _field(6, _clocks(first + base if isinstance(base, int) else None)))
        for descriptor in self._descriptors():
            yield _field(1, _SEQUENCE + _field(60, descriptor))
        facts = {**members, FACT_FIRST_TIME: first, FACT_METADATA_EVENTS: self._metadata}
        facts[FACT_NESTED] = [code for (_, is_nested), code in self._interned["text"].items() if is_nested]
        facts[FACT_TRACKS] = [[uuid, *key[1:3]] for key, uuid in self._uuids.items() if key[0] != "process"]
        yield _field(1, _field(5, b"".join(_field(2, _fact(key, value)) for key, value in facts.items())))
        entries = (
            _field(number, b"\x08" + _varint(code) + _field(place, _encoded(text)))
            for name, (number, place) in _TABLES.items()
            for (text, _), code in self._interned[name].items()
        )
        yield _field(1, _SEQUENCE + _CLEARED + _field(12, b"".join(entries)))
        yield from self._events(first)

    def _events(self, first: int) -> Iterator[bytes]:
        times = np.array(self._times, np.int64).reshape(-1, 2)
        start, end = times[:, 0], times[:, 1]
        is_span = np.array([bool(each) for each in self._ends], np.bool_)
        row = np.arange(len(start))
        lasts = np.flatnonzero(is_span & (end > start))
        kinds = np.concatenate([np.where(is_span, np.where(end > start, 1, 2), 3), np.zeros(len(lasts), np.int64)])
        which, time = np.concatenate([row, lasts]), np.concatenate([start, end[lasts]])
        # at one instant ends come first, those of the last begun before others; then beginnings, the longest first
        second = np.where(kinds == 0, -start[which], -end[which])
        order = np.lexsort((np.where(kinds == 0, -which, which), second, kinds, time))
        for kind, event, at in zip(kinds[order].tolist(), which[order].tolist(), time[order].tolist(), strict=True):
            if kind:
                yield _packet(at - first + _FIRST_INSTANT, _NEEDS_STATE, _field(11, self._bodies[event]))
            if kind in (0, 2):
                yield _packet(at - first + _FIRST_INSTANT, b"", _field(11, self._ends[event]))

    def _append(self, start: int, end: int, body: bytes, last: bytes = b"") -> None:
        self._times.append((start, end))
        self._bodies.append(body)
        self._ends.append(last)

    def _code(self, table: str, text: str, *, is_nested: bool = False) -> int:
        codes = self._interned[table]
        return codes.setdefault((text, is_nested), len(codes) + 1)

    def _uuid(self, *key: Any) -> int:
        return self._uuids.setdefault(key, len(self._uuids) + 1)

    def _add_samples(self, name: str, place: tuple[Any, Any], start: int, arguments: Mapping[str, Any]) -> None:
        for key, value in arguments.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                continue
            is_whole = isinstance(value, int) and -(1 << 63) <= value < 1 << 63
            sample = b"\xf0\x01" + _varint(int(value)) if is_whole else b"\xe1\x02" + struct.pack("<d", value)
            track = b"\x58" + _varint(self._uuid("counter", *place, name, key))
            self._append(start, start, _COUNTER + track + sample)

    def _annotation(self, key: str, value: Any) -> bytes:
        named = b"\x08" + _varint(self._code("key", key))
        if isinstance(value, bool):
            return named + bytes([0x10, value])
        if isinstance(value, int) and -(1 << 63) <= value < 1 << 64:
            return named + (b"\x20" if value < 1 << 63 else b"\x18") + _varint(value)
        if isinstance(value, float):
            return named + b"\x29" + struct.pack("<d", value)
        if isinstance(value, str):
            return named + b"\x88\x01" + _varint(self._code("text", value))
        # as texts: Perfetto 52 crashes at `legacy_json_value` with null in it, and its lists cannot be empty
        return named + b"\x88\x01" + _varint(self._code("text", json.dumps(value, ensure_ascii=False), is_nested=True))

    def _descriptors(self) -> Iterator[bytes]:
        """Descriptions of processes, threads and counters."""
        said: dict[tuple[Any, ...], Any] = {}
        for event in self._metadata:
            of = (event.get("name"), _hashable(event.get("pid")))
            arguments = event.get("args")
            value = next(iter(arguments.values()), None) if isinstance(arguments, dict) else None
            said[(*of, _hashable(event.get("tid"))) if str(of[0]).startswith("thread") else of] = value
        numbers: dict[Any, int] = {}
        for kind, pid, tid, *counter in [*self._uuids]:
            parent = self._uuid("process", pid, None)
            if pid not in numbers:
                usual = type(pid) is int and 0 < pid < _FREE_NUMBERS
                numbers[pid] = pid if usual else _FREE_NUMBERS + len(numbers)
                name = said.get(("process_name", pid)) or (f"process {pid}" if type(pid) is int else pid)
                process = b"\x08" + _varint(numbers[pid]) + _field(6, _encoded(str(name)))
                process += _order(3, said.get(("process_sort_index", pid)))
                if label := said.get(("process_labels", pid)):
                    process += _field(8, _encoded(str(label)))
                yield b"\x08" + _varint(parent) + _field(3, process)
            uuid = b"\x08" + _varint(self._uuid(kind, pid, tid, *counter))
            if kind == "counter":
                unit = _field(6, _encoded(counter[1])) if counter[1] else b""
                yield uuid + b"\x28" + _varint(parent) + _field(2, _encoded(counter[0])) + _field(8, unit)
                continue
            name = str(said.get(("thread_name", pid, tid)) or tid)
            if numbers[pid] == pid and type(tid) is int and 0 < tid < _END_OF_ORDERS:
                thread = b"\x08" + _varint(pid) + b"\x10" + _varint(tid) + _field(5, _encoded(name))
                yield uuid + _field(4, thread + _order(3, said.get(("thread_sort_index", pid, tid))))
            else:
                yield uuid + b"\x28" + _varint(parent) + _field(2, _encoded(name))


def _legacy(phase: str, event: Mapping[str, Any]) -> bytes:
    """Members of arrows and other phases: their phase, and the id that joins them."""
    written, number = b"\x10" + _varint(ord(phase)), event.get("id")
    if isinstance(number, str):
        number = zlib.crc32(number.encode())
    if isinstance(number, int):
        written += b"\x30" + _varint(number)
    return written + (b"\x60\x01" if event.get("bp") == "e" else b"")


def _clocks(since_1970: int | None) -> bytes:
    """The clocks at the first event."""
    read = [(_BOOTTIME, _FIRST_INSTANT)] + ([(_REALTIME, since_1970)] if since_1970 and since_1970 > 0 else [])
    return b"".join(_field(1, b"\x08" + _varint(clock) + b"\x10" + _varint(time)) for clock, time in read)


def _fact(name: str, value: Any) -> bytes:
    return _field(1, _encoded(f"{FACT_PREFIX}{name}")) + _field(5, _encoded(json.dumps(value, ensure_ascii=False)))


def _order(number: int, value: Any) -> bytes:
    is_order = type(value) is int and -_END_OF_ORDERS <= value < _END_OF_ORDERS
    return _varint(number << 3) + _varint(value) if is_order else b""


def _packet(time: int, flags: bytes, content: bytes) -> bytes:
    return _field(1, b"\x40" + _varint(time) + _SEQUENCE + flags + content)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    if 0 <= value < 128:
        return _ONE_BYTE[value]
    value &= (1 << 64) - 1
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    written.append(value)
    return bytes(written)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _nanoseconds(time: Any) -> int | None:
    """A time of JSON: a number is a double as Perfetto reads it, a text is exact; None for what is no time."""
    try:
        value = round(Decimal(time) * 1000) if isinstance(time, str) else round(time * 1000)
    except (TypeError, ValueError, ArithmeticError):
        return None
    return value if abs(value) < 1 << 61 else None


def _hashable(value: Any) -> Any:
    return value if isinstance(value, (int, str)) or value is None else json.dumps(value)
