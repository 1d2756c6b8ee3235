"""The memory of a device as the allocator's own history tells it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.memory.allocator import CUDA, device_name
from kinetoscope.model.memory.record import CategoryLevels, GroupBy, OwnedBlocks, Source, StepAllocations, parts
from kinetoscope.model.memory.windows import MemoryWindows, changes_in
from kinetoscope.model.snapshot.active import active_by_owner
from kinetoscope.model.snapshot.bands import bands, categories, category_changes
from kinetoscope.model.snapshot.fragmentation import unused_levels
from kinetoscope.model.snapshot.growth import HOLDERS, carried_over, holders, step_allocations
from kinetoscope.model.snapshot.replay import SnapshotHistory, level
from kinetoscope.model.snapshot.sites import StackSites, stack_sites
from kinetoscope.model.snapshot.snapshot import NONE
from kinetoscope.model.snapshot.windows import windows
from kinetoscope.model.steps.scope import Scope, origin_of_time
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace


@dataclass(frozen=True)
class SnapshotRecord:
    """A device of the rank's last snapshot; its changes are all events of the history."""

    trace: Trace
    past: SnapshotHistory
    source: Source = "snapshot"

    @property
    def device(self) -> str:
        return device_name(CUDA, self.past.device)

    @property
    def sites(self) -> StackSites:
        """The stacks of the snapshot."""
        return stack_sites(self.trace)

    @cached_property
    def time(self) -> Int64s:
        """Threads report out of order by a hair; where torch was too old (before 2.2), all times are one."""
        return np.maximum.accumulate(self.past.events.time - self.trace.base)

    @property
    def change(self) -> Int64s:
        return np.diff(level(self.trace, self.past.device, "allocated"))

    @property
    def in_use(self) -> Int64s:
        return level(self.trace, self.past.device, "requested")

    def levels(self) -> dict[str, Int64s]:
        requested, active, allocated, reserved = (
            level(self.trace, self.past.device, name) for name in ("requested", "active", "allocated", "reserved")
        )
        unused = unused_levels(self.trace, self.past.device)
        return {
            "reserved": reserved,
            "allocated": allocated,
            "requested": requested - (active - allocated),
            "internal_loss": active - requested,
            "pending": active - allocated,
            "inactive_split": unused.split,
            "releasable": unused.releasable,
            "private": unused.private,
        }

    def selected(self, view: Scope) -> Int64s:
        return np.flatnonzero(changes_in(view, self.past.events.time - self.trace.base))

    def instants(self, places: Int32s | Int64s) -> pl.Series:
        time = self.past.events.time
        if not len(time):
            return pl.Series([None] * len(places), dtype=pl.Int64)
        time = time[np.maximum(places, 0)]
        return polars_columns.column(time - self.trace.base - origin_of_time(self.trace), time != NONE)

    @property
    def allocated_at(self) -> Int32s:
        return self.past.allocated_at

    @property
    def freed_at(self) -> Int32s:
        return self.past.freed_at

    @property
    def requested(self) -> Int64s:
        return self.past.requested

    @property
    def size(self) -> Int64s:
        return self.past.size

    @property
    def category(self) -> Int8s:
        return categories(self.trace, self.past.device)

    def active(self, place: int) -> Bools:
        return self.past.active_after(place)

    def callers(self, blocks: Int64s) -> dict[str, pl.Series]:
        stack, sites = self.past.stack[blocks], self.sites

        def text_of(text: Callable[[int], str]) -> pl.Series:
            return polars_columns.labelled(stack, text).cast(pl.String).replace("", None)

        return {
            "operator": text_of(lambda each: sites.operator_of(int(sites.operator[each]))),
            "module": text_of(lambda each: sites.line_of(int(sites.module[each]))),
            "python": text_of(sites.line),
        }

    def owners(self, place: int, by: GroupBy) -> pl.DataFrame:
        return active_by_owner(self.trace, self.past.device, place, by)

    def by_category(self, chosen: Int64s, points: int) -> CategoryLevels:
        """From the state before the first of them on; without times by parts of as many events."""
        first, last = int(chosen[0]), int(chosen[-1])
        is_timed = bool((self.past.events.time != NONE).all())
        axis = self.time[first : last + 1] if is_timed else np.arange(first, last + 1)
        changes, own = category_changes(self.trace, self.past.device), self.category
        return CategoryLevels(*bands(self.past, own, changes, parts(axis, points) + first))

    def windows(self, view: Scope) -> MemoryWindows:
        """Periods of the allocations, where no steps were marked."""
        return windows(view, self.past.device)

    def carried_over(self, windows: MemoryWindows) -> Int64s:
        return carried_over(self.past, windows)

    def step_allocations(self, windows: MemoryWindows) -> StepAllocations:
        answer = step_allocations(self.past, windows)
        return answer._replace(owners=self._stacks(answer.growing, np.zeros(len(answer.growing), np.int8)))

    def persistent(self, blocks: Int64s, windows: MemoryWindows) -> OwnedBlocks:
        """By stack, and by what keeps them."""
        snapshot = self.sites.snapshot
        holder = holders(snapshot, self.past, blocks, int(windows.end[-1]))
        codes, first = group(self.past.stack[blocks], holder)
        return OwnedBlocks(codes, self._stacks(self.past.stack[blocks[first]], holder[first]))

    def _stacks(self, stacks: Int32s, holder: Int8s) -> pl.DataFrame:
        """The user's line of each stack, else the operator that allocated."""
        sites, every = self.sites, stacks.tolist()
        operators = (sites.operator_of(int(sites.operator[stack])) for stack in every)
        return pl.DataFrame(
            {
                "kind": ["stack"] * len(every),
                "name": [
                    sites.line(stack) or each or "[no stack]" for stack, each in zip(every, operators, strict=True)
                ],
                "held_by": [HOLDERS[each] for each in holder.tolist()],
                "stack": [sites.folded(stack) or None for stack in every],
            },
            schema=dict.fromkeys(("kind", "name", "held_by", "stack"), pl.String),
        )
