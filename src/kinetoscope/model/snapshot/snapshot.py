"""A memory snapshot as columns: the state of the allocator when it was taken, and the events that led there.

The names are those of torch's `torch.cuda.memory._snapshot()`. A segment is what the allocator allocated on the device,
a block a piece of a segment, a stack the frames of a request, innermost first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s
from kinetoscope.model.trace.strings import Strings
from kinetoscope.notes import Note

ACTIONS: Final = (
    *("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap"),
    *("snapshot", "oom", "annotate"),
)
"""Actions of events, in the order of their codes."""

(
    ALLOC,
    FREE_REQUESTED,
    FREE_COMPLETED,
    SEGMENT_ALLOC,
    SEGMENT_FREE,
    SEGMENT_MAP,
    SEGMENT_UNMAP,
    MARKER,
    OUT_OF_MEMORY,
    ANNOTATE,
) = range(len(ACTIONS))
GROWING: Final = (SEGMENT_ALLOC, SEGMENT_MAP)
SHRINKING: Final = (SEGMENT_FREE, SEGMENT_UNMAP)
"""Actions by which more, or less, is reserved on the device."""

OTHER_ACTION: Final = -1
"""Code of an action that torch did not have when this was written."""

STATES: Final = ("inactive", "active_allocated", "active_pending_free")
"""States of blocks, in the order of their codes. `active_awaiting_free` is read as the last."""

INACTIVE, ALLOCATED, PENDING_FREE = range(len(STATES))

NONE: Final = -1
"""Where a row has no stack, text, pool or time."""

DEFAULT_POOL: Final = (0, 0)


@dataclass(frozen=True)
class Segments:
    """Segments of the allocators, in order of the file: one row each, of a device's in order of address.

    Attributes:
        device: int32.
        address, size: int64, bytes.
        allocated, active, requested: int64, bytes of its blocks as the file says: in use; that and pending frees; as
            requested (−1 where torch was older than 2.1).
        stream: int64, the pointer of the CUDA stream, 0 for the default one.
        is_small: bool, of the pool of requests up to 1 MiB.
        pool: int32, row of `Snapshot.pools`; NONE where the file does not say.
        is_expandable: bool.
        stack: int32, of the request that allocated it on the device.
        first_block: int32 [segments + 1], where the blocks of each begin.
    """

    device: Int32s
    address: Int64s
    size: Int64s
    allocated: Int64s
    active: Int64s
    requested: Int64s
    stream: Int64s
    is_small: Bools
    pool: Int32s
    is_expandable: Bools
    stack: Int32s
    first_block: Int32s

    def __len__(self) -> int:
        return len(self.size)


@dataclass(frozen=True)
class SegmentBlocks:
    """The blocks of the segments, one behind the other.

    Attributes:
        address, size: int64, bytes: as the allocator rounded them.
        requested: int64, bytes requested; 0 of inactive blocks, `size` where the file does not say.
        state: int8, a place in STATES.
        stack: int32, of the request; NONE of inactive blocks and of those from before the history.
    """

    address: Int64s
    size: Int64s
    requested: Int64s
    state: Int8s
    stack: Int32s

    def __len__(self) -> int:
        return len(self.size)


@dataclass(frozen=True)
class SnapshotEvents:
    """The history of one device, oldest first.

    Attributes:
        action: int8, a place in ACTIONS or OTHER_ACTION.
        address: int64; of `oom` the bytes that were free on the device.
        size: int64, bytes: as requested of alloc and free; of the range of segments; of `oom` what was requested.
        stream: int64, the pointer of the CUDA stream.
        time: int64, ns since 1970; NONE before torch 2.2.
        stack: int32; NONE where no context was gathered.
        pool: int32, row of `Snapshot.pools`; NONE where the file does not say (before torch 2.11).
        compile_context, metadata, internal: int32, string codes; NONE where there is none. `metadata` is what
            `_set_memory_metadata` or `_annotate_tensor` said.
        forward_stack: int32, a row of `Snapshot.text_stacks`: the forward operator's Python stack, of what its backward
            allocated; NONE where there is none.

    Columns of which all values are NONE take no memory.
    """

    action: Int8s
    address: Int64s
    size: Int64s
    stream: Int64s
    time: Int64s
    stack: Int32s
    pool: Int32s
    compile_context: Int32s
    metadata: Int32s
    internal: Int32s
    forward_stack: Int32s

    def __len__(self) -> int:
        return len(self.action)


@dataclass(frozen=True)
class SnapshotStacks:
    """Distinct sequences of frames (or of texts), innermost first: stack k has `items[ends[k-1]:ends[k]]`.

    Attributes:
        items: int32, rows of `Snapshot.frames`, or string codes.
        ends: int64 [stacks].
    """

    items: Int32s
    ends: Int64s

    def __len__(self) -> int:
        return len(self.ends)

    def of(self, stack: int) -> Int32s:
        """The items of a stack; none of stack NONE."""
        if stack < 0:
            return self.items[:0]
        return self.items[int(self.ends[stack - 1]) if stack else 0 : int(self.ends[stack])]


@dataclass(frozen=True)
class SnapshotFrames:
    """Distinct frames: string codes of function and file, and the line (0 of C++ frames). int32 [frames] each."""

    name: Int32s
    file: Int32s
    line: Int32s

    def __len__(self) -> int:
        return len(self.line)


@dataclass(frozen=True)
class SnapshotAnnotations:
    """Beginnings and ends of `record_function` ranges, in order of the file.

    Attributes:
        name: int32, string codes.
        is_start: bool.
        device: int32.
        time: int64, ns since 1970.
    """

    name: Int32s
    is_start: Bools
    device: Int32s
    time: Int64s

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True)
class Snapshot:
    """The content of one file.

    Attributes:
        url: the file.
        segments, blocks: the state when it was taken.
        events: the history of each device, by its number; a device without any has an empty one.
        frames, stacks, text_stacks, annotations: see their classes.
        pools: the pairs `(a, b)` that name pools; (0, 0) is the default one, others are of CUDA graphs or `MemPool`s.
        strings: what the codes mean.
        settings: `allocator_settings` as the file has it: numbers, bools, texts, mappings. {} before torch 2.6.
        host_segments, host_blocks, host_events: of pinned memory (torch 2.14); None where it was not recorded.
        notes: what could not be read, as sentences.
    """

    url: str
    segments: Segments
    blocks: SegmentBlocks
    events: tuple[SnapshotEvents, ...]
    frames: SnapshotFrames
    stacks: SnapshotStacks
    text_stacks: SnapshotStacks
    annotations: SnapshotAnnotations
    pools: tuple[tuple[int, int], ...]
    strings: Strings
    settings: Mapping[str, Any] = field(default_factory=dict)
    host_segments: Segments | None = None
    host_blocks: SegmentBlocks | None = None
    host_events: SnapshotEvents | None = None
    notes: tuple[Note, ...] = ()

    @property
    def devices(self) -> tuple[int, ...]:
        """Numbers of the devices that have segments or events."""
        with_events = {device for device, events in enumerate(self.events) if len(events)}
        return tuple(sorted(with_events | set(self.segments.device.tolist())))


def private_pools(snapshot: Snapshot) -> Bools:
    """Pools of CUDA graphs and `MemPool`s: bool [pools + 1], of which the last is for no pool."""
    return np.array([*(pool != DEFAULT_POOL for pool in snapshot.pools), False], np.bool_)
