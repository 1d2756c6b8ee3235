"""The tables of an export that are read, and the rows of a process in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.trace.build import Coded
from kinetoscope.readers.byte_ranges import ByteRanges, Texts
from kinetoscope.readers.sqlite.content import Content
from kinetoscope.readers.sqlite.database import MISSING, Wanted

STRINGS: Final = "StringIds"
KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
SETS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
WAITS: Final = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
EVENTS: Final = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
OVERHEAD: Final = "CUPTI_ACTIVITY_KIND_OVERHEAD"
RANGES: Final = "NVTX_EVENTS"
THREADS: Final = "ThreadNames"
METRICS: Final = "GPU_METRICS"
METRIC_NAMES: Final = "TARGET_INFO_GPU_METRICS"
DEVICES: Final = "TARGET_INFO_GPU"
DEVICE_NUMBERS: Final = "TARGET_INFO_CUDA_DEVICE"
FIELDS: Final = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
SESSION: Final = "TARGET_INFO_SESSION_START_TIME"
EXPORTED: Final = "META_DATA_EXPORT"

_PLACED: Final = ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid")
_OF_WORK: Final = (*_PLACED, "graphNodeId", "graphId")
_OF_HOST: Final = ("start", "end", "globalTid")

WANTED: Final[Mapping[str, Wanted]] = {
    STRINGS: Wanted(("id",), texts=("value",)),
    KERNELS: Wanted(
        (
            *_OF_WORK,
            *("demangledName", "shortName", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory"),
            *("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"),
        )
    ),
    COPIES: Wanted((*_OF_WORK, "bytes", "copyKind", "srcKind", "dstKind")),
    SETS: Wanted((*_OF_WORK, "bytes", "memKind")),
    GRAPHS: Wanted(_OF_WORK),
    CALLS: Wanted((*_OF_HOST, "nameId", "correlationId")),
    WAITS: Wanted((*_PLACED, "syncType", "deprecatedSyncType", "eventSyncId")),
    EVENTS: Wanted(("eventSyncId", "correlationId", "streamId", "globalPid")),
    OVERHEAD: Wanted((*_OF_HOST, "overheadType")),
    RANGES: Wanted((*_OF_HOST, "eventType", "textId", "domainId"), texts=("text",), bytes=("binaryData",)),
    THREADS: Wanted(("nameId", "globalTid")),
    METRICS: Wanted(("timestamp", "typeId", "metricId"), numbers=("value",)),
    METRIC_NAMES: Wanted(("typeId", "metricId"), texts=("metricName",)),
    DEVICES: Wanted(
        (
            *("id", "cuDevice", "totalMemory", "computeMajor", "computeMinor", "smCount", "l2CacheSize"),
            *("threadsPerWarp", "maxWarpsPerSm", "maxRegistersPerSm", "maxShmemPerSm", "maxThreadsPerBlock"),
        ),
        texts=("name",),
    ),
    DEVICE_NUMBERS: Wanted(("gpuId", "cudaId", "pid")),
    FIELDS: Wanted(("domainId", "schemaId", "type", "offset"), texts=("name",)),
    SESSION: Wanted(("utcEpochNs", "systemClockNs")),
    EXPORTED: Wanted(texts=("name", "value")),
}

_PER_PROCESS: Final = 1 << 24
_VERSION: Final = re.compile(r"(?:_ptsz|_ptds)?_v\d+\Z|_(?:ptsz|ptds)\Z")
"""The ending that Nsight adds to the names of calls: `cudaLaunchKernel_v7000`."""

Rows = dict[str, Int64s]
"""Columns by name."""


@dataclass(frozen=True)
class _StringIds:
    """The table of strings: ids in order, and the place of each text."""

    ids: Int64s
    places: Int64s
    texts: Texts

    def coded(self, ids: Int64s, change: Callable[[str], str] = str) -> Coded:
        """A column of ids as texts; "" for an id that is not there."""
        codes, first = group(ids)
        texts = self.of(ids[first]).listed()
        return Coded(codes.astype(np.int64), [change(text) if text else "" for text in texts])

    def of(self, ids: Int64s) -> Texts:
        """The text of each id; an empty one for an id that is not there."""
        if not len(self.ids) or (ids == MISSING).all():
            return Texts.empty(len(ids))
        at = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        known, texts = self.ids[at] == ids, self.texts.at(self.places[at])
        ranges = ByteRanges(*(np.where(known, bound, 0) for bound in (texts.ranges.start, texts.ranges.end)))
        return Texts(self.texts.data, ranges)


class Export:
    """Columns that are read of an export: the tables of all processes."""

    def __init__(self, content: Content) -> None:
        self.content = content

    @cached_property
    def strings(self) -> _StringIds:
        """The table of strings."""
        ids = self.content.integers(STRINGS, ("id",))["id"]
        order = np.argsort(ids, kind="stable")
        return _StringIds(ids[order], order, self.content.texts(STRINGS, "value"))

    def called(self, ids: Int64s) -> Coded:
        """Names of calls, without their version."""
        return self.strings.coded(ids, lambda name: _VERSION.sub("", name))


class ProcessRows:
    """The rows of a process in the tables of an export.

    Args:
        export: the tables.
        process: its number; None for all processes.

    Attributes:
        left_out: how many rows have times that cannot be.
    """

    def __init__(self, export: Export, process: int | None) -> None:
        self.export, self.process, self.left_out = export, process, 0

    def chosen(self, table: str) -> Bools | slice:
        """The rows of a table that are of the process."""
        columns = WANTED[table].integers
        column = next((name for name in ("globalTid", "globalPid") if name in columns), "")
        if self.process is None or not column:
            return slice(None)
        mine: Bools = pids(self.export.content.integers(table, (column,))[column]) == self.process
        return mine

    def rows(self, table: str, *, timed: bool = True) -> Rows:
        """The rows; where they have times only the possible ones, the others are counted."""
        chosen = self.chosen(table)
        rows = {
            name: column[chosen] for name, column in self.export.content.integers(table, WANTED[table].integers).items()
        }
        return self.possible(rows) if timed else rows

    def possible(self, rows: Rows) -> Rows:
        """Rows with times that can be."""
        possible = (rows["start"] >= 0) & (rows["end"] >= 0)
        self.left_out += int((~possible).sum())
        return rows if possible.all() else at(rows, possible)


def at(rows: Rows, chosen: Bools | Int64s) -> Rows:
    """Some of the rows."""
    return {name: column[chosen] for name, column in rows.items()}


def pids(identities: Int64s) -> Int64s:
    """The process of each identity of a process or thread."""
    return identities // _PER_PROCESS % _PER_PROCESS


def tids(identities: Int64s) -> Int64s:
    """The thread of each identity."""
    return identities % _PER_PROCESS


def named(names: Sequence[str], number: int) -> str:
    """The name of a number; itself where it has none."""
    return names[number] if 0 <= number < len(names) else f"{number}"
