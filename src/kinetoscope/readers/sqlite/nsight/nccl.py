"""Payloads of NCCL's calls: one of each range of NVTX, with the communicator and the bytes of a message.

A payload is 32 bytes, of which the third number of 32 bits is the schema, and then the fields that the table of schemas
has. A kernel is described by the range in which it was launched; by those since `ncclGroupStart` if that is
`ncclGroupEnd`. Sizes are those of what one rank gives (`count` times the type's size), so those of gathered and of
scattered buffers follow only where the number of ranks is known, from the range of the communicator's making.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.algorithms.grouping import reduce_by, sum_by
from kinetoscope.model.trace.build import Coded
from kinetoscope.model.trace.event_kinds import is_collective_kernel
from kinetoscope.readers.byte_ranges import Texts
from kinetoscope.readers.sqlite.database import MISSING
from kinetoscope.readers.sqlite.nsight.host import NvtxRows
from kinetoscope.readers.sqlite.nsight.tables import FIELDS, RANGES, Export, Rows

_64_BITS: Final = (1 << 64) - 1
_MAX_SIZE, _MAX_TOTAL = 1 << 44, 1 << 62
"""Bytes of a message and of all of a kernel; more counts as unknown."""

_HEADER: Final = 32
_SCHEMA_AT: Final = 8
_WIDTHS: Final = {5: 4, 18: 8, 22: 8}
"""Bytes of a field by its type in NVTX: 32 bits, 64 bits, a size."""

_COMMUNICATOR, _SIZE, _RANKS = "NCCL communicator ID", "Message size [bytes]", "No. of ranks"
_PREFIX: Final = "nccl"
_GROUP_BEGIN, _GROUP_END = "ncclGroupStart", "ncclGroupEnd"
_WHOLE_BUFFERS: Final = (
    "ncclAllGather",
    "ncclReduceScatter",
    "ncclAlltoAll",
    "ncclAlltoall",
    "ncclGather",
    "ncclScatter",
)
"""Calls whose message is a rank's share of what nccl-tests counts."""

_SENDS, _RECEIVES = "ncclSend", "ncclRecv"
_EXCHANGED: Final = "sendrecv"
"""The kind of a kernel that sends and receives."""


@dataclass(frozen=True)
class Described:
    """Arguments of kernels that calls of NCCL describe.

    Attributes:
        known: bool [kernels].
        arguments: a column of each argument for all kernels, by the names of `model.trace.arguments`.
    """

    known: Bools
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class _Said:
    """Ranges of NCCL, in the order of threads and times.

    Attributes:
        thread, start, end: int64.
        name: which of `names`.
        names: of the calls.
        communicator, ranks, size: fields of the payloads; `MISSING` where there is none.
        has_communicator: bool, as any number may be one.
    """

    thread: Int64s
    start: Int64s
    end: Int64s
    name: Int64s
    names: Sequence[str]
    communicator: Int64s
    has_communicator: Bools
    ranks: Int64s
    size: Int64s

    def is_named(self, *names: str) -> Bools:
        """Ranges that have one of some names."""
        return np.isin(self.name, [place for place, name in enumerate(self.names) if name in names])


@dataclass(frozen=True)
class _NcclCalls:
    """Calls that one kernel each carries out; int64 columns.

    Attributes:
        name: which of `names`.
        names: of the kinds of calls, as NCCL has them without its prefix.
        communicator: its number.
        ranks: how many it has; `MISSING` where unknown.
        size: bytes as nccl-tests counts them; `MISSING` where unknown.
    """

    name: Int64s
    names: Sequence[str]
    communicator: Int64s
    ranks: Int64s
    size: Int64s


class Collectives:
    """The calls of NCCL of a process, by the number that joins a launch and its kernel."""

    def __init__(self, export: Export, ranges: NvtxRows, calls: Rows) -> None:
        said = _said(export, ranges)
        if said is None:
            self._correlation = self._call = np.zeros(0, np.int64)
            return
        of_range, self._calls = _described(said)
        call = of_range[_innermost(said, calls)]
        launched = (call >= 0) & (calls["correlationId"] >= 0)
        # Of a number that several launches have the last counts.
        numbers, last = np.unique(calls["correlationId"][launched][::-1], return_index=True)
        self._correlation, self._call = numbers, call[launched][::-1][last]

    def of(self, correlation: Int64s, names: Coded) -> Described:
        """The arguments of kernels; only of those of a collective library, and of launches with one of these."""
        if not len(self._correlation):
            return Described(np.zeros(len(correlation), np.bool_), {})
        of_library = np.array([is_collective_kernel(name) for name in names.values], np.bool_)[names.codes]
        place = np.minimum(np.searchsorted(self._correlation, correlation), len(self._correlation) - 1)
        chosen = of_library & (self._correlation[place] == correlation)
        launches, counts = np.unique(correlation[chosen], return_counts=True)
        chosen &= np.isin(correlation, launches[counts == 1])  # of several kernels each has a part
        call, calls = self._call[place], self._calls
        return Described(
            chosen,
            {
                "collective": Coded(calls.name[call], calls.names),
                "process_group": Coded.of(calls.communicator[call], lambda number: f"NCCL {number & _64_BITS:016x}"),
                "group_size": calls.ranks[call],
                "bytes": calls.size[call],
            },
        )


