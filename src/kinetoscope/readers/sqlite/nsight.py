"""Nsight Systems' recordings, exported as SQLite: `nsys export --type sqlite --lazy=false report.nsys-rep`.

One file has the processes of a machine; each that works on a device is a rank. Its tables come and go with versions and
options, so each is read if it is there. The user guide of Nsight Systems has what they mean, and so have the comments
in their definitions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.model.trace.build import Coded, TraceBuilder, part
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.notes import Note
from kinetoscope.readers.left_out import kinds_not_read, records_left_out, without_tensors
from kinetoscope.readers.sqlite import nvtx
from kinetoscope.readers.sqlite.database import Database, ReadProcess

_STRINGS: Final = "StringIds"
_KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
_SETS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
_CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_WAITS: Final = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
_GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_OVERHEAD: Final = "CUPTI_ACTIVITY_KIND_OVERHEAD"
_RANGES: Final = "NVTX_EVENTS"
_DEVICES: Final = "TARGET_INFO_GPU"

_OF_DEVICES: Final = (_KERNELS, _COPIES, _SETS, _GRAPHS)
"""Tables of what runs on devices: who is in one of them is a rank."""

_NOT_READ: Final = (
    *("OSRT_API", "COMPOSITE_EVENTS", "SAMPLING_CALLCHAINS", "SCHED_EVENTS", "CUDNN_EVENTS", "CUBLAS_EVENTS"),
    *("GPU_METRICS", "NET_NIC_METRIC", "CUDA_GPU_MEMORY_USAGE_EVENTS", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"),
    *("CUDA_GRAPH_NODE_EVENTS", "PROFILER_OVERHEAD", "CUDA_CALLCHAINS", "OSRT_CALLCHAINS"),
)
"""Tables of records that are not in the trace; a note counts them."""

_PER_PROCESS: Final = 1 << 24
_COPY_KINDS: Final = (
    *("", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"),
    *("HtoD", "DtoH", "DtoD"),
)
_MEMORY_KINDS: Final = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device", "Managed", "Unknown")
_SYNC_KINDS: Final = ("Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")
_OVERHEAD_KINDS: Final = (
    *("Undefined", "Unknown", "Driver Compiler", "Buffer Flush", "Instrumentation", "Resource"),
    *("Runtime Triggered Module Loading", "Lazy Function Loading", "Command Buffer Full"),
)
"""What Kineto calls the numbers of CUPTI's enumerations; the tables ENUM_… have the same."""

_NO_STREAM: Final = (1 << 32) - 1
"""The stream of a wait for an event or a context."""

_PUSH_POP, _START_END, _MARK, _PUSH, _START = 59, 60, 34, 35, 37
"""Types of events of NVTX that are ranges, or instants."""

_VERSION: Final = re.compile(r"(?:_ptsz|_ptds)?_v\d+\Z|_(?:ptsz|ptds)\Z")
"""What Nsight adds to the names of calls: `cudaLaunchKernel_v7000`."""


def fits(database: Database) -> bool:
    """True for an export of Nsight Systems."""
    return database.has(_STRINGS, "id", "value")


def processes(database: Database) -> list[int]:
    """The processes that work on devices: by device, then by their first work."""
    seen: dict[int, tuple[int, int]] = {}
    for table in _OF_DEVICES:
        columns = database.integers(table, ("globalPid", "deviceId", "start"))
        for process in np.unique(columns["globalPid"]).tolist():
            rows = columns["globalPid"] == process
            first = int(columns["deviceId"][rows].min()), int(columns["start"][rows].min())
            seen[_pid(process)] = min(seen.get(_pid(process), first), first)
    return sorted(seen, key=lambda pid: (*seen[pid], pid))


def read(database: Database, process: int | None) -> ReadProcess:
    """The events of a process; of all where it is None."""
    export = _Export(database, process)
    export.read()
    return ReadProcess(export.built, export.metadata(), tuple(export.notes()))


