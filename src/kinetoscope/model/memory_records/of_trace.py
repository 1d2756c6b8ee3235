"""The memory of a device as Kineto's events tell it, and that of a file of `export_memory_timeline`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import NO_PLACE, Bools, Int8s, Int32s, Int64s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.model.execution.call_tree import enclosing_frame, enclosing_module, enclosing_op
from kinetoscope.model.execution.calls import calls, names_of_calls
from kinetoscope.model.execution.frames import user_source
from kinetoscope.model.memory.allocator import (
    Instants,
    gather_parent,
    innermost_calls,
    instants_in,
    memory_instants,
    names_of_modules,
)
from kinetoscope.model.memory.block_categories import block_categories
from kinetoscope.model.memory.blocks import block_keys, charged_calls, grouped, memory_blocks
from kinetoscope.model.memory.categories import CATEGORIES, UNKNOWN
from kinetoscope.model.memory.category_series import CategorySeries
from kinetoscope.model.memory.record import CategoryLevels, GroupBy, OwnedBlocks, Source, highest, parts
from kinetoscope.model.memory.windows import MemoryWindows, changes_in
from kinetoscope.model.operators.call_stacks import call_stacks
from kinetoscope.model.steps.scope import Scope, origin_of_time
from kinetoscope.model.trace import arguments, polars_columns
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace

_NAME_OF_EARLIER: Final = "[before the recording]"
_NAME_WITHOUT_ADDRESS: Final = "[without address]"


@dataclass(frozen=True)
class TraceRecord:
    """A device of `memory_instants`; its changes are those instants, in order of time.

    Attributes:
        trace: the trace.
        place: which of `Instants.devices`.
    """

    trace: Trace
    place: int
    source: Source = "trace"

    @cached_property
    def _instants(self) -> Instants:
        return memory_instants(self.trace)

    @cached_property
    def _here(self) -> Int64s:
        """Places of the changes in `memory_instants`."""
        return self._instants.of_device(self.place)

    @cached_property
    def _blocks(self) -> Int64s:
        """The blocks of the device, as rows of `memory_blocks`."""
        return np.flatnonzero(self._instants.device[memory_blocks(self.trace).shown_at] == self.place)

    @property
    def device(self) -> str:
        return self._instants.device_name(self.place)

    @property
    def time(self) -> Int64s:
        return self._instants.time[self._here]

    @property
    def change(self) -> Int64s:
        return self._instants.size[self._here]

    @cached_property
    def in_use(self) -> Int64s:
        return np.concatenate([[self._instants.before(int(self._here[0]))], self._instants.allocated[self._here]])

    def levels(self) -> dict[str, Int64s]:
        reserved = np.concatenate([[NO_PLACE], self._instants.reserved[self._here]])
        return {"allocated": self.in_use, "reserved": reserved}

    def selected(self, view: Scope) -> Int64s:
        return np.flatnonzero(instants_in(view)[self._here])

    def instants(self, places: Int32s | Int64s) -> pl.Series:
        return polars_columns.column(self.time[places] - origin_of_time(self.trace))

    @cached_property
    def allocated_at(self) -> Int32s:
        return self._local(memory_blocks(self.trace).allocated_at)

    @cached_property
    def freed_at(self) -> Int32s:
        return self._local(memory_blocks(self.trace).freed_at)

    def _local(self, places: Int32s) -> Int32s:
        """Places of changes, of places in `memory_instants` for all blocks."""
        ours = places[self._blocks]
        return np.where(ours >= 0, np.searchsorted(self._here, ours), NO_PLACE).astype(np.int32)

    @property
    def size(self) -> Int64s:
        return memory_blocks(self.trace).size[self._blocks]

    @property
    def requested(self) -> Int64s:
        return self.size

    @property
    def category(self) -> Int8s:
        return block_categories(self.trace)[self._blocks]

    def active(self, place: int) -> Bools:
        instant = int(self._here[place]) if place >= 0 else NO_PLACE
        return memory_blocks(self.trace).active_after(instant)[self._blocks]

    def callers(self, blocks: Int64s) -> dict[str, pl.Series]:
        trace, every = self.trace, memory_blocks(self.trace)
        allocated_at, shown = every.allocated_at[self._blocks[blocks]], every.shown_at[self._blocks[blocks]]
        row = gather_parent(innermost_calls(trace), allocated_at)
        op = gather_parent(enclosing_op(trace), row)
        nested = calls(trace, EventKind.PYTHON, EventKind.RUNTIME)
        return {
            "operator": names_of_calls(trace, op),
            "parent": names_of_calls(trace, gather_parent(nested.parent, gather_parent(nested.around, op))),
            "thread": polars_columns.rows(trace.tracks.integer_tids()[trace.track[self._instants.rows[shown]]]),
            "module": names_of_modules(trace, gather_parent(enclosing_module(trace), row)),
            "python": names_of_calls(trace, gather_parent(enclosing_frame(trace), row)),
        }

    def owners(self, place: int, by: GroupBy) -> pl.DataFrame:
        """Rows that sum to what the allocator says."""
        trace, active = self.trace, np.flatnonzero(self.active(place))
        allocated_at = memory_blocks(trace).allocated_at[self._blocks[active]]
        owner, frame = grouped(trace, allocated_at)
        category, inputs = self.category[active], _inputs(trace, allocated_at, by)
        place_of, texts = _places(trace, allocated_at, by)
        codes, first = group(owner, category, *inputs, place_of)
        shapes, types = (each[first] for each in inputs)
        size = sum_by(codes, len(first), self.size[active])
        frame = frame[owner[first]].with_columns(
            modules=pl.lit(None, pl.Int64),
            input_shapes=polars_columns.json_texts(trace.strings, shapes),
            input_types=polars_columns.json_texts(trace.strings, types),
            place=polars_columns.labelled(place_of[first], texts.__getitem__).cast(pl.String).replace("", None),
            use=pl.Series([CATEGORIES[each] for each in category[first].tolist()], dtype=pl.String),
            blocks=pl.Series(np.bincount(codes, minlength=len(first)), dtype=pl.Int64),
            size=pl.Series(size, dtype=pl.Int64),
        )
        if by == "class":
            frame = _by_class(frame)
        elif by in ("use", "module", "line", "stack"):
            frame = _by_owner(frame, by)
        else:
            frame = frame.drop("place")
        past = self._here[: place + 1]
        unpaired = self._instants.size[past[block_keys(trace)[past] < 0]]
        before = np.concatenate([self.in_use[place + 1 : place + 2], -size, -unpaired]).sum()
        rest = [(_NAME_WITHOUT_ADDRESS, "unpaired", int(unpaired.sum())), (_NAME_OF_EARLIER, "before", int(before))]
        rows = [(name, kind, CATEGORIES[UNKNOWN], size) for name, kind, size in rest if size]
        columns = {"name": pl.String, "kind": pl.String, "use": pl.String, "size": pl.Int64}
        return pl.concat([frame, pl.DataFrame(rows, schema=columns, orient="row")], how="diagonal")

    def by_category(self, chosen: Int64s, points: int) -> CategoryLevels:
        """Bytes without a block are unknown."""
        at = chosen[highest(self.in_use[chosen + 1], parts(self.time[chosen], points))]
        levels = np.zeros((len(at), len(CATEGORIES)), np.int64)
        ended_at = self._local(memory_blocks(self.trace).ended_at)
        known = self.allocated_at >= 0
        for category in np.unique(self.category[known & (self.category != UNKNOWN)]).tolist():
            rows = known & (self.category == category)
            ended = rows & (ended_at >= 0)
            levels[:, category] = _sums_until(self.allocated_at[rows], self.size[rows], at)
            levels[:, category] -= _sums_until(ended_at[ended], self.size[ended], at)
        levels[:, UNKNOWN] = self.in_use[at + 1] - levels[:, :UNKNOWN].sum(axis=1)
        return CategoryLevels(at, levels)

    def windows(self, view: Scope) -> MemoryWindows:
        start, end = (np.searchsorted(self.time, each) for each in (view.steps.host.start, view.steps.host.end))
        return MemoryWindows(view.places, start, end, view.steps.note)

    def carried_over(self, windows: MemoryWindows) -> Int64s:
        return self.in_use[windows.end]

    def step_allocations(self, windows: MemoryWindows) -> None:
        """Calls are too coarse: one takes what stays and what does not."""

    def persistent(self, blocks: Int64s, windows: MemoryWindows) -> OwnedBlocks:  # noqa: ARG002
        return OwnedBlocks(*grouped(self.trace, memory_blocks(self.trace).allocated_at[self._blocks[blocks]]))


@dataclass(frozen=True)
class SeriesRecord:
    """The series of a memory timeline file; its changes are the instants of the file."""

    trace: Trace
    series: CategorySeries
    source: Source = "timeline file"
    device: None = None

    @property
    def time(self) -> Int64s:
        return self.series.time - self.trace.base

    def selected(self, view: Scope) -> Int64s:
        return np.flatnonzero(changes_in(view, self.time))

    def instants(self, places: Int32s | Int64s) -> pl.Series:
        return polars_columns.column(self.time[places] - origin_of_time(self.trace))

    def by_category(self, chosen: Int64s, points: int) -> CategoryLevels:
        levels = self.series.levels[chosen]
        at = highest(levels.sum(axis=1), parts(self.time[chosen], points))
        return CategoryLevels(chosen[at], levels[at])


# --- owners


def _inputs(trace: Trace, place: Int32s, group_by: GroupBy) -> tuple[Int64s, Int64s]:
    """Shapes and types of the inputs of operators that allocated, codes: int64 [blocks], −1 where not asked for."""
    nothing = np.full(len(place), -1, np.int64)
    if group_by != "shapes" or not len(trace):
        return nothing, nothing
    call = charged_calls(trace)[place]
    shapes, types = (arguments.codes(trace, name, call) for name in ("input_dims", "input_types"))
    known = (call >= 0) & (place >= 0)
    return np.where(known, shapes, -1), np.where(known, types, -1)


def _places(trace: Trace, allocated_at: Int32s, group_by: GroupBy) -> tuple[Int32s, Sequence[str]]:
    """The line or stack that allocated each block, −1 where it was not asked for or recorded, and their texts."""
    if group_by not in ("line", "stack"):
        return np.full(len(allocated_at), -1, np.int32), ()
    call = innermost_calls(trace)[allocated_at] if len(trace) else allocated_at
    stacks = call_stacks(trace, python=True, in_forward=True)
    code = np.where((allocated_at >= 0) & (call >= 0), stacks.code[call], np.int32(-1)) if len(trace) else allocated_at
    if group_by == "stack":
        return code, stacks.texts
    lines = [f"{PurePosixPath(file).name}:{line}" if file else "" for file, line, _ in map(user_source, stacks.texts)]
    numbers = {text: number for number, text in enumerate(dict.fromkeys(lines))}
    of_stack = np.array([*(numbers[text] for text in lines), -1], np.int32)
    return of_stack[code], list(numbers)


def _by_owner(frame: pl.DataFrame, owner: GroupBy) -> pl.DataFrame:
    """Rows of one use, and of one module, line or stack, in one; what has none stands under its call."""
    of = pl.col("place" if owner in ("line", "stack") else owner)
    name, kind = pl.coalesce(of, "name"), pl.when(of.is_null()).then("kind").otherwise(pl.lit(owner))
    if owner == "stack":
        name, kind = pl.col("name"), pl.col("kind")
    sums = frame.with_columns(name=name, kind=kind, **({owner: of} if owner in ("line", "stack") else {}))
    keys = dict.fromkeys(("name", "kind", "use", owner))
    return sums.group_by(*keys, maintain_order=True).agg(pl.col("blocks", "size").sum())


def _by_class(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of modules of one class, and of one use, in one; torch numbers those of a class: `Linear_0`, `Linear_1`."""
    of_class = pl.col("module").str.replace(r"_\d+$", "")
    named = frame.with_columns(
        name=pl.coalesce(of_class, "name"),
        kind=pl.when(pl.col("module").is_null()).then("kind").otherwise(pl.lit("module")),
        of=of_class,
    )
    sums = named.group_by("name", "kind", "of", "use", maintain_order=True).agg(
        pl.col("blocks", "size").sum(), modules=pl.col("module").drop_nulls().n_unique().cast(pl.Int64)
    )
    known = pl.when(pl.col("module").is_not_null()).then("modules")
    unknown = pl.lit(None, pl.String)
    return sums.rename({"of": "module"}).with_columns(modules=known, input_shapes=unknown, input_types=unknown)


def _sums_until(places: Int32s, sizes: Int64s, at: Int64s) -> Int64s:
    """The sum of the sizes whose places are not behind each of `at`."""
    order = np.argsort(places, kind="stable")
    sums = np.concatenate([[0], np.cumsum(sizes[order])]).astype(np.int64)
    return sums[np.searchsorted(places[order], at, side="right")]
