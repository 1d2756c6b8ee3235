"""Blocks of memory that an allocator allocated at one instant and freed at another, and the call of each.

An address names a block of a device as long as nothing else is allocated there. A block that was allocated before
the recording is known only if it is freed in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import NO_PLACE, Bools, Int32s, Int64s, next_of_same
from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.call_tree import enclosing_module
from kinetoscope.model.execution.calls import call_names, calls, names_of_calls
from kinetoscope.model.memory.allocator import (
    CALL_KINDS,
    IN_NO_CALL,
    address_keys,
    gather_parent,
    innermost_calls,
    memory_instants,
    names_of_modules,
)
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import MEMORY_NAME, EventKind
from kinetoscope.model.trace.names import rows_beginning
from kinetoscope.model.trace.trace import Trace

_EMPTY_OPERATORS: Final = "aten::empty"
"""Beginning of the names of operators that only allocate memory, for the operator around them."""


@dataclass(frozen=True)
class MemoryBlocks:
    """Blocks of memory, in order of their first recorded instant; places are those of `memory_instants`.

    Attributes:
        allocated_at: int32 [blocks], place where it was allocated, −1 if before the recording.
        freed_at: int32 [blocks], place where it was freed, −1 if that was not recorded.
        ended_at: int32 [blocks], place from which on it was freed for certain: where that was recorded, else where its
            address is allocated again; −1 for none.
        size: int64 [blocks], bytes.
        addressless: how many instants have no address, and are part of no block.
    """

    allocated_at: Int32s
    freed_at: Int32s
    ended_at: Int32s
    size: Int64s
    addressless: int

    def __len__(self) -> int:
        return len(self.size)

    @property
    def shown_at(self) -> Int32s:
        """Place of the instant that shows each: where it was allocated, else where it was freed."""
        return np.where(self.allocated_at >= 0, self.allocated_at, self.freed_at)

    def active_after(self, place: int) -> Bools:
        """Blocks that are known to be in use after an instant: bool [blocks]."""
        return (self.allocated_at >= 0) & (self.allocated_at <= place) & ((self.ended_at < 0) | (self.ended_at > place))


@derived
def memory_blocks(trace: Trace) -> MemoryBlocks:
    """Pair what was allocated with what was freed, by device and address."""
    instants = memory_instants(trace)
    keys = block_keys(trace)
    following = next_of_same(keys)
    is_allocated = (instants.size > 0) & (keys >= 0)
    is_freed = (instants.size < 0) & (keys >= 0)
    allocated_at = np.flatnonzero(is_allocated).astype(np.int32)
    ended_at = following[allocated_at]
    freed_at = np.where((ended_at >= 0) & (instants.size[ended_at] < 0), ended_at, np.int32(NO_PLACE))
    is_freed[freed_at[freed_at >= 0]] = False
    strays = np.flatnonzero(is_freed).astype(np.int32)
    unknown = np.full(len(strays), NO_PLACE, np.int32)
    first = np.concatenate([allocated_at, strays])
    order = np.argsort(first, kind="stable")
    return MemoryBlocks(
        allocated_at=np.concatenate([allocated_at, unknown])[order],
        freed_at=np.concatenate([freed_at, strays])[order],
        ended_at=np.concatenate([ended_at, strays])[order],
        size=np.abs(instants.size[first])[order],
        addressless=int(((keys < 0) & (instants.size != 0)).sum()),
    )


@derived
def block_keys(trace: Trace) -> Int32s:
    """A number for each device and address: int32 [instants], −1 where there is no address or nothing changed."""
    instants = memory_instants(trace)
    address = address_keys(trace, instants.rows)
    keys, _ = group(instants.device, address)
    return np.where((address >= 0) & (instants.size != 0), keys, np.int32(NO_PLACE))


@derived
def charged_calls(trace: Trace) -> Int32s:
    """The call that each instant is charged to: int32 [instants], rows, −1 for none.

    The innermost operator or annotation on its thread; of `aten::empty` and its like the operator around them.
    """
    shown = calls(trace, EventKind.PYTHON, EventKind.RUNTIME)
    is_empty = rows_beginning(trace, (_EMPTY_OPERATORS,), EventKind.HOST_OP)
    is_empty &= (shown.parent >= 0) & (trace.kind[shown.parent] == EventKind.HOST_OP)
    return gather_parent(ancestor(shown.parent, ~is_empty), gather_parent(shown.around, innermost_calls(trace)))


@derived
def charged_modules(trace: Trace) -> Int32s:
    """The call of a module's forward that each instant lies in: int32 [instants], rows, −1 for none."""
    return gather_parent(enclosing_module(trace), innermost_calls(trace))


def grouped(trace: Trace, places: NDArray[Any]) -> tuple[Int32s, pl.DataFrame]:
    """Instants by what allocated the memory: the group of each, and a row a group with `name`, `kind` and `module`.

    In no call, the name is `[memory]` and so is the kind; in no module, that is null.
    """
    own, module = charged_calls(trace)[places], charged_modules(trace)[places]
    codes, first = group(
        gather_parent(call_names(trace), own), gather_parent(trace.kind, own), gather_parent(trace.name, module)
    )
    kinds = [CALL_KINDS.get(kind, IN_NO_CALL) for kind in gather_parent(trace.kind, own[first]).tolist()]
    frame = pl.DataFrame(
        {
            "name": names_of_calls(trace, own[first]).cast(pl.String).fill_null(MEMORY_NAME),
            "kind": pl.Series(kinds, dtype=pl.String),
            "module": names_of_modules(trace, module[first]).cast(pl.String),
        }
    )
    return codes, frame