@dataclass(frozen=True)
class _StringIds:
    """The table of strings: ids in order, and the text of each."""

    ids: Int64s
    texts: list[str]

    def coded(self, ids: Int64s, change: Callable[[str], str] = str) -> Coded:
        """A column of ids as texts; "" for an id that is not there."""
        used, places = np.unique(ids, return_inverse=True)
        at = np.minimum(np.searchsorted(self.ids, used), max(len(self.ids) - 1, 0))
        known = self.ids[at] == used if len(self.ids) else np.zeros(len(used), np.bool_)
        pairs = zip(at.tolist(), known.tolist(), strict=True)
        return Coded(
            places.astype(np.int64), [change(self.texts[place]) if is_known else "" for place, is_known in pairs]
        )


class _Export:
    """The events of an export, given to a `TraceBuilder`."""

    def __init__(self, database: Database, process: int | None) -> None:
        self.built = TraceBuilder()
        self._database, self._process = database, process
        ids, texts = database.integers(_STRINGS, ("id",))["id"], database.texts(_STRINGS, "value")
        order = np.argsort(ids, kind="stable")
        self._texts = _StringIds(ids[order], [texts[place] for place in order.tolist()])
        self._left_out = 0

    def read(self) -> None:
        """Read all tables."""
        self._kernels()
        self._copies()
        self._sets()
        self._graphs()
        self._calls()
        self._waits()
        self._overhead()
        self._ranges()
        self._names()

    # --- what runs on devices

    def _kernels(self) -> None:
        names = ("demangledName", "shortName", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory")
        sides = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
        rows = self._rows(_KERNELS, (*names, *sides, *_PLACED))
        named = np.where(rows["demangledName"] >= 0, rows["demangledName"], rows["shortName"])
        shared = np.maximum(rows["staticSharedMemory"], 0) + np.maximum(rows["dynamicSharedMemory"], 0)
        self._work(
            EventKind.KERNEL,
            self._texts.coded(named),
            rows,
            registers=rows["registersPerThread"],
            shared_memory=shared,
            grid=_sides([rows[name] for name in sides[:3]]),
            block=_sides([rows[name] for name in sides[3:]]),
        )

    def _copies(self) -> None:
        rows = self._rows(_COPIES, ("bytes", "copyKind", "srcKind", "dstKind", *_PLACED))
        kinds = np.stack([rows["copyKind"], rows["srcKind"], rows["dstKind"]], axis=1)
        self._work(EventKind.MEMCPY, Coded.of(kinds, _copy_name), rows, bytes=rows["bytes"])

    def _sets(self) -> None:
        rows = self._rows(_SETS, ("bytes", "memKind", *_PLACED))
        names = Coded.of(rows["memKind"], lambda kind: f"Memset ({_named(_MEMORY_KINDS, kind)})")
        self._work(EventKind.MEMSET, names, rows, bytes=rows["bytes"])

    def _graphs(self) -> None:
        """A graph whose nodes were not recorded one by one: one piece of work for each launch."""
        rows = self._rows(_GRAPHS, ("graphExecId", *_PLACED))
        self._work(EventKind.KERNEL, "CUDA graph (its kernels were not recorded)", rows)

    def _work(self, kind: EventKind, names: Any, rows: dict[str, Int64s], **arguments: Any) -> None:
        """Work of devices; what belongs to a node of a graph has its number, too."""
        common = {name: rows[column] for name, column in _ARGUMENTS.items()}
        self._add_each(
            rows["graphNodeId"] >= 0,
            lambda chosen, in_graph: self.built.add(
                kind,
                part(names, chosen),
                rows["start"][chosen],
                rows["end"][chosen],
                process=rows["deviceId"][chosen],
                thread=rows["streamId"][chosen],
                **{name: part(column, chosen) for name, column in (common | arguments).items()},
                **({"graph_node": rows["graphNodeId"][chosen]} if in_graph else {}),
            ),
        )

    def _add_each(self, condition: Bools, add: Callable[[Bools, bool], None]) -> None:
        """Add the rows for which a condition holds, and the others: they have other arguments."""
        for chosen, holds in ((condition, True), (~condition, False)):
            if chosen.any():
                add(chosen, holds)

    # --- the host

    def _calls(self) -> None:
        rows = self._rows(_CALLS, ("nameId", "correlationId", "globalTid"))
        names = self._texts.coded(rows["nameId"], lambda name: _VERSION.sub("", name))
        self._host(EventKind.RUNTIME, names, rows, correlation=rows["correlationId"])

    def _waits(self) -> None:
        rows = self._rows(_WAITS, ("syncType", "deprecatedSyncType", *_PLACED))
        kind = np.where(rows["syncType"] >= 0, rows["syncType"], rows["deprecatedSyncType"])
        stream = np.where(rows["streamId"] == _NO_STREAM, -1, rows["streamId"])
        self.built.add(
            EventKind.DEVICE_SYNC,
            Coded.of(kind, lambda number: _named(_SYNC_KINDS, number)),
            rows["start"],
            rows["end"],
            process=rows["deviceId"],
            thread=stream,
            correlation=rows["correlationId"],
            stream=stream,
            device=rows["deviceId"],
        )

    def _overhead(self) -> None:
        rows = self._rows(_OVERHEAD, ("overheadType", "globalTid"))
        self._host(EventKind.OVERHEAD, Coded.of(rows["overheadType"], lambda kind: _named(_OVERHEAD_KINDS, kind)), rows)

    def _ranges(self) -> None:
        rows = self._rows(_RANGES, ("eventType", "textId", "globalTid"), timed=False)
        written = self._database.texts(_RANGES, "text", self._where(_RANGES))
        places = np.flatnonzero(rows["textId"] >= 0)
        shared = self._texts.coded(rows["textId"][places])
        for place, code in zip(places.tolist(), shared.codes.tolist(), strict=True):
            written[place] = written[place] or shared.values[code]
        is_range = np.isin(rows["eventType"], (_PUSH_POP, _START_END, _PUSH, _START)) & (rows["end"] >= rows["start"])
        is_range &= rows["start"] >= 0
        self._left_out += int((np.isin(rows["eventType"], (_PUSH_POP, _START_END, _MARK)) & ~is_range).sum())
        chosen = np.flatnonzero(is_range)
        said = nvtx.ranges([written[place] for place in chosen.tolist()])
        rows = {name: column[chosen] for name, column in rows.items()}
        for has_sizes in (False, True):
            is_chosen = said.is_operator & (_lengths(said.sizes) > 0 if has_sizes else _lengths(said.sizes) == 0)
            if is_chosen.any():
                self._host(
                    EventKind.HOST_OP,
                    part(said.name, is_chosen),
                    {name: column[is_chosen] for name, column in rows.items()},
                    external_id=said.operator_id[is_chosen],
                    sequence=said.sequence[is_chosen],
                    **({"input_dims": part(said.sizes, is_chosen)} if has_sizes else {}),
                )
        named = ~said.is_operator
        if named.any():
            self._host(
                EventKind.ANNOTATION,
                part(said.name, named),
                {name: column[named] for name, column in rows.items()},
            )

    def _host(self, kind: EventKind, names: Any, rows: dict[str, Int64s], **arguments: Any) -> None:
        if len(rows["start"]):
            self.built.add(
                kind,
                names,
                rows["start"],
                rows["end"],
                process=_pids(rows["globalTid"]),
                thread=rows["globalTid"] % _PER_PROCESS,
                **arguments,
            )

    def _names(self) -> None:
        """Names of threads that have an event."""
        rows = self._rows("ThreadNames", ("nameId", "globalTid"), timed=False)
        names = self._texts.coded(rows["nameId"])
        used = {*self.built.places}
        for code, thread in zip(names.codes.tolist(), rows["globalTid"].tolist(), strict=True):
            place = int(_pid(thread)), thread % _PER_PROCESS
            if place in used:
                self.built.name_thread(names.values[code], process=place[0], thread=place[1])

    # --- what all tables have

    def _where(self, table: str) -> str:
        if self._process is None:
            return ""
        column = next((name for name in ("globalTid", "globalPid") if self._database.has(table, name)), "")
        return f'"{column}" / {_PER_PROCESS} % {_PER_PROCESS} = {self._process}' if column else ""

    def _rows(self, table: str, columns: Sequence[str], *, timed: bool = True) -> dict[str, Int64s]:
        """Rows of the process; of those with times only the possible ones, the others are counted."""
        rows = self._database.integers(table, ("start", "end", *columns), self._where(table))
        if not timed:
            return rows
        possible = (rows["start"] >= 0) & (rows["end"] >= 0)
        self._left_out += int((~possible).sum())
        return rows if possible.all() else {name: column[possible] for name, column in rows.items()}

    def notes(self) -> Iterable[Note]:
        """Notes on records that are not in the trace."""
        counts = {table: self._database.count(table) for table in _NOT_READ}
        yield from kinds_not_read("Records of Nsight Systems", counts)
        yield from records_left_out(self._left_out)
        if self._option("CUDA_GRAPH_TRACE_OPTIONS:MODE") == "Graph":
            yield Note(
                "GRAPHS_AS_ONE",
                "Graphs were recorded as one piece of work each: their kernels are not here; "
                "--cuda-graph-trace=node records them.",
            )
        yield without_tensors("Nsight Systems", "sizes of tensors only with --pytorch=autograd-shapes-nvtx")

    def _option(self, name: str) -> str:
        rows = self._database.rows("META_DATA_CAPTURE", ("name", "value"))
        return next((str(row["value"]) for row in rows if row.get("name") == name), "")

    def metadata(self) -> dict[str, Any]:
        """Facts of the run as Kineto has them."""
        begun = self._database.integers("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs", "systemClockNs"))
        facts: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": list(self._devices())}
        if len(begun["utcEpochNs"]) and begun["utcEpochNs"][0] > 0:
            facts["baseTimeNanoseconds"] = int(begun["utcEpochNs"][0]) - max(int(begun["systemClockNs"][0]), 0)
        exported = self._database.rows("META_DATA_EXPORT", ("name", "value"))
        versions = [row["value"] for row in exported if row.get("name") == "EXPORT_PRODUCT_VERSION"]
        return facts | ({"nsight_systems_version": str(versions[0])} if versions else {})

    def _devices(self) -> Iterable[dict[str, Any]]:
        columns = ("id", "cuDevice", "name", "totalMemory", "computeMajor", "computeMinor", "smCount", "l2CacheSize")
        for row in self._database.rows(_DEVICES, columns):
            number = row.get("cuDevice") if isinstance(row.get("cuDevice"), int) else row.get("id")
            facts = {key: row.get(name) for key, name in _DEVICE_KEYS.items()}
            yield {"id": number, **{key: value for key, value in facts.items() if isinstance(value, int | str)}}


