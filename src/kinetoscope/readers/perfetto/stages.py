"""Stages of a GPU: kernels, copies and sets of torch's writer, dispatches of others; and counters of a GPU."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.trace.build import Coded, Column, TraceBuilder, part
from kinetoscope.readers.byte_ranges import ByteRanges, distinct
from kinetoscope.readers.perfetto import interned
from kinetoscope.readers.perfetto.annotations import A_TEXT, AN_INTEGER, EventArguments, pairs, text_of
from kinetoscope.readers.perfetto.events import TrackEvents
from kinetoscope.readers.perfetto.interned import Interned
from kinetoscope.readers.perfetto.packets import COUNTERS, STAGE, Packets
from kinetoscope.readers.perfetto.wire import FIXED64, VARINT, Fields, fields

_ID, _DURATION, _EXTRA, _GPU, _QUEUE_ID, _STAGE_ID, _NAME, _KERNEL_ID, _NAME_ID, _LAUNCH = (
    1,
    2,
    6,
    11,
    13,
    14,
    17,
    19,
    20,
    21,
)
_OLD_QUEUE, _OLD_STAGE = 3, 4
"""Fields of a stage."""

_CATEGORIES: Final = (
    (re.compile(r"memcpy|copy", re.IGNORECASE), "gpu_memcpy"),
    (re.compile(r"memset|fill", re.IGNORECASE), "gpu_memset"),
    (re.compile(r"annotation", re.IGNORECASE), "gpu_user_annotation"),
    (re.compile(r"host node", re.IGNORECASE), "graph_host_node"),
    (re.compile(r"event node", re.IGNORECASE), "graph_event_node"),
    (re.compile(r"sync|wait", re.IGNORECASE), "cuda_sync"),
)
"""What the names of stages tell; all others are kernels."""

_KEYS: Final = {
    "device id": "device",
    "context id": "context",
    "stream id": "stream",
    "registers_per_thread": "registers per thread",
    "shared_mem_dynamic": "shared memory",
    "thread_count": "threads",
}
"""What Kineto calls arguments of torch's writer."""

_NUMBER: Final = re.compile(r"-?\d{1,18}\Z")
_LAST_NUMBER: Final = re.compile(r"(\d{1,18})\D*\Z")


class GpuStages:
    """The stages of GPUs in a recording."""

    def __init__(self, packets: Packets, tables: Interned, origin: int) -> None:
        rows = np.flatnonzero(packets.fields.has(STAGE))
        self._read = fields(packets.fields.data, packets.fields.ranges(STAGE).at(rows))
        self._packet, self._stretch, self._tables = rows, packets.stretch[rows], tables
        self.start = packets.time[rows] - origin
        self.of_torch = False
        self.end = self.start + np.clip(self._read.integers(_DURATION), 0, 1 << 60)

    def add_to(self, built: TraceBuilder, events: TrackEvents) -> None:
        """Give all to a builder, with the launches that `events` name."""
        if not len(self.start):
            return
        read = self._read
        arguments = _with_numbers(pairs(read, _EXTRA, 1, 2))
        self.of_torch = {"correlation", "stream"} <= {*arguments.keys}
        device = read.integers(_GPU)
        queue, queues = self._texts(interned.SPECIFICATIONS, read.integers(_QUEUE_ID), 2)
        number = np.array([_stream_of(each) for each in queues], np.int64)[queue]
        number = np.where(number >= 0, number, np.maximum(read.integers(_QUEUE_ID), read.integers(_OLD_QUEUE)))
        stream = _given(arguments, "stream", number)
        stage, stages = self._texts(interned.SPECIFICATIONS, read.integers(_STAGE_ID), 2)
        categories = [next((to for pattern, to in _CATEGORIES if pattern.search(each)), "kernel") for each in stages]
        name, names = self._names()
        dimensions = {key: self._dimensions(number) for key, number in (("grid", 1), ("block", 2))}
        correlation = _given(arguments, "correlation", self._correlations(events))
        drop = {"correlation", "device", "stream"}
        for rows, columns in arguments.shapes(len(self.start)):
            rest: dict[str, Column | None] = {key: each for key, each in columns.items() if key not in drop}
            has = self._read.has(_LAUNCH)[rows]
            for launched in (True, False):
                some = has == launched
                if not some.any():
                    continue
                chosen = rows[some]
                extra = {key: part(each, some) for key, each in rest.items()}
                if launched:
                    extra |= {key: part(each, chosen) for key, each in dimensions.items()}
                built.add_as_written(
                    "X",
                    Coded(stage[chosen], categories),
                    Coded(name[chosen], names),
                    self.start[chosen],
                    self.end[chosen],
                    process=device[chosen],
                    thread=stream[chosen],
                    arguments={"device": device[chosen], "stream": stream[chosen], "correlation": correlation[chosen]}
                    | extra,
                )

    def _correlations(self, events: TrackEvents) -> Int64s:
        """The call that launched each stage, where events say so by the stages' ids; −1 for none."""
        result = np.full(len(self.start), -1, np.int64)
        event, launched = events.launched()
        if not len(event):
            return result
        own = events.correlations(event)
        order = np.argsort(launched, kind="stable")
        ids = self._read.integers(_ID)
        at = np.minimum(np.searchsorted(launched[order], ids), len(order) - 1)
        same = launched[order][at] == ids
        result[same] = own[order[at[same]]]
        return result

    def _dimensions(self, number: int) -> Coded:
        """Grids or groups of launches, as Kineto has them."""
        launches = fields(self._read.data, self._read.ranges(_LAUNCH))
        sizes = fields(self._read.data, launches.ranges(number))
        columns = np.stack([sizes.integers(axis, 1) for axis in (1, 2, 3)], axis=1)
        return Coded.of(columns, list)

    def _names(self) -> tuple[Int64s, list[str]]:
        read = self._read
        of_id = self._ranges(interned.NAMES, read.integers(_NAME_ID), 2)
        of_kernel = self._ranges(interned.KERNELS, read.integers(_KERNEL_ID), 3, 2)
        of_stage = self._ranges(interned.SPECIFICATIONS, read.integers(_STAGE_ID), 2)
        codes, texts = distinct(read.data, read.ranges(_NAME).or_else(of_id).or_else(of_kernel).or_else(of_stage))
        return codes, [text_of(each) for each in texts]

    def _texts(self, table: int, ids: Int64s, *numbers: int) -> tuple[Int64s, list[str]]:
        codes, texts = distinct(self._read.data, self._ranges(table, ids, *numbers))
        return codes, [text_of(each) for each in texts]

    def _ranges(self, table: int, ids: Int64s, *numbers: int) -> ByteRanges:
        return self._tables.table(table).ranges(self._packet, self._stretch, ids, *numbers)


