"""What the allocator has reserved and nobody uses, why, and which allocations keep it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.algorithms.layout.bands import highest_places
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.memory.categories import CATEGORIES
from kinetoscope.model.memory.record import MemoryRecord
from kinetoscope.model.memory_records.of_snapshot import SnapshotRecord
from kinetoscope.model.memory_records.records import memory_records
from kinetoscope.model.snapshot.fragmentation import default_pools
from kinetoscope.model.snapshot.heap import Heap, heap, releasable_bytes
from kinetoscope.model.snapshot.of_trace import memory_scope, notes_of_snapshot, snapshot_of
from kinetoscope.model.snapshot.replay import SnapshotHistory
from kinetoscope.model.snapshot.snapshot import NONE, Snapshot
from kinetoscope.model.snapshot.windows import history_not_selected
from kinetoscope.model.steps.scope import Scope, origin_of_time
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.recording import not_recorded
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Schema

By = Literal["pool", "segment", "time"]

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.String, "Whose memory, as torch names it, such as cuda:0."),
    Column("time", pl.Int64, "The instant, from the first event of the trace on.", "ns", instant=True),
    Column("pool", pl.String, "default, or the numbers of a private pool, of CUDA graphs or a MemPool."),
    Column("stream", pl.Int64, "Pointer of the CUDA stream; 0 is the default one."),
    Column("requests", pl.String, "small: of up to 1 MiB; large."),
    Column("address", pl.Int64, "By segment: where it begins."),
    Column("segments", pl.Int64, "How many segments; an expandable one for each stretch that is mapped."),
    Column("reserved", pl.Int64, "Bytes reserved on the device.", "bytes"),
    Column("allocated", pl.Int64, "Bytes in use, as rounded.", "bytes"),
    Column("requested", pl.Int64, "Bytes in use, as requested.", "bytes"),
    Column("internal_loss", pl.Int64, "Bytes lost to rounding: allocated − requested.", "bytes"),
    Column("pending", pl.Int64, "Bytes freed that wait for another stream or the end of a capture.", "bytes"),
    Column("inactive_split", pl.Int64, "Unused bytes of segments of which something is in use.", "bytes"),
    Column("releasable", pl.Int64, "Bytes of segments of which nothing is in use: empty_cache frees them.", "bytes"),
    Column("private", pl.Int64, "Unused bytes of private pools: graphs hold them, and replays write them.", "bytes"),
    Column("largest_free", pl.Int64, "The largest free block: no larger request fits.", "bytes"),
    Column("blocks", pl.Int64, "How many allocations are in use."),
    Column("holes", pl.Int64, "How many free blocks."),
    Column("pin", pl.String, "By segment: line of the program of the allocation in use that stays longest."),
    Column("pin_size", pl.Int64, "Bytes of that allocation.", "bytes"),
    Column("pin_use", pl.String, "What it is for, as in `memory_peak`."),
    Column("source", pl.String, "snapshot, or trace: Kineto's records."),
    across={
        "device": "device",
        "own": "time stream address largest_free pin_size",
        "sum": "segments reserved allocated requested internal_loss pending inactive_split releasable private blocks"
        " holes",
    },
)

_POINTS: Final = 1000
"""Instants of the answer by time."""

_UNTOLD: Final = Note(
    "SNAPSHOT_SAYS_MORE",
    "Kineto's records say how much is reserved and in use; a memory snapshot says why the rest is not used.",
)

_COLUMNS: Final = RESULT.without("rank", "device", "time", "source").types


def memory_fragmentation(
    trace: Trace,
    select: Selection,
    *,
    by: Annotated[
        By,
        Param(
            "pool: a row for each pool, stream and size class; segment: for each segment, with what keeps it; time: the"
            " levels over time."
        ),
    ] = "pool",
    at: Annotated[
        int | None,
        Param("Time to look at instead of the last instant, from the beginning of the trace.", "ns", least=0),
    ] = None,
) -> Partial:
    """How much of the reserved memory is not in use, why, and what keeps it?

    Method. The state of the allocator at the last instant selected (without a selection: when the snapshot was taken)
    follows from undoing the history. What is reserved divides into what is in use, as requested (`requested`); what
    rounding added (`internal_loss`); what waits for another stream (`pending`); and free blocks. Those of private pools
    are `private`; those of segments, or granules of expandable segments, of which nothing is in use are `releasable`;
    all others are `inactive_split`. By time, 1,000 instants stand for all: in each of as many stretches of events the
    one at which most is reserved and not in use.

    How to read it. Much `inactive_split` is fragmentation: small allocations that stay in large segments. By segment,
    those with most of it come first, each with the allocation in use that stays longest (of those that stay as long,
    the smallest): free it, allocate it elsewhere, or allocate it before. Much `releasable` is a cache after a peak;
    much `private` is in CUDA graphs. `internal_loss` follows from sizes and `roundup_power2_divisions`. A request that
    is larger than `largest_free` of its pool, stream and size class needs a new segment.

    Limits. torch's `inactive_split_bytes` leaves out expandable segments. Blocks that are gone when the snapshot is
    taken are known up to the rest that was not split off, at most 1 MiB. Without a snapshot only the levels `reserved`
    and `allocated` are known, from Kineto's records. Steps and time choose instants, devices whose memory it is; all
    else chooses nothing.
    """
    view = memory_scope(trace, select)
    frames, notes = [RESULT.per_rank.empty()], list(notes_of_snapshot(trace))
    records = memory_records(view, select.devices)
    for record in records:
        levels = record.levels()
        chosen = _chosen(record, view, at)
        chosen = chosen[levels["reserved"][chosen + 1] >= 0]
        if not len(chosen):
            if record.source == "snapshot":
                notes.append(history_not_selected(str(record.device)))
            continue
        if by == "time":
            chosen = chosen[highest_places((levels["reserved"] - record.in_use)[chosen + 1], _POINTS)]
            frame = _at_places(record, chosen)
        elif isinstance(record, SnapshotRecord):
            frame = _at_instant(trace, record, int(chosen[-1]), by)
        else:
            frame = _at_places(record, chosen[-1:])
        frames.append(
            polars_columns.fitted(
                frame.with_columns(device=pl.lit(record.device), source=pl.lit(record.source)), RESULT.per_rank.types
            )
        )
    if any(frame.get_column("source")[0] == "trace" for frame in frames if len(frame)):
        notes.append(_UNTOLD)
    elif snapshot_of(trace) is None:
        notes.append(not_recorded("memory"))
    return Partial(pl.concat(frames), tuple(notes))


ANALYSIS = Analysis(
    "Memory fragmentation",
    memory_fragmentation,
    RESULT,
    chart=Bars("pool", "inactive_split"),
    of_device_work=False,
    of_calls=False,
    selection_notes="never",
)


def _chosen(record: MemoryRecord, view: Scope, at: int | None) -> Int64s:
    """Changes that are selected, −1 among them where the beginning is."""
    whole = view.select.steps is None and view.clip is None
    chosen = np.arange(-1, len(record.time)) if whole else record.selected(view)
    if at is None:
        return chosen
    return np.array([np.searchsorted(record.time, origin_of_time(view.trace) + at, side="right") - 1], np.int64)


def _at_places(record: MemoryRecord, places: Int64s) -> pl.DataFrame:
    """The levels after some changes, as far as they are known."""
    columns = {name: values[places + 1] for name, values in record.levels().items()}
    return pl.DataFrame({"time": record.instants(places), **columns})


# --- at an instant


def _at_instant(trace: Trace, record: SnapshotRecord, event: int, by: By) -> pl.DataFrame:
    snapshot, past, state = record.sites.snapshot, record.past, heap(trace, record.past.device, event)
    assert state is not None  # there is a history
    frame = _segments(snapshot, past, state).with_columns(
        time=record.instants(np.full(len(state.segments), event, np.int64))
    )
    if by == "segment":
        frame = frame.with_columns(**_pins(record, state))
        unused = pl.sum_horizontal("inactive_split", "private", "releasable")
        return frame.sort(unused, "address", descending=[True, False])
    sums = [name for name in _SUMS if name in frame.columns]
    key = ["pool", "stream", "requests"]
    whole = frame.group_by(key, maintain_order=True).agg(
        pl.col("time").first(), pl.col("largest_free").max(), pl.col(sums).sum()
    )
    return whole.sort("reserved", *key, descending=[True, False, False, False])


_SUMS: Final = tuple(column.name for column in RESULT if column.across == "sum")


def _segments(snapshot: Snapshot, past: SnapshotHistory, state: Heap) -> pl.DataFrame:
    """A row for each segment, in order of address."""
    segments, hole, pending = state.segments, state.is_hole, state.is_pending
    used = ~hole & ~pending
    free = state.bytes_of(hole)
    private = ~np.isin(segments.pool, default_pools(snapshot))
    requested = np.where(used, past.requested[state.allocation] if len(past) else 0, 0)
    allocated, waiting = state.bytes_of(used), state.bytes_of(pending)
    requested = sum_by(state.segment, len(segments), requested)
    releasable = np.where(private, 0, releasable_bytes(state))
    largest = np.zeros(len(segments), np.int64)
    np.maximum.at(largest, state.segment[hole], state.size[hole])
    return pl.DataFrame(
        {
            "pool": [pool_name(snapshot, pool) for pool in segments.pool.tolist()],
            "stream": segments.stream,
            "requests": np.where(segments.is_small, "small", "large"),
            "address": segments.address,
            "segments": np.ones(len(segments), np.int64),
            "reserved": segments.size,
            "allocated": allocated,
            "requested": requested,
            "internal_loss": allocated - requested,
            "pending": waiting,
            "inactive_split": np.where(private, 0, free - releasable),
            "releasable": releasable,
            "private": np.where(private, free, 0),
            "largest_free": largest,
            "blocks": np.bincount(state.segment[~hole], minlength=len(segments)),
            "holes": np.bincount(state.segment[hole], minlength=len(segments)),
        },
        schema_overrides={"pool": pl.String, "requests": pl.String},
    )


def pool_name(snapshot: Snapshot, pool: int) -> str:
    """`default`, or the numbers of a private pool."""
    return "default" if pool in default_pools(snapshot) else ",".join(map(str, snapshot.pools[pool]))


def _pins(record: SnapshotRecord, state: Heap) -> dict[str, pl.Series]:
    """Of each segment the allocation in use that stays longest, and of those the smallest."""
    past, sites = record.past, record.sites
    pieces = np.flatnonzero(~state.is_hole)
    rows = state.allocation[pieces]
    until = np.where(past.freed_at[rows] == NONE, len(past.events), past.freed_at[rows])
    pieces = pieces[np.lexsort((state.size[pieces], -until, state.segment[pieces]))]
    _, first = group(state.segment[pieces])
    row = np.full(len(state.segments), NONE)
    row[state.segment[pieces[first]]] = state.allocation[pieces[first]]
    stacks = [int(past.stack[each]) if each != NONE else None for each in row.tolist()]
    lines = [None if stack is None else sites.line(stack) or "[no line]" for stack in stacks]
    uses = [None if each == NONE else CATEGORIES[int(record.category[each])] for each in row.tolist()]
    return {
        "pin": pl.Series("pin", lines, dtype=pl.String),
        "pin_size": polars_columns.column(past.size[row] if len(past) else row, row != NONE),
        "pin_use": pl.Series("pin_use", uses, dtype=pl.String),
    }
