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
from typing import Any, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.model.trace.build import Coded
from kinetoscope.model.trace.event_kinds import is_collective_kernel
from kinetoscope.readers.sqlite import nvtx
from kinetoscope.readers.sqlite.database import MISSING
from kinetoscope.readers.sqlite.nsight.host import NvtxRows
from kinetoscope.readers.sqlite.nsight.tables import FIELDS, RANGES, Export, Rows

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
_EXCHANGE: Final = {_SENDS, _RECEIVES}


@dataclass(frozen=True)
class _Call:
    """Calls of NCCL that one kernel carries out: names, the communicator, and the bytes as nccl-tests counts them."""

    name: str
    communicator: int
    ranks: int
    size: int


@dataclass(frozen=True)
class Described:
    """Arguments of kernels that calls of NCCL describe.

    Attributes:
        known: bool [kernels].
        arguments: a column of each argument for all kernels, by the names of `model.trace.arguments`.
    """

    known: Bools
    arguments: Mapping[str, Any]


class Collectives:
    """The calls of NCCL of a process, by the number that joins a launch and its kernel."""

    def __init__(self, export: Export, ranges: NvtxRows, calls: Rows) -> None:
        said = _said(export, ranges)
        self._calls = _by_correlation(said, ranges.rows, calls) if said else {}

    def of(self, correlation: Int64s, names: Coded) -> Described:
        """The arguments of kernels; only of those of a collective library, and of launches with one of these."""
        of_library = np.array([is_collective_kernel(name) for name in names.values], np.bool_)[names.codes]
        chosen = of_library & np.isin(correlation, np.fromiter(self._calls, np.int64, len(self._calls)))
        launches, counts = np.unique(correlation[chosen], return_counts=True)
        chosen &= np.isin(correlation, launches[counts == 1])  # of several kernels each has a part
        nothing = _Call("", MISSING, MISSING, MISSING)
        calls = [self._calls[number] if is_chosen else nothing
                 for number, is_chosen in zip(correlation.tolist(), chosen.tolist(), strict=True)]  # fmt: skip
        return Described(
            chosen,
            {
                "collective": nvtx.coded(pl.Series([each.name for each in calls])),
                "process_group": nvtx.coded(pl.Series([f"NCCL {each.communicator:016x}" for each in calls])),
                "group_size": np.array([each.ranks for each in calls], np.int64),
                "bytes": np.array([each.size for each in calls], np.int64),
            },
        )


@dataclass(frozen=True)
class _Said:
    """A range of NCCL: its place among the ranges, its name, and the fields of its payload."""

    place: int
    name: str
    fields: Mapping[str, int]


def _said(export: Export, ranges: NvtxRows) -> list[_Said]:
    """The ranges of NCCL, none of which has a payload where no payloads were recorded."""
    payloads, layouts = export.content.bytes(RANGES, "binaryData"), _layouts(export)
    if not payloads or not layouts:
        return []
    is_nccl = ranges.text.str.starts_with(_PREFIX).to_numpy()
    places = np.flatnonzero(is_nccl)
    names = ranges.text.gather(places).to_list()
    rows = ranges.place[places].tolist()
    return [
        _Said(place, name, _fields(payloads[row], layouts))
        for place, name, row in zip(places.tolist(), names, rows, strict=True)
    ]


def _layouts(export: Export) -> dict[int, dict[str, tuple[int, int]]]:
    """The place of each field of each schema begins, and its width."""
    rows = export.content.integers(FIELDS, ("schemaId", "type", "offset"))
    layouts: defaultdict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
    names = export.content.texts(FIELDS, "name").to_list()
    for name, schema, kind, offset in zip(names, *(column.tolist() for column in rows.values()), strict=True):
        if kind in _WIDTHS:
            layouts[schema].setdefault(name, (max(offset, 0), _WIDTHS[kind]))
    return dict(layouts)


def _fields(payload: bytes, layouts: Mapping[int, Mapping[str, tuple[int, int]]]) -> dict[str, int]:
    """The fields of a payload that lie in it."""
    schema = int.from_bytes(payload[_SCHEMA_AT : _SCHEMA_AT + 4], "little")
    ends = {
        name: (_HEADER + begin, _HEADER + begin + width) for name, (begin, width) in layouts.get(schema, {}).items()
    }
    return {
        name: int.from_bytes(payload[begin:end], "little") for name, (begin, end) in ends.items() if end <= len(payload)
    }


def _by_correlation(said: Sequence[_Said], ranges: Rows, calls: Rows) -> dict[int, _Call]:
    """The call of each launch within a range of NCCL."""
    ranks = {
        each.fields[_COMMUNICATOR]: each.fields[_RANKS] for each in said if {_COMMUNICATOR, _RANKS} <= {*each.fields}
    }
    by_thread: defaultdict[int, list[_Said]] = defaultdict(list)
    for each in said:
        by_thread[int(ranges["globalTid"][each.place])].append(each)
    result: dict[int, _Call] = {}
    for thread, unsorted in by_thread.items():
        own = sorted(unsorted, key=lambda each: int(ranges["start"][each.place]))
        places = np.array([each.place for each in own])
        start, end = ranges["start"][places], ranges["end"][places]
        mine = np.flatnonzero(calls["globalTid"] == thread)
        within = np.searchsorted(start, calls["start"][mine], side="right") - 1
        inside = (within >= 0) & (calls["end"][mine] <= end[np.maximum(within, 0)])
        described = _described(own, ranks)
        pairs = zip(calls["correlationId"][mine[inside]].tolist(), within[inside].tolist(), strict=True)
        result |= {number: described[place] for number, place in pairs if place in described and number >= 0}
    return result


def _described(said: Sequence[_Said], ranks: Mapping[int, int]) -> dict[int, _Call]:
    """The call of each range of a thread that may launch: of `ncclGroupEnd` those since the group began."""
    result: dict[int, _Call] = {}
    waiting: list[_Said] = []
    depth = 0
    for place, each in enumerate(said):
        if each.name == _GROUP_BEGIN:
            waiting = waiting if depth else []
            depth += 1
        elif each.name == _GROUP_END:
            depth = max(depth - 1, 0)
            call = _together(waiting, ranks) if not depth else None
            result |= {} if call is None else {place: call}
        elif {_COMMUNICATOR, _SIZE} <= {*each.fields}:
            waiting.append(each)
            call = None if depth else _together([each], ranks)
            result |= {} if call is None else {place: call}
    return result


def _together(said: Sequence[_Said], ranks: Mapping[int, int]) -> _Call | None:
    """The call that some calls are together; None where they are of several communicators or kinds."""
    names, communicators = {each.name for each in said}, {each.fields[_COMMUNICATOR] for each in said}
    if len(communicators) != 1 or not (len(names) == 1 or names == _EXCHANGE):
        return None
    [communicator] = communicators
    count = ranks.get(communicator, MISSING)
    sizes = {name: sum(each.fields[_SIZE] for each in said if each.name == name) for name in names}
    name = min(names) if len(names) == 1 else "sendrecv"
    factor = (count if count > 0 else 0) if name in _WHOLE_BUFFERS else 1
    size = factor * max(sizes.values())
    return _Call(name.removeprefix(_PREFIX).lower(), communicator, count, size if 0 < size < 1 << 62 else MISSING)