def _said(export: Export, ranges: NvtxRows) -> _Said | None:
    """The ranges of NCCL; None where no payloads were recorded."""
    payloads, layouts = export.content.bytes(RANGES, "binaryData"), _layouts(export)
    if not payloads.sizes.any() or not layouts:
        return None
    place = np.flatnonzero(ranges.text.begins_with(_PREFIX.encode()))
    place = place[np.lexsort((ranges.rows["start"][place], ranges.rows["globalTid"][place]))]
    codes, names = ranges.text.at(place).distinct()
    fields = _fields(payloads.at(ranges.place[place]), layouts)
    nothing = np.full(len(place), MISSING, np.int64), np.zeros(len(place), np.bool_)
    (communicator, has_communicator), (ranks, has_ranks), (size, has_size) = (
        fields.get(name, nothing) for name in (_COMMUNICATOR, _RANKS, _SIZE)
    )
    return _Said(
        ranges.rows["globalTid"][place],
        ranges.rows["start"][place],
        ranges.rows["end"][place],
        codes,
        names,
        communicator,
        has_communicator,
        np.where(has_ranks, ranks, MISSING),
        np.where(has_size, np.where((size >= 0) & (size < _MAX_SIZE), size, _MAX_SIZE), MISSING),
    )


def _layouts(export: Export) -> dict[int, dict[str, tuple[int, int]]]:
    """The place of each field of each schema begins, and its width."""
    rows = export.content.integers(FIELDS, ("schemaId", "type", "offset"))
    layouts: defaultdict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
    names = export.content.texts(FIELDS, "name").listed()
    for name, schema, kind, offset in zip(names, *(column.tolist() for column in rows.values()), strict=True):
        if kind in _WIDTHS and name in (_COMMUNICATOR, _RANKS, _SIZE):
            layouts[schema].setdefault(name, (max(offset, 0), _WIDTHS[kind]))
    return dict(layouts)


def _fields(payloads: Texts, layouts: Mapping[int, Mapping[str, tuple[int, int]]]) -> dict[str, tuple[Int64s, Bools]]:
    """Fields of payloads by name: the bits, and whether the payload has them."""
    count, sizes = len(payloads), payloads.sizes
    result: dict[str, tuple[Int64s, Bools]] = {}
    schema = np.where(sizes >= _SCHEMA_AT + 4, _numbers(payloads, _SCHEMA_AT, 4, sizes >= _SCHEMA_AT + 4), MISSING)
    for number, layout in layouts.items():
        for name, (begin, width) in layout.items():
            there = (schema == number) & (sizes >= _HEADER + begin + width)
            values, has = result.setdefault(name, (np.full(count, MISSING, np.int64), np.zeros(count, np.bool_)))
            values[there] = _numbers(payloads, _HEADER + begin, width, there)[there]
            has |= there
    return result


def _numbers(payloads: Texts, begin: int, width: int, chosen: Bools) -> Int64s:
    """The bits of a little-endian number in each of some payloads."""
    result = np.zeros(len(payloads), np.int64)
    at = payloads.ranges.start[chosen] + begin
    for byte in range(width):
        result[chosen] |= payloads.data[at + byte].astype(np.int64) << (8 * byte)
    return result


def _innermost(said: _Said, calls: Rows) -> Int64s:
    """The range of NCCL that each call of CUDA lies in; −1 for none, so the last place of an array with one more."""
    result = np.full(len(calls["start"]), -1, np.int64)
    for begin, end in _runs(said.thread):
        mine = np.flatnonzero(calls["globalTid"] == said.thread[begin])
        within = np.searchsorted(said.start[begin:end], calls["start"][mine], side="right") - 1 + begin
        inside = (within >= begin) & (calls["end"][mine] <= said.end[np.maximum(within, begin)])
        result[mine[inside]] = within[inside]
    return result


