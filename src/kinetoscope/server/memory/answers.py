"""Answers about memory snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Axis = Literal["time", "event"]


@dataclass(frozen=True, slots=True)
class MemoryBands:
    """A stretch of the history of a device.

    Attributes:
        by: the axis: ns after the beginning of the trace, or numbers of events.
        start, end: of the stretch.
        categories: the owners of bytes.
        times: by events, when the event of each row was; None where that is not known, and by time.
        rows: event, its place on the axis, bytes reserved, and bytes of each category; each holds until the next.
    """

    by: Axis
    start: int
    end: int
    categories: Sequence[str]
    times: Sequence[int] | None = None
    rows: Sequence[Sequence[int]] = ()


@dataclass(frozen=True, slots=True)
class HeapSegments:
    """The segments, in parallel: address (hexadecimal), bytes, group, event of the request, whether it grows."""

    address: Sequence[str]
    size: Sequence[int]
    group: Sequence[int]
    allocated_at: Sequence[int]
    expandable: Sequence[bool]


@dataclass(frozen=True, slots=True)
class MemoryHeap:
    """The heap at an instant.

    Attributes:
        event: after which it is so; time: when that was, ns; None where that is not known.
        sentence: about it.
        groups: segments of one pool and stream, in words.
        segments: by address.
        bytes: requested, by category.
        rows: segment, offset in it, bytes, bytes requested, category (−1 of a hole), allocation, the number of blocks,
            whether it waits for another stream.
    """

    event: int
    time: int | None
    sentence: str
    groups: Sequence[str]
    segments: HeapSegments
    bytes: Mapping[str, int]
    rows: Sequence[tuple[int, int, int, int, int, int, int, bool]] = ()


@dataclass(frozen=True, slots=True)
class AllocationFrame:
    """A frame of the stack of an allocation; `user`: the file is the user's own."""

    name: str
    file: str
    line: int
    user: bool


@dataclass(frozen=True, slots=True)
class MemoryAllocation:
    """An allocation: facts in words, and the stack of its request, the innermost frame first."""

    row: int
    category: str
    facts: Sequence[str]
    frames: Sequence[AllocationFrame]
