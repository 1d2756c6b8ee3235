"""Reports of the allocators: the instants at which memory of each device was allocated or freed, and its level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, scattered
from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.trees.tree import NO_ROW
from kinetoscope.model.execution.call_tree import call_tree, innermost_at
from kinetoscope.model.execution.marks import MODULE
from kinetoscope.model.memory.levels import is_mapped, levels_in_use, with_mapped
from kinetoscope.model.steps.scope import Scope
from kinetoscope.model.trace import arguments, polars_columns
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.recording import not_recorded
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note

NOT_RECORDED: Final = not_recorded("memory")
NONE_SELECTED: Final = Note("NO_MEMORY_SELECTED", "Nothing that the allocators did is selected.")
NO_ADDRESS: Final = Note(
    "MEMORY_UNPAIRED",
    "The file has no addresses of memory (newer versions of torch write them): allocations and frees cannot be paired.",
)

CALL_KINDS: Final[dict[int, str]] = {EventKind.HOST_OP: "operator", EventKind.ANNOTATION: "annotation"}
"""Values of a column `kind` for the calls that memory is charged to."""

IN_NO_CALL: Final = "memory"
"""Value of that column for memory allocated or freed in no call."""

MISSING_INTEGER: Final = np.iinfo(np.int64).min

HOST: Final = 0
"""Device type of the host."""

DEVICE_TYPES: Final = (
    *("cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip", "fpga", "maia", "xla", "vulkan", "metal", "xpu"),
    *("mps", "meta", "hpu", "ve", "lazy", "ipu", "mtia", "privateuseone"),
)
"""Names of devices by c10's numbers of their types (c10/core/DeviceType.h)."""

CUDA: Final = DEVICE_TYPES.index("cuda")
"""Device type of the devices of memory snapshots."""


@dataclass(frozen=True)
class Instants:
    """All reports of the allocators, in order of time.

    Attributes:
        rows: int32 [instants], their rows.
        time: int64 [instants], when, ns, ascending.
        size: int64 [instants], bytes: positive where memory was allocated, negative where it was freed.
        device: int32 [instants], which of `devices`.
        devices: type and number of each device, ascending, and the host last.
        allocated: int64 [instants], bytes in use on the device afterwards (see `memory.levels`): as reported, else
            counted on from the nearest report, else from 0 at the beginning of the recording.
        counted: bool [devices], whether the level was never reported, so that `allocated` counts from 0.
        reserved: int64 [instants], bytes reserved on the device afterwards; −1 where not reported.
    """

    rows: Int32s
    time: Int64s
    size: Int64s
    device: Int32s
    devices: tuple[tuple[int, int], ...]
    allocated: Int64s
    counted: Bools
    reserved: Int64s

    def __len__(self) -> int:
        return len(self.rows)

    def of_device(self, device: int) -> Int64s:
        """Places of the instants of one of `devices`, in order of time."""
        return np.flatnonzero(self.device == device)

    def before(self, place: int) -> int:
        """Bytes in use before an instant, by what it changed."""
        # As arrays: numbers that no memory has wrap around instead of leaving int64.
        return int((self.allocated[place : place + 1] - self.size[place : place + 1])[0])

    def notes(self) -> list[Note]:
        """The note on `allocated` where it counts from 0."""
        names = [self.device_name(device) for device in np.flatnonzero(self.counted).tolist()]
        if not names:
            return []
        return [
            Note(
                "MEMORY_FROM_ZERO",
                f"The file does not say how much was in use ({', '.join(names)}): it counts from 0 at the beginning.",
            )
        ]

    def device_name(self, device: int) -> str:
        """As torch writes it: `cpu`, `cuda:0`."""
        return device_name(*self.devices[device])


def device_name(device_type: int, number: int) -> str:
    """A device as torch writes it: `cpu`, `cuda:0`; of a type that c10 does not have `type 99:0`."""
    known = 0 <= device_type < len(DEVICE_TYPES)
    name = DEVICE_TYPES[device_type] if known else f"type {device_type}"
    return name if number < 0 else f"{name}:{number}"


