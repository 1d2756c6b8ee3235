"""Work of devices: kernels, copies, sets, graphs that were recorded as one, and waits of streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.model.trace.build import Coded, TraceBuilder, part
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.readers.sqlite.nsight.nccl import Collectives
from kinetoscope.readers.sqlite.nsight.tables import (
    COPIES,
    EVENTS,
    GRAPHS,
    KERNELS,
    SETS,
    WAITS,
    ProcessRows,
    Rows,
    named,
)

_COPY_KINDS: Final = (
    *("", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"),
    *("HtoD", "DtoH", "DtoD"),
)
_MEMORY_KINDS: Final = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device", "Managed", "Unknown")
_SYNC_KINDS: Final = ("Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")
"""Kineto's names of the numbers of CUPTI's enumerations; the tables ENUM_… have the same."""

_NO_STREAM: Final = (1 << 32) - 1
"""The stream of a wait for an event or a context."""

_ARGUMENTS: Final = {
    "device": "deviceId",
    "context": "contextId",
    "stream": "streamId",
    "correlation": "correlationId",
}
"""Arguments of work, by the name of the column."""


def add_work(rows: ProcessRows, built: TraceBuilder, collectives: Collectives) -> None:
    """All work of devices, given to a builder: kernels of collectives with what NCCL says of them."""
    _add_kernels(rows.rows(KERNELS), rows, built, collectives)
    copies = rows.rows(COPIES)
    kinds = np.stack([copies["copyKind"], copies["srcKind"], copies["dstKind"]], axis=1)
    _add(built, EventKind.MEMCPY, Coded.of(kinds, _copy_name), copies, {"bytes": copies["bytes"]})
    sets = rows.rows(SETS)
    names = Coded.of(sets["memKind"], lambda kind: f"Memset ({named(_MEMORY_KINDS, kind)})")
    _add(built, EventKind.MEMSET, names, sets, {"bytes": sets["bytes"]})
    _add(built, EventKind.KERNEL, "CUDA graph (its kernels were not recorded)", rows.rows(GRAPHS), {})


def _add_kernels(kernels: Rows, rows: ProcessRows, built: TraceBuilder, collectives: Collectives) -> None:
    name = np.where(kernels["demangledName"] >= 0, kernels["demangledName"], kernels["shortName"])
    names = rows.export.strings.coded(name)
    arguments: dict[str, Any] = {
        "registers": kernels["registersPerThread"],
        "shared_memory": np.maximum(kernels["staticSharedMemory"], 0) + np.maximum(kernels["dynamicSharedMemory"], 0),
        **{side: _sides([kernels[side + axis] for axis in "XYZ"]) for side in ("grid", "block")},
    }
    described = collectives.of(kernels["correlationId"], names)
    _add(built, EventKind.KERNEL, names, kernels, arguments | dict(described.arguments), described.known)
    _add(built, EventKind.KERNEL, names, kernels, arguments, ~described.known)


def _add(
    built: TraceBuilder,
    kind: EventKind,
    names: Any,
    rows: Rows,
    arguments: Mapping[str, Any],
    chosen: Bools | None = None,
) -> None:
    """Work, given to a builder; what belongs to a node of a graph has its number, too."""
    every = {name: rows[column] for name, column in _ARGUMENTS.items()} | dict(arguments)
    of_graph = {"graph": rows["graphId"], "graph_node": rows["graphNodeId"]}
    has_node, has_graph = rows["graphNodeId"] >= 0, rows["graphId"] > 0
    mine = np.ones(len(has_node), np.bool_) if chosen is None else chosen
    for which, more in (
        (mine & ~has_node, ()),
        (mine & has_node & ~has_graph, ("graph_node",)),
        (mine & has_node & has_graph, ("graph", "graph_node")),
    ):
        if which.any():
            built.add(
                kind,
                part(names, which),
                rows["start"][which],
                rows["end"][which],
                process=rows["deviceId"][which],
                thread=rows["streamId"][which],
                **{name: part(column, which) for name, column in every.items()},
                **{name: of_graph[name][which] for name in more},
            )


def add_waits(rows: ProcessRows, built: TraceBuilder) -> None:
    """Waits, given to a builder; those for an event with the stream and the call that recorded it."""
    waits, events = rows.rows(WAITS), rows.rows(EVENTS, timed=False)
    kind = np.where(waits["syncType"] >= 0, waits["syncType"], waits["deprecatedSyncType"])
    stream = np.where(waits["streamId"] == _NO_STREAM, -1, waits["streamId"])
    order = np.argsort(events["eventSyncId"], kind="stable")
    numbers = events["eventSyncId"][order]
    place = np.minimum(np.searchsorted(numbers, waits["eventSyncId"]), max(len(numbers) - 1, 0))
    recorded = (waits["eventSyncId"] > 0) & (
        numbers[place] == waits["eventSyncId"] if len(numbers) else np.zeros(len(place), np.bool_)
    )
    for which, is_recorded in ((recorded, True), (~recorded, False)):
        if which.any():
            of_event = order[place[which]] if is_recorded else place[:0]
            waited = {"wait_on_stream": events["streamId"], "wait_on_record": events["correlationId"]}
            built.add(
                EventKind.DEVICE_SYNC,
                Coded.of(kind[which], lambda number: named(_SYNC_KINDS, number)),
                waits["start"][which],
                waits["end"][which],
                process=waits["deviceId"][which],
                thread=stream[which],
                correlation=waits["correlationId"][which],
                stream=stream[which],
                device=waits["deviceId"][which],
                **({name: column[of_event] for name, column in waited.items()} if is_recorded else {}),
            )


def _copy_name(kinds: Sequence[int]) -> str:
    """The name that Kineto gives a copy of some kind, from some kind of memory to another."""
    copy, one, other = kinds
    return f"Memcpy {named(_COPY_KINDS, copy)} ({named(_MEMORY_KINDS, one)} -> {named(_MEMORY_KINDS, other)})"


def _sides(columns: Sequence[Int64s]) -> Coded:
    """Three numbers of each row as a list, as `grid` and `block` are written."""
    return Coded.of(np.stack(columns, axis=1), list)
