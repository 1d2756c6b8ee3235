"""Tables of a rank's memory snapshot: segments, their blocks, allocations, and the allocator's own events."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.model.memory.categories import CATEGORIES
from kinetoscope.model.snapshot.of_trace import snapshot_of
from kinetoscope.model.snapshot.owners import EVIDENCE, owners
from kinetoscope.model.snapshot.replay import SnapshotHistory, histories
from kinetoscope.model.snapshot.sites import StackSites, stack_sites
from kinetoscope.model.snapshot.snapshot import ACTIONS, NONE, STATES, Snapshot
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace

Values = dict[str, NDArray[Any] | pl.Series]


def segment_rows(trace: Trace) -> Int32s:
    """A row for each segment that the allocators had reserved when the snapshot was taken."""
    snapshot = snapshot_of(trace)
    return np.arange(0 if snapshot is None else len(snapshot.segments), dtype=np.int32)


def segments(trace: Trace, rows: Int32s) -> Values:
    """The columns of `segments`."""
    sites = stack_sites(trace)
    snapshot, held = sites.snapshot, sites.snapshot.segments
    return {
        "segment": rows,
        "device": held.device.astype(np.int64),
        "address": held.address,
        "size": held.size,
        "allocated": held.allocated,
        "active": held.active,
        "requested": polars_columns.rows(held.requested),
        "stream": held.stream,
        "is_small": held.is_small,
        "is_expandable": held.is_expandable,
        "pool": _pools(snapshot, held.pool),
        **_sites(sites, held.stack),
    }


def block_rows(trace: Trace) -> Int32s:
    """A row for each block of these segments, holes too."""
    snapshot = snapshot_of(trace)
    return np.arange(0 if snapshot is None else len(snapshot.blocks), dtype=np.int32)


def blocks(trace: Trace, rows: Int32s) -> Values:
    """The columns of `blocks`."""
    del rows
    sites = stack_sites(trace)
    held, own = sites.snapshot.segments, sites.snapshot.blocks
    segment = np.repeat(np.arange(len(held), dtype=np.int32), np.diff(held.first_block))
    return {
        "segment": segment,
        "device": held.device[segment].astype(np.int64),
        "address": own.address,
        "size": own.size,
        "requested": own.requested,
        "state": polars_columns.labelled(own.state, STATES.__getitem__),
        **_sites(sites, own.stack),
    }


def allocation_rows(trace: Trace) -> Int32s:
    """A row for each allocation of each device, those from before the history first."""
    return np.arange(sum(map(len, histories(trace))), dtype=np.int32)


def allocations(trace: Trace, rows: Int32s) -> Values:
    """The columns of `allocations`."""
    del rows
    sites, pasts = stack_sites(trace), histories(trace)
    known = [owners(trace, past.device) for past in pasts]
    return {
        "device": np.repeat([past.device for past in pasts], [len(past) for past in pasts]),
        **{name: _joined(pasts, name) for name in ("address", "requested", "size", "stream")},
        "pool": _pools(sites.snapshot, _joined(pasts, "pool")),
        **{name: _times(trace, pasts, name) for name in ("allocated_at", "free_requested_at", "freed_at")},
        "category": polars_columns.labelled(np.concatenate([each.category for each in known]), CATEGORIES.__getitem__),
        "evidence": polars_columns.labelled(np.concatenate([each.evidence for each in known]), EVIDENCE.__getitem__),
        **_sites(sites, _joined(pasts, "stack")),
    }


def event_rows(trace: Trace) -> Int32s:
    """A row for each event of the allocators' histories."""
    return np.arange(sum(len(past.events) for past in histories(trace)), dtype=np.int32)


def events(trace: Trace, rows: Int32s) -> Values:
    """The columns of `allocator_events`."""
    del rows
    sites, pasts = stack_sites(trace), histories(trace)
    own = [past.events for past in pasts]
    action, stack, time, metadata, context, pool = (
        _joined(own, name) for name in ("action", "stack", "time", "metadata", "compile_context", "pool")
    )
    strings = sites.snapshot.strings
    return {
        "device": np.repeat([past.device for past in pasts], [len(each) for each in own]),
        "action": polars_columns.labelled(action, ACTIONS.__getitem__),
        "time": polars_columns.column(time - trace.base, time != NONE),
        **{name: _joined(own, name) for name in ("address", "size", "stream")},
        "pool": _pools(sites.snapshot, pool),
        "metadata": polars_columns.texts(strings, metadata),
        "compile_context": polars_columns.texts(strings, context),
        **_sites(sites, stack),
    }


def _joined(parts: list[Any], name: str) -> NDArray[Any]:
    return np.concatenate([getattr(part, name) for part in parts])


def _times(trace: Trace, pasts: list[SnapshotHistory], name: str) -> pl.Series:
    """When events were, as the file counts time; null for no event, and where times were not recorded."""
    parts = [np.append(past.events.time, NONE)[getattr(past, name)] for past in pasts]
    time: Int64s = np.concatenate(parts)
    return polars_columns.column(time - trace.base, time != NONE)


def _pools(snapshot: Snapshot, pool: Int32s) -> pl.Series:
    """`(1, 0)`, as torch writes the pool's name."""
    return polars_columns.labelled(pool, lambda code: str(snapshot.pools[code]))


def _sites(sites: StackSites, stack: Int32s) -> Values:
    """Places that allocated the memory: the user's line, and the stack, the outermost first; null where unknown."""
    return {
        "line": polars_columns.labelled(np.where(sites.user[stack] >= 0, stack, np.int32(NONE)), sites.line),
        "stack": polars_columns.labelled(stack, sites.folded),
    }
