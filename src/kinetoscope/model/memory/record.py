"""A record of the memory of one device: the allocator's own history, or what the profiler says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import NO_PLACE, Bools, Int8s, Int32s, Int64s
from kinetoscope.model.memory.windows import MemoryWindows
from kinetoscope.model.steps.scope import Scope
from kinetoscope.model.trace.trace import Trace

Source = Literal["snapshot", "trace", "timeline file"]
"""Who tells: the allocator, in a memory snapshot; Kineto's events; a file of `export_memory_timeline`."""

Level = Literal["requested", "active", "allocated", "reserved"]
"""As in `torch.cuda.memory_stats`: bytes requested, of allocations that were not yet freed; the same as rounded;
rounded, without those whose free waits for another stream; bytes of segments."""

GroupBy = Literal["call", "class", "shapes", "use", "module", "line", "stack"]
"""What makes an owner of memory: the call with its module, the class of modules, the call with the shapes of its
inputs, the category alone, the module, the line of the program, or the stack."""


class CategoryLevels(NamedTuple):
    """Bytes in use by category at some instants.

    Attributes:
        place: int64 [instants], the change after which they hold; −1 before the first.
        levels: int64 [instants, categories], bytes.
    """

    place: Int64s
    levels: Int64s


class OwnedBlocks(NamedTuple):
    """Blocks by what allocated them.

    Attributes:
        group: int32 [blocks], a row of `owners`.
        owners: kind, name, and what else the record tells of them.
    """

    group: Int32s
    owners: pl.DataFrame


class StepAllocations(NamedTuple):
    """Bytes requested in each window, int64 [windows].

    Attributes:
        held: what it allocated and is in use at its end.
        others: all of the stacks of which no window leaves anything in use at its end.
        growing: stacks, int32, of which the last window leaves more than the first, those with most first.
        growth: int64, by how much; blocks: int64, how many the last window leaves.
        owners: a row for each of `growing`, as `OwnedBlocks` has them.
    """

    held: Int64s
    others: Int64s
    growing: Int32s
    growth: Int64s
    blocks: Int64s
    owners: pl.DataFrame


class CategoryRecord(Protocol):
    """The memory of one device by category, over time. Places are those of changes."""

    @property
    def device(self) -> str | None:
        """As torch names it, `cuda:0`; None in a file that names none."""

    @property
    def source(self) -> Source:
        """Origin of the record."""

    @property
    def time(self) -> Int64s:
        """Instants of the changes, ns on the trace's clock, ascending: int64 [changes]."""

    def selected(self, view: Scope) -> Int64s:
        """Places of the changes that are selected, ascending."""

    def instants(self, places: Int32s | Int64s) -> pl.Series:
        """Instants of changes, from the first event of the trace on; null where that was not recorded."""

    def by_category(self, chosen: Int64s, points: int) -> CategoryLevels:
        """Levels by category at the highest instant of each of so many equal parts of the time of some changes."""


class MemoryRecord(CategoryRecord, Protocol):
    """The memory of one device: changes in order of time, and blocks, each from an allocation to its free.

    Places are −1 before the first change, and for what was not recorded.
    """

    @property
    def trace(self) -> Trace:
        """The trace of the rank."""

    @property
    def change(self) -> Int64s:
        """Bytes allocated by each change, or freed if negative: int64 [changes]."""

    @property
    def in_use(self) -> Int64s:
        """Bytes before the first change and after each, as requested where that is known: int64 [changes + 1]."""

    def levels(self) -> Mapping[str, Int64s]:
        """Levels that are known, `reserved`, `allocated` and others, each as `in_use` is; −1 where one was not told."""

    @property
    def allocated_at(self) -> Int32s:
        """Place at which each block was allocated: int32 [blocks]."""

    @property
    def freed_at(self) -> Int32s:
        """Place at which each was freed: int32 [blocks]."""

    @property
    def requested(self) -> Int64s:
        """Bytes of each as requested, where that is known: int64 [blocks]."""

    @property
    def size(self) -> Int64s:
        """Bytes of each as the allocator rounded them: int64 [blocks]."""

    @property
    def category(self) -> Int8s:
        """Category of each, a place in CATEGORIES: int8 [blocks]."""

    def active(self, place: int) -> Bools:
        """Blocks that are known to be there after a change: bool [blocks]."""

    def callers(self, blocks: Int64s) -> dict[str, pl.Series]:
        """Callers that allocated each of some blocks: operator, module and so on."""

    def owners(self, place: int, by: GroupBy) -> pl.DataFrame:
        """Bytes in use after a change by owner; the rows sum to all of them."""

    def step_allocations(self, windows: MemoryWindows) -> StepAllocations | None:
        """Bytes that each window allocates and leaves; None where a record's owners are too coarse for it."""

    def persistent(self, blocks: Int64s, windows: MemoryWindows) -> OwnedBlocks:
        """Blocks that outlive their window, by what allocated them and what keeps them at the end of the last."""

    def windows(self, view: Scope) -> MemoryWindows:
        """The selected steps as places."""

    def carried_over(self, windows: MemoryWindows) -> Int64s:
        """Bytes in use at the end of each window that were there before it; all bytes if those are not told apart."""


def highest_in(level: Int64s, chosen: Int64s) -> int:
    """The change after which a level is highest, of some and of the instants right before them; −1 is before all."""
    if not len(chosen):
        return NO_PLACE
    before, after = level[:-1], level[1:]
    high, high_before = (int(chosen[each[chosen].argmax()]) for each in (after, before))
    return high_before - 1 if before[high_before] > after[high] else high


def parts(time: Int64s, points: int) -> Int64s:
    """Places where equal parts of the time begin, so many, and where the last one ends; empty parts are left out."""
    edges = np.linspace(int(time[0]), int(time[-1]), points + 1)[1:-1]
    return np.unique(np.concatenate([[0], np.searchsorted(time, edges), [len(time)]]))


def highest(level: Int64s, begins: Int64s) -> Int64s:
    """The place of the highest level of each part."""
    most = np.maximum.reduceat(level, begins[:-1])
    at = np.flatnonzero(level == np.repeat(most, np.diff(begins)))
    return at[np.searchsorted(at, begins[:-1])]