def _runs(values: Int64s) -> list[tuple[int, int]]:
    """Bounds of each run of equal values."""
    bounds = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    return [pair for pair in pairwise(bounds) if pair[0] < pair[1]]


def _described(said: _Said) -> tuple[Int64s, _NcclCalls]:
    """The calls, and which of them each range that may launch is; −1 for none, also behind the last range.

    Of `ncclGroupEnd` it is those since the group began, if they are of one communicator and of one kind.
    """
    begins, ends = said.is_named(_GROUP_BEGIN), said.is_named(_GROUP_END)
    is_call = said.has_communicator & (said.size != MISSING) & ~begins & ~ends
    depth = _depths(said.thread, begins.astype(np.int64) - ends)
    before = np.concatenate([np.zeros(1, np.int64), depth])[:-1]
    opens = begins & (depth == 1)
    group_of = np.cumsum(opens)
    closes = ends & (depth == 0) & (before == 1)
    alone = is_call & (depth == 0)
    # A number for what one kernel carries out: of a group from 1, of a call that is alone behind them.
    units = np.where(alone, group_of.max(initial=0) + np.cumsum(alone), group_of)
    calls = _together(said, np.flatnonzero(is_call), units)
    launching = np.flatnonzero(closes | alone)
    of_range = np.full(len(depth) + 1, -1, np.int64)
    of_range[launching] = calls[0][units[launching]]
    return of_range, calls[1]


def _depths(thread: Int64s, changes: Int64s) -> Int64s:
    """How many groups are open behind each range; an end without a begin counts for nothing."""
    depth = np.zeros(len(thread), np.int64)
    for begin, end in _runs(thread):
        total = np.cumsum(changes[begin:end])
        depth[begin:end] = total - np.minimum(np.minimum.accumulate(total), 0)
    return depth


def _together(said: _Said, members: Int64s, units: Int64s) -> tuple[Int64s, _NcclCalls]:
    """The call that those of each unit are, and its place among these; −1 where of several communicators or kinds.

    Args:
        said: the ranges.
        members: those that are calls.
        units: which unit each range is of.
    """
    count = int(units.max(initial=0)) + 1
    of_unit = units[members].astype(np.int32)
    size, name = said.size[members], said.name[members]
    names, communicators, sizes = (
        reduce_by(of_unit, count, column) for column in (name, said.communicator[members], size)
    )
    sends, receives = (said.is_named(each)[members] for each in (_SENDS, _RECEIVES))
    halves = [sum_by(of_unit, count, np.where(half, size, 0)) for half in (sends, receives)]
    is_exchange = sum_by(of_unit, count, (sends | receives).astype(np.int64)) == names.rows
    is_one = (names.rows > 0) & (communicators.least == communicators.greatest)
    is_one &= is_exchange | (names.least == names.greatest)
    chosen = np.flatnonzero(is_one)
    communicator, ranks = communicators.least[chosen], _ranks(said, communicators.least[chosen])
    is_whole = np.isin(names.least[chosen], np.flatnonzero([each in _WHOLE_BUFFERS for each in said.names]))
    factor = np.where(is_whole, np.maximum(ranks, 0), 1)
    bytes_of = np.where(is_exchange, np.maximum(*halves), sizes.total)[chosen]
    known = (sizes.greatest[chosen] < _MAX_SIZE) & (bytes_of.astype(np.float64) * factor < _MAX_TOTAL)
    known &= bytes_of * factor > 0
    is_both = names.least[chosen] != names.greatest[chosen]
    place = np.full(count, -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    return place, _NcclCalls(
        np.where(is_both, len(said.names), names.least[chosen]),
        [*(each.removeprefix(_PREFIX).lower() for each in said.names), _EXCHANGED],
        communicator,
        ranks,
        np.where(known, bytes_of * factor, MISSING),
    )


def _ranks(said: _Said, communicators: Int64s) -> Int64s:
    """How many ranks each communicator has, as the last range that tells says; `MISSING` for none."""
    telling = np.flatnonzero(said.has_communicator & (said.ranks != MISSING))[::-1]
    numbers, last = np.unique(said.communicator[telling], return_index=True)
    if not len(numbers):
        return np.full(len(communicators), MISSING, np.int64)
    at = np.minimum(np.searchsorted(numbers, communicators), len(numbers) - 1)
    return np.where(numbers[at] == communicators, said.ranks[telling][last][at], MISSING)