@derived
def memory_instants(trace: Trace) -> Instants:
    """The reports of the allocators of a trace."""
    rows = trace.rows(EventKind.MEMORY)
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    size = arguments.integers(trace, "memory_bytes", rows, missing=0)
    kind = arguments.integers(trace, "memory_device_type", rows, missing=HOST)
    number = arguments.integers(trace, "memory_device", rows)
    codes, first = group(kind, number)
    pairs = list(zip(kind[first].tolist(), number[first].tolist(), strict=True))
    devices = tuple(sorted(pairs, key=lambda pair: (pair[0] == HOST, pair)))
    device = np.array([devices.index(pair) for pair in pairs], np.int32)[codes]
    reported = arguments.integers(trace, "allocated", rows, missing=MISSING_INTEGER)
    reserved = arguments.integers(trace, "reserved", rows)
    allocated, counted = np.empty(len(rows), np.int64), np.zeros(len(devices), np.bool_)
    for each in range(len(devices)):
        here = np.flatnonzero(device == each)
        known = reported[here] != MISSING_INTEGER
        counted[each] = not known.any()
        mapped = is_mapped(size[here], reported[here], reserved[here]) & (devices[each][0] == HOST)
        if mapped.any():
            keys = address_keys(trace, rows[here])
            allocated[here] = with_mapped(size[here], reported[here], known, mapped, keys)
        else:
            allocated[here] = levels_in_use(size[here], reported[here], known)
    reserved[kind == HOST] = -1  # of the host the file says 0, or the size of a mapped block
    return Instants(rows, trace.start[rows], size, device, devices, allocated, counted, np.maximum(reserved, -1))


def address_keys(trace: Trace, rows: Int32s) -> Int32s:
    """A number for each address: int32 [rows], −1 where there is none."""
    address = arguments.integers(trace, "address", rows, missing=MISSING_INTEGER)
    return np.where(address != MISSING_INTEGER, group(address)[0], np.int32(-1))


def instants_in(view: Scope) -> Bools:
    """Instants that are selected: bool [instants]. Selected devices are those of the memory itself."""
    instants = memory_instants(view.trace)
    chosen = view.host_mask[instants.rows]
    if view.select.devices is not None:
        ours = [number in view.select.devices for _, number in instants.devices]
        chosen &= np.array(ours, np.bool_)[instants.device]
    return chosen


@derived
def innermost_calls(trace: Trace) -> Int32s:
    """The innermost call that runs on the thread of each instant: int32 [instants], rows, −1 for none."""
    instants = memory_instants(trace)
    return innermost_at(trace, _threads_of_calls(trace)[trace.track[instants.rows]], instants.time)


def _threads_of_calls(trace: Trace) -> Int32s:
    """For each track without calls the one of the same thread that has them, else itself: int32 [tracks].

    Files of 2021 write the number of a thread as a text where it has calls and as a number where it allocates memory.
    """
    own = np.arange(len(trace.tracks), dtype=np.int32)
    tids = trace.tracks.integer_tids()
    has_calls = np.diff(call_tree(trace).offsets) > 0
    threads, first = group(trace.tracks.integer_pids(), tids)
    with_calls = scattered(len(first), threads[has_calls], own[has_calls], np.int32)
    other = with_calls[threads]
    return np.where(~has_calls & (tids >= 0) & (other >= 0), other, own)


@derived
def out_of_memory(trace: Trace) -> int:
    """Number of times that an allocator reported that memory had run out."""
    return int(rows_named(trace, lambda name: name == "[OutOfMemory]", EventKind.INSTANT).sum())


def names_of_modules(trace: Trace, rows: Int32s) -> pl.Series:
    """The names of modules, `Linear_0`, of the calls of their forward, null for row −1."""
    codes = scattered(len(rows), rows >= 0, trace.name[rows[rows >= 0]], np.int32)
    return polars_columns.labelled(codes, lambda code: trace.strings.label(code).removeprefix(MODULE))


def gather_parent(parent: NDArray[Any], rows: Int32s) -> Int32s:
    """The parent of each row: int32, −1 for row −1."""
    return np.where(rows >= 0, parent[rows], np.int32(NO_ROW))


# --- sums over spans of time


@dataclass(frozen=True)
class Allocations:
    """Reports of the allocator of the host, or of those of the devices, in order of time.

    Attributes:
        rows: int32 [instants], their rows.
        time: int64 [instants], when, ns, ascending.
        size: int64 [instants], bytes: positive where memory was allocated, negative where it was freed.
    """

    rows: Int32s
    time: Int64s
    size: Int64s

    def __len__(self) -> int:
        return len(self.rows)

    def change_within(self, first: Int64s, last: Int64s) -> Int64s:
        """Bytes allocated less bytes freed from `first` to `last`, both included, on any thread: int64 [spans].

        A span whose last instant is before its first has none.
        """
        before = np.concatenate([[0], np.cumsum(self.size)], dtype=np.int64)
        begin = np.searchsorted(self.time, first, side="left")
        end = np.searchsorted(self.time, last, side="right")
        return np.subtract(before[np.maximum(begin, end)], before[begin])


@derived
def allocations(trace: Trace, *, of_host: bool) -> Allocations:
    """Allocations of the host's memory, or of that of all devices."""
    instants = memory_instants(trace)
    host_devices = np.array([kind == HOST for kind, _ in instants.devices], np.bool_)
    chosen = host_devices[instants.device] == of_host
    return Allocations(instants.rows[chosen], instants.time[chosen], instants.size[chosen])