_PLACED: Final = ("deviceId", "contextId", "streamId", "correlationId", "graphNodeId")

_ARGUMENTS: Final = {
    "device": "deviceId",
    "context": "contextId",
    "stream": "streamId",
    "correlation": "correlationId",
}
"""Arguments of work, by the name of the column."""

_DEVICE_KEYS: Final = {
    "name": "name",
    "totalGlobalMem": "totalMemory",
    "computeMajor": "computeMajor",
    "computeMinor": "computeMinor",
    "numSms": "smCount",
    "l2CacheSize": "l2CacheSize",
}


def _pid(identity: int) -> int:
    return identity // _PER_PROCESS % _PER_PROCESS


def _pids(identities: Int64s) -> Int64s:
    return identities // _PER_PROCESS % _PER_PROCESS


def _named(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= number < len(names) else f"{number}"


def _copy_name(kinds: Sequence[int]) -> str:
    """The name that Kineto gives a copy of some kind, from some kind of memory to another."""
    copy, one, other = kinds
    return f"Memcpy {_named(_COPY_KINDS, copy)} ({_named(_MEMORY_KINDS, one)} -> {_named(_MEMORY_KINDS, other)})"


def _sides(columns: Sequence[Int64s]) -> Coded:
    """Three numbers of each row as a list, as `grid` and `block` are written."""
    return Coded.of(np.stack(columns, axis=1), list)


def _lengths(column: Coded) -> Int64s:
    return np.array([len(value) for value in column.values], np.int64)[column.codes]
