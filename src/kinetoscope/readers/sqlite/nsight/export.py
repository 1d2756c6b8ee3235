"""Exports of Nsight Systems: the processes in one, and the events of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from kinetoscope.model.trace.build import TraceBuilder
from kinetoscope.notes import Note
from kinetoscope.readers.left_out import kinds_not_read, records_left_out, without_tensors
from kinetoscope.readers.sqlite.content import Content, in_order
from kinetoscope.readers.sqlite.database import Database, ReadProcess, Wanted
from kinetoscope.readers.sqlite.nsight import host, work
from kinetoscope.readers.sqlite.nsight.metrics import add_metrics, device_numbers
from kinetoscope.readers.sqlite.nsight.nccl import Collectives
from kinetoscope.readers.sqlite.nsight.tables import (
    COPIES,
    DEVICES,
    EXPORTED,
    GRAPHS,
    KERNELS,
    SESSION,
    SETS,
    STRINGS,
    WANTED,
    Export,
    ProcessRows,
    pids,
)

_OF_DEVICES: Final = (KERNELS, COPIES, SETS, GRAPHS)
"""Tables of what runs on devices: who is in one of them is a rank."""

_NOT_READ: Final = {
    "OSRT_API": "calls of the operating system",
    "COMPOSITE_EVENTS": "samples of the CPU",
    "SAMPLING_CALLCHAINS": "frames of samples",
    "SCHED_EVENTS": "switches of threads",
    "CUDNN_EVENTS": "calls of cuDNN",
    "CUBLAS_EVENTS": "calls of cuBLAS",
    "NET_NIC_METRIC": "metrics of the network",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "allocations of CUDA",
    "CUDA_GRAPH_NODE_EVENTS": "making of nodes of graphs",
    "PROFILER_OVERHEAD": "time of the profiler itself",
    "CUDA_CALLCHAINS": "frames of calls of CUDA",
    "OSRT_CALLCHAINS": "frames of calls of the operating system",
}
"""Content of tables of records that are not in the trace; a note counts them."""


def fits(database: Database) -> bool:
    """True for an export of Nsight Systems."""
    return database.has(STRINGS, "id", "value")


def processes(database: Database) -> list[int]:
    """The processes that work on devices: by device, then by their first work."""
    columns = ("globalPid", "deviceId", "start")
    read = Content(database, dict.fromkeys(_OF_DEVICES, Wanted(columns)))
    return in_order((read.integers(table, columns).values() for table in _OF_DEVICES), pids)


def content(database: Database) -> Content:
    """The columns that are read of a file."""
    return Content(database, WANTED, tuple(_NOT_READ))


def read(content: Content, process: int | None) -> ReadProcess:
    """The events of a process; of all where it is None."""
    export, built = Export(content), TraceBuilder()
    rows = ProcessRows(export, process)
    ranges = host.nvtx_rows(rows)
    calls = host.add_calls(rows, built)
    work.add_work(rows, built, Collectives(export, ranges, calls))
    work.add_waits(rows, built)
    host.add_ranges(ranges, built)
    host.add_names(rows, built)
    used = [content.integers(table, ("deviceId",))["deviceId"][rows.chosen(table)] for table in _OF_DEVICES]
    add_metrics(export, process, np.unique(np.concatenate(used)), built)
    return ReadProcess(built, _metadata(export, process), tuple(_notes(content, rows.left_out)))


def _notes(content: Content, left_out: int) -> Iterable[Note]:
    """Notes on records that are not in the trace."""
    yield from kinds_not_read(
        "Records of Nsight Systems", {what: content.count(name) for name, what in _NOT_READ.items()}
    )
    yield from records_left_out(left_out)
    if len(content.integers(GRAPHS, ("start",))["start"]):
        yield Note(
            "GRAPHS_AS_ONE",
            "Graphs were recorded as one piece of work each: their kernels are not here; "
            "--cuda-graph-trace=node records them.",
        )
    yield without_tensors("Nsight Systems", "sizes of tensors only with --pytorch=autograd-shapes-nvtx")


def _facts(content: Content, table: str) -> dict[str, str]:
    """The first value of each name in a table of names and values."""
    pairs = zip(*(reversed(content.texts(table, column).listed()) for column in ("name", "value")), strict=True)
    return dict(pairs)


def _metadata(export: Export, process: int | None) -> dict[str, Any]:
    """Facts of the run as Kineto has them."""
    begun = export.content.integers(SESSION, ("utcEpochNs", "systemClockNs"))
    facts: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": list(_devices(export, process))}
    if len(begun["utcEpochNs"]) and begun["utcEpochNs"][0] > 0:
        facts["baseTimeNanoseconds"] = int(begun["utcEpochNs"][0]) - max(int(begun["systemClockNs"][0]), 0)
    version = _facts(export.content, EXPORTED).get("EXPORT_PRODUCT_VERSION")
    return facts | ({"nsight_systems_version": version} if version else {})


def _devices(export: Export, process: int | None) -> Iterable[dict[str, Any]]:
    """The devices, as Kineto lists them, under the numbers that the process has for them."""
    numbers = device_numbers(export, process)
    columns = export.content.integers(DEVICES, WANTED[DEVICES].integers)
    for place, name in enumerate(export.content.texts(DEVICES, "name").listed()):
        row = {column: int(values[place]) for column, values in columns.items()}
        number = row["cuDevice"] if row["cuDevice"] >= 0 else row["id"]
        if not numbers or row["id"] in numbers:
            threads = row["threadsPerWarp"] * row["maxWarpsPerSm"] if row["maxWarpsPerSm"] > 0 else -1
            facts = {key: row[column] for key, column in _DEVICE_KEYS.items()} | {
                "maxThreadsPerMultiprocessor": threads
            }
            known = {key: value for key, value in facts.items() if value >= 0}
            yield {"id": numbers.get(row["id"], number), "name": name, **known}


_DEVICE_KEYS: Final = {
    "totalGlobalMem": "totalMemory",
    "computeMajor": "computeMajor",
    "computeMinor": "computeMinor",
    "maxThreadsPerBlock": "maxThreadsPerBlock",
    "regsPerMultiprocessor": "maxRegistersPerSm",
    "warpSize": "threadsPerWarp",
    "sharedMemPerMultiprocessor": "maxShmemPerSm",
    "numSms": "smCount",
    "l2CacheSize": "l2CacheSize",
}
