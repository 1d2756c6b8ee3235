"""Collectives and point-to-point operations of one rank: one row each, with all that its records hold.

NCCL and its kin: the work on the device, with the arguments of the call on the host (`record_param_comms`,
`nccl:all_reduce`, `c10d::…`) where the work itself has none, as before 2024. gloo and other libraries of the host:
their spans there. Calls whose work was not recorded are no rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, union
from kinetoscope.model.answer import Partial
from kinetoscope.model.collectives.attributes import GATHERS, KINDS, MAX_ELEMENTS, POINT_TO_POINT, kind_named, size_of
from kinetoscope.model.collectives.batches import CallBatches, joined_calls
from kinetoscope.model.collectives.group_of_call import group_columns
from kinetoscope.model.collectives.host_records import Records, on_device, on_host
from kinetoscope.model.collectives.links import link_columns
from kinetoscope.model.collectives.payload import input_types, shaped_elements, types
from kinetoscope.model.collectives.process_groups import host_of
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import RANGE_KINDS, is_collective_range
from kinetoscope.model.graphs.replays import is_replayed
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import Steps, step_of, steps
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import COMMUNICATION_RECORD, EventKind, WorkKind
from kinetoscope.model.trace.names import rows_beginning
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Schema

CALLS: Final = Schema(
    Column("row", pl.Int64, "Row of the work on the device, or of the span on the host."),
    Column("launch", pl.Int64, "Row of the call of the runtime that launched it; null if that was not recorded."),
    Column("on_host", pl.Boolean, "Is it a span of a library that works on the host, such as gloo?"),
    Column("kind", pl.String, "all_reduce, all_gather, reduce_scatter, …; other if unknown."),
    Column("name", pl.String, "Name of the work or of the span."),
    Column("group", pl.String, "The process group: name, description and ranks; null if unknown."),
    Column("group_name", pl.String, "Name of the process group."),
    Column("group_description", pl.String, "What the process group is for, in words."),
    Column("group_size", pl.Int64, "Ranks in the process group."),
    Column("group_ranks", pl.String, "The ranks of the process group, as runs: 0-7, or 0-56/8 for every eighth."),
    Column(
        "candidates",
        pl.String,
        "Groups that it may be of, one a line, as `ProcessGroup.written` has them, where its records do not say which.",
    ),
    Column("world", pl.Int64, "Ranks of the job."),
    Column("seq", pl.Int64, "Number of the collective in its process group."),
    Column("source_rank", pl.Int64, "Rank that sends, of point-to-point work."),
    Column("destination_rank", pl.Int64, "Rank that receives, of point-to-point work."),
    Column("dtype", pl.String, "Type of the elements, as torch names it."),
    Column("elements_in", pl.Int64, "Elements that this rank puts in."),
    Column("elements_out", pl.Int64, "Elements that this rank gets out."),
    Column("bytes", pl.Int64, "Size as nccl-tests counts it.", "bytes"),
    Column("link", pl.String, "What it passes: device (links within a machine) or network; null on the host."),
    Column("link_bandwidth", pl.Float64, "Peak of that link in one direction; null where it is unknown.", "bytes/s"),
    Column("device", pl.Int64, "Device that it ran on; null on the host."),
    Column("stream", pl.Int64, "Stream that it ran on; null on the host."),
    Column("step", pl.Int64, "Step that it was launched in; null outside of steps."),
    Column(
        "profiler_step",
        pl.Int64,
        "Number of the step as `ProfilerStep#N` has it: every rank counts alike; null where nothing is marked so.",
    ),
    Column("start", pl.Int64, "When it began, since 1970 as this rank's machine counts.", "ns", instant=True),
    Column("end", pl.Int64, "When it ended, since 1970 as this rank's machine counts.", "ns", instant=True),
    Column("exposed", pl.Int64, "Part of it that no computation of the rank covers.", "ns"),
)
"""Columns of `collective_calls`."""

_NO_CODE: Final = -1
_KIND: Final = {kind: place for place, kind in enumerate(KINDS)}


@derived
def collective_calls(trace: Trace, steps_by: str | None = None) -> pl.DataFrame:
    """The collectives of a rank, by start: rows of `CALLS`.

    Several pieces of device work of one call are one row, from the first's start to the last's end.
    """
    parts = [
        _described(trace, steps_by, records, of_host=find is on_host)
        for find in (on_device, on_host)
        if (records := find(trace)) is not None
    ]
    return CALLS.conform(pl.concat(parts).sort("start", "end", "row")) if parts else CALLS.empty()


def selected_calls(view: Scope) -> pl.DataFrame:
    """The selected calls: of a range of time the ones that start in it; nothing is clipped."""
    calls = collective_calls(view.trace, view.select.steps_by)
    kept = view.host_mask_untimed.copy()
    kept[view.device_work.rows] = view.device_work_mask
    frame = calls.filter(pl.Series(kept[calls["row"].to_numpy()], dtype=pl.Boolean))
    if view.clip is None:
        return frame
    low, high = (each + base_of(view.trace) for each in view.clip)
    return frame.filter((pl.col("start") >= low) & (pl.col("start") < high))


def selected_steps(view: Scope) -> pl.DataFrame:
    """The selected steps of the device: row, step, start and end on the clock of the calls."""
    windows = view.clipped(view.steps.device.start, view.steps.device.end)
    base = base_of(view.trace)
    row = np.arange(len(view.steps))
    columns = {"row": row, "step": view.steps.number, "start": windows.start + base, "end": windows.end + base}
    return pl.DataFrame(columns, schema_overrides={"row": pl.Int64})


def with_source(frame: pl.DataFrame, trace: Trace) -> pl.DataFrame:
    """The rows of a trace with the rank, machine and cycle that identify a rank."""
    return frame.with_columns(
        rank=pl.lit(trace.source.rank, pl.Int64),
        host=pl.lit(host_of(trace), pl.String),
        cycle=pl.lit(trace.source.cycle, pl.Int64),
    )


def for_matching(trace: Trace, select: Selection) -> Partial:
    """The selected calls of a rank, with its number and its machine, as matching needs them."""
    view = scope(trace, select)
    frame = with_source(selected_calls(view), trace)
    notes: tuple[Note, ...] = ()
    if not len(collective_calls(trace, select.steps_by)):
        called = int(rows_beginning(trace, (COMMUNICATION_RECORD,), *RANGE_KINDS).sum())
        what = "1 collective was called, but its" if called == 1 else f"{called} collectives were called, but their"
        if called:
            notes += (
                Note(
                    "NO_COLLECTIVE_WORK",
                    f"{what} work on devices was not recorded (ProfilerActivity.CUDA, XPU, … records it).",
                ),
            )
    return Partial(frame, notes)


@derived
def computation(trace: Trace) -> Intervals:
    """When the rank computes on any device, as a union; without device work, when operators run on the host."""
    work = device_work(trace)
    if len(work):
        rows = work.of(WorkKind.COMPUTATION)
        return union(work.start[rows], work.end[rows])
    ops = (trace.kind == EventKind.HOST_OP) & ~is_collective_range(trace)
    return union(trace.start[ops], trace.end[ops])


# --- arguments


def _sequence_numbers(trace: Trace, records: Records) -> Int64s:
    """The number of each call in its process group: int64 [calls], −1 where nothing tells.

    Replays of a graph have none: annotations give them all the number that the capture had.
    """
    replayed = np.isin(records.row, device_work(trace).rows[is_replayed(trace)])
    return np.where(replayed, -1, records.integers(trace, "collective_sequence"))


def _described(trace: Trace, steps_by: str | None, records: Records, *, of_host: bool) -> pl.DataFrame:
    batches = joined_calls(trace, records.row, records.launch, records.parameters)
    records = replace(records, parameters=np.where(batches.first >= 0, batches.first, records.parameters))
    kind = np.where(batches.kind >= 0, batches.kind, _kinds(trace, records))
    start, length = records.start, records.end - records.start
    base = base_of(trace)
    own = trace.source.rank
    peers = {
        name: batches.argument(name, records.integers(trace, name)) for name in ("source_rank", "destination_rank")
    }
    sends, receives = kind == _KIND["send"], kind == _KIND["recv"]
    peers["source_rank"] = np.where(sends & (peers["destination_rank"] >= 0), own, peers["source_rank"])
    peers["destination_rank"] = np.where(receives & (peers["source_rank"] >= 0), own, peers["destination_rank"])
    frame = pl.DataFrame(
        {
            "row": records.row.astype(np.int64),
            "launch": polars_columns.rows(records.launch.astype(np.int64)),
            "on_host": np.full(len(records.row), of_host),
            "kind": polars_columns.labelled(kind, lambda place: KINDS[place]).cast(pl.String),
            "name": polars_columns.texts(trace.strings, trace.name[records.row]).cast(pl.String),
            **group_columns(trace, records),
            "seq": polars_columns.rows(_sequence_numbers(trace, records)),
            **{name: polars_columns.rows(values) for name, values in peers.items()},
            **_content(trace, records, batches),
            "device": polars_columns.rows(records.device),
            "stream": polars_columns.rows(records.stream),
            "step": _steps(steps(trace, steps_by), trace, records),
            "profiler_step": _profiler_steps(trace, records, of_host=of_host),
            "start": start + base,
            "end": records.end + base,
            "exposed": length - covered(Intervals(start, records.end), computation(trace)),
        }
    )
    gathered = pl.col("elements_in") * pl.col("group_size")
    is_gather = pl.col("kind").is_in(GATHERS) & (pl.col("elements_in") < MAX_ELEMENTS >> 20)
    frame = frame.with_columns(elements_out=pl.coalesce("elements_out", pl.when(is_gather).then(gathered)))
    frame = link_columns(trace, frame)
    stated = records.integers(trace, "bytes")  # by NCCL itself, which says no type of elements
    size = pl.coalesce(size_of(pl.col("width")), polars_columns.column(stated, (stated > 0) & (stated < MAX_ELEMENTS)))
    return frame.with_columns(bytes=size).select(CALLS.names)


def base_of(trace: Trace) -> int:
    """`Trace.base`, 0 where it is no time since 1970 that 64 bits can hold with the trace."""
    return trace.base if abs(trace.base) < 1 << 61 else 0


def _kinds(trace: Trace, records: Records) -> Int64s:
    """Place in `KINDS` of each: by the argument, else the names on the host, else that of the work itself."""
    kind = np.full(len(records.row), _NO_CODE, np.int64)
    sources = [records.codes(trace, "collective")]
    for rows in (records.span, records.operator, records.row):
        sources.append(np.where(rows >= 0, trace.name[rows], _NO_CODE).astype(np.int64))
    for codes in sources:
        missing = np.flatnonzero((kind < 0) & (codes >= 0))
        distinct, places = np.unique(codes[missing], return_inverse=True)
        by_name = [_KIND.get(kind_named(trace.strings.label(code)) or "", _NO_CODE) for code in distinct.tolist()]
        kind[missing] = np.array(by_name, np.int64)[places]
    kind[kind < 0] = _KIND["other"]
    return _as_on_its_stream(kind, records)


def _as_on_its_stream(kind: Int64s, records: Records) -> Int64s:
    """Kinds where kernels that only their name describes have the kind of all others on their stream.

    NCCL has one kernel for sending, receiving and all-to-all, and of calls from before the recording nothing but the
    work was recorded. A stream is of one group.
    """
    either, exchange = _KIND["send_recv"], _KIND["all_to_all"]
    called = (records.launch >= 0) | (records.parameters >= 0) | (records.span >= 0) | (records.operator >= 0)
    unsure = (kind == either) & ~called
    if unsure.any():
        place, _ = group(records.device, records.stream)
        others = np.isin(kind, [exchange, *map(_KIND.__getitem__, POINT_TO_POINT)]) & ~unsure
        only = np.setdiff1d(place[others & (kind == exchange)], place[others & (kind != exchange)])
        kind[unsure & np.isin(place, only)] = exchange
    return kind


def _profiler_steps(trace: Trace, records: Records, *, of_host: bool) -> pl.Series:
    """Steps of what was launched within the recording: those of others begin when the host no longer is there."""
    marked = steps(trace, None)
    if marked.origin != "profiler":
        return pl.Series([None], dtype=pl.Int64).new_from_index(0, len(records.row))
    number = _steps(marked, trace, records)
    launched = pl.Series((records.launch >= 0) | of_host, dtype=pl.Boolean)
    return number.set(~launched, None)


def _steps(marked: Steps, trace: Trace, records: Records) -> pl.Series:
    place = step_of(marked.host, np.where(records.launch >= 0, trace.start[records.launch], records.start))
    number = marked.number[np.maximum(place, 0)] if len(marked) else np.zeros(len(place), np.int64)
    return polars_columns.column(number, place >= 0)


# --- the content


def _content(trace: Trace, records: Records, batches: CallBatches) -> dict[str, pl.Series]:
    """Type and number of elements, and the bytes of one (`width`): by arguments, else as inputs on the host tell."""
    places, distinct = types(
        trace,
        records.codes(trace, "element_type"),
        input_types(trace, records.span),
        input_types(trace, records.operator),
    )
    shaped = shaped_elements(trace, records.span, records.operator)
    columns = {
        "dtype": pl.Series([each.name for each in distinct], dtype=pl.String).gather(polars_columns.rows(places)),
        "width": pl.Series([each.bytes for each in distinct], dtype=pl.Int64).gather(polars_columns.rows(places)),
    }
    for name, of_shape in shaped.items():
        recorded = batches.argument(name, records.integers(trace, name))
        values = np.where(recorded >= 0, recorded, of_shape)
        columns[name] = polars_columns.column(values, (values >= 0) & (values < MAX_ELEMENTS))
    return columns