def add_counters(packets: Packets, tables: Interned, origin: int, built: TraceBuilder) -> None:
    """Give the samples of counters of GPUs to a builder."""
    rows = np.flatnonzero(packets.fields.has(COUNTERS))
    read = fields(packets.fields.data, packets.fields.ranges(COUNTERS).at(rows))
    if not read.messages:
        return
    table = tables.table(interned.COUNTER_DESCRIPTORS)
    places = table.places(rows, packets.stretch[rows], read.integers(4))
    described = table.entries.integers(3)
    device = np.where(
        read.has(3) | (places < 0), read.integers(3), described[np.maximum(places, 0)] if len(described) else 0
    )
    names = _counter_names(table.entries, 2)
    inline = _counter_names(read, 1)
    event, ranges = read.repeated(2)
    samples = fields(read.data, ranges)
    number = samples.integers(1)
    for has_double in (True, False):
        places_of = samples.having(3, FIXED64) if has_double else samples.having(2, VARINT)
        value: Any = samples.value[places_of].view(np.float64) if has_double else samples.value[places_of]
        sample = samples.message[places_of]
        of = event[sample]
        labels = [
            inline.get(-1, {}).get(counter) or names.get(place, {}).get(counter) or f"counter {counter}"
            for place, counter in zip(places[of].tolist(), number[sample].tolist(), strict=True)
        ]
        if labels:
            built.add_as_written(
                "C",
                "",
                labels,
                packets.time[rows][of] - origin,
                packets.time[rows][of] - origin,
                process=[f"GPU {each} Counters" for each in device[of].tolist()],
                arguments={"": value},
            )


def _counter_names(messages: Fields, number: int) -> dict[int, dict[int, str]]:
    """Names of counters by number, of each message that has a descriptor; all together at −1."""
    descriptors = fields(messages.data, messages.ranges(number))
    of, ranges = descriptors.repeated(1)
    read = fields(messages.data, ranges)
    texts = read.ranges(2)
    result: dict[int, dict[int, str]] = {}
    for message, key, start, end in zip(
        of.tolist(), read.integers(1).tolist(), texts.start.tolist(), texts.end.tolist(), strict=True
    ):
        if start >= 0:
            name = text_of(messages.data[start:end].tobytes())
            result.setdefault(message, {})[key] = name
            result.setdefault(-1, {})[key] = name
    return result


def _with_numbers(arguments: EventArguments) -> EventArguments:
    """The same with Kineto's names, and texts that are numbers as numbers."""
    arguments.keys = [_KEYS.get(each, each) for each in arguments.keys]
    numbers = [int(each) if isinstance(each, str) and _NUMBER.match(each) else None for each in arguments.values]
    is_number = np.array([each is not None for each in numbers], np.bool_)
    value = np.array([each or 0 for each in numbers], np.int64)
    chosen = np.flatnonzero(arguments.kind == A_TEXT)
    chosen = chosen[is_number[arguments.bits[chosen]]] if len(chosen) else chosen
    if len(chosen):
        arguments.bits[chosen] = value[arguments.bits[chosen]]
        arguments.kind[chosen] = AN_INTEGER
    return arguments


def _given(arguments: EventArguments, key: str, other: Int64s) -> Int64s:
    """The number that events have for an argument; where they have none, the other."""
    result = other.copy()
    if key in arguments.keys:
        chosen = (arguments.key == arguments.keys.index(key)) & (arguments.kind == AN_INTEGER)
        result[arguments.event[chosen]] = arguments.bits[chosen]
    return result


def _stream_of(queue: str) -> int:
    match = _LAST_NUMBER.search(queue)
    return int(match[1]) if match else -1
