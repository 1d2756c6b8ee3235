"""Collectives and point-to-point operations as one rank saw them: one row each, with all that its records tell.

NCCL and its kin: the work on the device, with what the call on the host says (`record_param_comms`, `nccl:all_reduce`,
`c10d::…`) where the work itself says nothing, as before 2024. gloo and other libraries of the host: their spans there.
Calls whose work was not recorded are no rows: when they ran is not known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms import tree
from kinetoscope.algorithms.grouping import group, reduce_by
from kinetoscope.algorithms.intervals import Intervals, covered, union
from kinetoscope.model import arguments, arrays
from kinetoscope.model.calltree import call_tree
from kinetoscope.model.coalesced import joined_calls
from kinetoscope.model.collective_contents import input_types, shaped_elements, types
from kinetoscope.model.collectives import KINDS, MOST_ELEMENTS, kind_named, size_of
from kinetoscope.model.device import device_work
from kinetoscope.model.job import Partial
from kinetoscope.model.kinds import COLLECTIVE_OPS, COLLECTIVE_WORDS, EventKind, WorkKind, is_collective_kernel
from kinetoscope.model.naming import rows_named
from kinetoscope.model.process_groups import Group, configured, host_of, resolved, whole_list, world_size
from kinetoscope.model.scope import Scope, scope
from kinetoscope.model.selection import Selection
from kinetoscope.model.steps import step_of, steps
from kinetoscope.model.trace import Trace
from kinetoscope.schema import Column, Schema

CALLS: Final = Schema(
    Column("row", pl.Int64, "Row of the work on the device, or of the span on the host."),
    Column("launch", pl.Int64, "Row of the call of the runtime that launched it; null if that was not recorded."),
    Column("on_host", pl.Boolean, "Is it a span of a library that works on the host, such as gloo?"),
    Column("kind", pl.String, "all_reduce, all_gather, reduce_scatter, …; other where nothing tells."),
    Column("name", pl.String, "Name of the work or of the span."),
    Column("group", pl.String, "The process group: name, description and ranks; null where nothing tells."),
    Column("group_name", pl.String, "Name of the process group."),
    Column("group_description", pl.String, "What the process group is for, in words."),
    Column("group_size", pl.Int64, "Ranks in the process group."),
    Column("group_ranks", pl.String, "The ranks of the process group, as runs: 0-7, or 0-56/8 for every eighth."),
    Column("candidates", pl.String, "Groups that it may be of, one a line, as `Group.written` has them, where its records do not say which."),
    Column("world", pl.Int64, "Ranks of the job."),
    Column("seq", pl.Int64, "Number of the collective in its process group."),
    Column("source_rank", pl.Int64, "Rank that sends, of point-to-point work."),
    Column("destination_rank", pl.Int64, "Rank that receives, of point-to-point work."),
    Column("dtype", pl.String, "Type of the elements, as torch names it."),
    Column("elements_in", pl.Int64, "Elements that this rank puts in."),
    Column("elements_out", pl.Int64, "Elements that this rank gets out."),
    Column("bytes", pl.Int64, "Size as nccl-tests counts it.", "bytes"),
    Column("device", pl.Int64, "Device that it ran on; null on the host."),
    Column("stream", pl.Int64, "Stream that it ran on; null on the host."),
    Column("step", pl.Int64, "Step that it was launched in; null outside of steps."),
    Column("start", pl.Int64, "When it began, since 1970 as this rank's machine counts.", "ns", instant=True),
    Column("end", pl.Int64, "When it ended, since 1970 as this rank's machine counts.", "ns", instant=True),
    Column("exposed", pl.Int64, "What of it no computation of the rank covers.", "ns"),
)
"""What `collective_calls` answers with."""

HOST_LIBRARIES: Final = ("gloo:", "ucc:", "mpi:")
"""How the names of spans begin that are the collective itself, not a call that launches it."""

PARAMETERS: Final = "record_param_comms"
_LIBRARIES: Final = ("nccl:", "xccl:", "hccl:", "rccl:", *HOST_LIBRARIES)
_OPERATORS: Final = ("c10d::",)
_NONE: Final = -1
_KIND: Final = {kind: place for place, kind in enumerate(KINDS)}


def collective_calls(trace: Trace, steps_by: str | None = None) -> pl.DataFrame:
    """The collectives of a rank, by start: rows of `CALLS`. Ask by `trace.of`.

    Several pieces of device work of one call are one row, from the first's start to the last's end.
    """
    parts = [_on_device(trace, steps_by), _on_host(trace, steps_by)]
    frame = pl.concat([part for part in parts if part.height] or parts[:1])
    return CALLS.conform(frame.sort("start", "end", "row"))


def selected_calls(view: Scope) -> pl.DataFrame:
    """Those that a selection leaves: of a range of time the ones that start in it; nothing is clipped."""
    calls = view.trace.of(collective_calls, view.select.steps_by)
    kept = view.host_any_time.copy()
    kept[view.device_work.rows] = view.work
    frame = calls.filter(pl.Series(kept[calls["row"].to_numpy()], dtype=pl.Boolean))
    if view.clip is None:
        return frame
    low, high = (each + _base(view.trace) for each in view.clip)
    return frame.filter((pl.col("start") >= low) & (pl.col("start") < high))


def for_matching(trace: Trace, select: Selection) -> Partial:
    """The selected calls of a rank, with its number and its machine: what all ranks' are matched from."""
    view = scope(trace, select)
    frame = selected_calls(view).with_columns(
        rank=pl.lit(trace.source.rank, pl.Int64), host=pl.lit(host_of(trace), pl.String)
    )
    return Partial(frame, view.notes if select.steps is not None else ())


def computation(trace: Trace) -> Intervals:
    """When the rank computes on any device, as a union; without device work, when operators run on the host."""
    work = trace.of(device_work)
    if len(work):
        rows = work.of(WorkKind.COMPUTATION)
        return union(work.start[rows], work.end[rows])
    ops = trace.kind == EventKind.HOST_OP
    ops &= ~rows_named(trace, lambda name: COLLECTIVE_OPS.match(name) is not None, EventKind.HOST_OP,
                       holding=COLLECTIVE_WORDS)  # fmt: skip
    return union(trace.start[ops], trace.end[ops])


# --- which records belong to a call


@dataclass(frozen=True)
class _Found:
    """The calls, and where they are described: int32 [calls] rows each, −1 for none.

    Attributes:
        row: the work or the span; it may carry the arguments of a collective itself.
        launch: the call of the runtime.
        parameters: `record_param_comms`.
        span: the library's annotation.
        operator: the operator of `c10d`.
        device, stream: int64 [calls], −1 for none.
        start, end: int64 [calls], ns.
    """

    row: NDArray[np.int32]
    launch: NDArray[np.int32]
    parameters: NDArray[np.int32]
    span: NDArray[np.int32]
    operator: NDArray[np.int32]
    device: NDArray[np.int64]
    stream: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]


def _on_device(trace: Trace, steps_by: str | None) -> pl.DataFrame:
    work = trace.of(device_work)
    mine = np.flatnonzero(work.of(WorkKind.COMMUNICATION))
    if not len(mine):
        return CALLS.empty()
    anchor = np.where(work.launch[mine] >= 0, work.launch[mine], work.op[mine])
    parent = trace.of(call_tree).parent
    around = [
        _above(tree.ancestor(parent, _named(trace, *names)), anchor)
        for names in ((PARAMETERS,), _LIBRARIES, _OPERATORS)
    ]
    kept = _proper(trace, work.rows[mine], around, work.op[mine])
    mine, anchor = mine[kept], anchor[kept]
    parameters, span, operator = (each[kept] for each in around)
    # A call may launch several kernels on a device; a replayed graph launches those of many calls.
    alone = np.arange(len(mine), dtype=np.int64) + len(trace)
    codes, _ = group(np.where(parameters >= 0, parameters, alone), work.device[mine])
    count = int(codes.max()) + 1
    order = np.lexsort((work.rows[mine], work.start[mine], codes))
    first = order[np.searchsorted(codes[order], np.arange(count))]
    chosen = mine[first]
    found = _Found(
        row=work.rows[chosen],
        launch=work.launch[chosen],
        parameters=parameters[first],
        span=span[first],
        operator=operator[first],
        device=work.device[chosen],
        stream=work.stream[chosen],
        start=reduce_by(codes, count, work.start[mine]).least,
        end=reduce_by(codes, count, work.end[mine]).greatest,
    )
    return _described(trace, steps_by, found, on_host=False)


def _on_host(trace: Trace, steps_by: str | None) -> pl.DataFrame:
    rows = np.flatnonzero(_named(trace, *HOST_LIBRARIES)).astype(np.int32)
    none = np.full(len(rows), _NONE, np.int32)
    operator = _above(tree.ancestor(trace.of(call_tree).parent, _named(trace, *_OPERATORS)), rows) if len(rows) else rows
    found = _Found(
        row=rows,
        launch=none,
        parameters=none,
        span=rows,
        operator=operator,
        device=none.astype(np.int64),
        stream=none.astype(np.int64),
        start=trace.start[rows],
        end=np.maximum(trace.end[rows], trace.start[rows]),
    )
    return _described(trace, steps_by, found, on_host=True) if len(rows) else CALLS.empty()


def _named(trace: Trace, *beginnings: str) -> NDArray[np.bool_]:
    kinds = (EventKind.HOST_OP, EventKind.ANNOTATION)
    return rows_named(trace, lambda name: name.startswith(beginnings), *kinds, holding=beginnings)


def _above(ancestor: NDArray[np.int32], rows: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.where(rows >= 0, ancestor[rows], np.int32(_NONE))


def _proper(
    trace: Trace, rows: NDArray[np.int32], around: list[NDArray[np.int32]], op: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Which work is the collective itself: beside a kernel of the library, its call may launch copies and the like."""
    names = trace.name[rows]
    of_library = [
        code for code in np.unique(names[names >= 0]).tolist() if is_collective_kernel(trace.strings.glance(code))
    ]
    itself = np.isin(names, of_library) | (arguments.codes(trace, "collective", rows) >= 0)
    call = np.where(around[0] >= 0, around[0], op)
    return np.asarray(itself | ~np.isin(call, call[itself & (call >= 0)]))


# --- what they say


def _described(trace: Trace, steps_by: str | None, found: _Found, *, on_host: bool) -> pl.DataFrame:
    joined = joined_calls(trace, found.row, found.launch, found.parameters)
    found = replace(found, parameters=np.where(joined.first >= 0, joined.first, found.parameters))
    kind = np.where(joined.kind >= 0, joined.kind, _kinds(trace, found))
    start, length = found.start, found.end - found.start
    base = _base(trace)
    own = trace.source.rank
    peers = {
        name: joined.peers.get(name, _integers(trace, name, found)) for name in ("source_rank", "destination_rank")
    }
    sends, receives = kind == _KIND["send"], kind == _KIND["recv"]
    peers["source_rank"] = np.where(sends & (peers["destination_rank"] >= 0), own, peers["source_rank"])
    peers["destination_rank"] = np.where(receives & (peers["source_rank"] >= 0), own, peers["destination_rank"])
    frame = pl.DataFrame(
        {
            "row": found.row.astype(np.int64),
            "launch": arrays.rows(found.launch.astype(np.int64)),
            "on_host": np.full(len(found.row), on_host),
            "kind": arrays.labelled(kind, lambda place: KINDS[place]).cast(pl.String),
            "name": arrays.texts(trace.strings, trace.name[found.row]).cast(pl.String),
            **_group_columns(trace, found),
            "seq": arrays.rows(_integers(trace, "collective_sequence", found)),
            **{name: arrays.rows(values) for name, values in peers.items()},
            **_content(trace, found, joined.elements),
            "device": arrays.rows(found.device),
            "stream": arrays.rows(found.stream),
            "step": _steps(trace, steps_by, found),
            "start": start + base,
            "end": found.end + base,
            "exposed": length - covered(Intervals(start, found.end), trace.of(computation)),
        }
    )
    gathered = pl.col("elements_in") * pl.col("group_size")
    is_gather = pl.col("kind").is_in(("all_gather", "gather")) & (pl.col("elements_in") < MOST_ELEMENTS >> 20)
    frame = frame.with_columns(elements_out=pl.coalesce("elements_out", pl.when(is_gather).then(gathered)))
    return frame.with_columns(bytes=size_of(pl.col("width"))).select(CALLS.names)


def _base(trace: Trace) -> int:
    return trace.base if abs(trace.base) < 1 << 61 else 0


def _integers(trace: Trace, name: str, found: _Found) -> NDArray[np.int64]:
    """An argument of the work, else of the call on the host, where it is a count; else −1."""
    own = arguments.integers(trace, name, found.row)
    called = np.where(found.parameters >= 0, arguments.integers(trace, name, np.maximum(found.parameters, 0)), _NONE)
    return np.where(own >= 0, own, called)


def _codes(trace: Trace, name: str, found: _Found) -> NDArray[np.int64]:
    own = arguments.codes(trace, name, found.row)
    called = np.where(found.parameters >= 0, arguments.codes(trace, name, np.maximum(found.parameters, 0)), _NONE)
    return np.where(own >= 0, own, called)


def _kinds(trace: Trace, found: _Found) -> NDArray[np.int64]:
    """Place in `KINDS` of each: as the argument says, else the names on the host, else that of the work itself."""
    kind = np.full(len(found.row), _NONE, np.int64)
    sources = [_codes(trace, "collective", found)]
    for rows in (found.span, found.operator, found.row):
        sources.append(np.where(rows >= 0, trace.name[rows], _NONE).astype(np.int64))
    for codes in sources:
        missing = np.flatnonzero((kind < 0) & (codes >= 0))
        distinct, places = np.unique(codes[missing], return_inverse=True)
        told = [_KIND.get(kind_named(trace.strings.label(code)) or "", _NONE) for code in distinct.tolist()]
        kind[missing] = np.array(told, np.int64)[places]
    kind[kind < 0] = _KIND["other"]
    return kind


def _steps(trace: Trace, steps_by: str | None, found: _Found) -> pl.Series:
    marked = trace.of(steps, steps_by)
    place = step_of(marked.host, np.where(found.launch >= 0, trace.start[found.launch], found.start))
    number = marked.number[np.maximum(place, 0)] if len(marked) else np.zeros(len(place), np.int64)
    return arrays.column(number, place >= 0)


# --- the group


def _group_columns(trace: Trace, found: _Found) -> dict[str, pl.Series]:
    names = _codes(trace, "process_group", found)
    numbers = _integers(trace, "process_group", found)  # an ID in files of spring 2024
    facts = (
        np.where(names >= 0, names, _NONE),
        np.where(names >= 0, _NONE, numbers),
        _codes(trace, "process_group_description", found),
        _codes(trace, "process_group_ranks", found),
        _integers(trace, "group_size", found),
        _integers(trace, "first_rank", found),
        _integers(trace, "rank_stride", found),
    )
    codes, first = group(*facts)
    known = configured(trace)
    groups = [_group(trace, known, *(int(fact[row]) for fact in facts)) for row in first.tolist()]
    place = pl.Series(codes, dtype=pl.UInt32)
    candidates = [_candidates(known) if each is None else None for each in groups]
    only = known[0] if len(known) == 1 else Group()
    groups = [only if each is None else each for each in groups]

    def column(values: list[Any], dtype: type[pl.DataType]) -> pl.Series:
        return pl.Series(values, dtype=dtype).gather(place)

    return {
        "group": column([each.key for each in groups if each], pl.String),
        "group_name": column([each.name for each in groups if each], pl.String),
        "group_description": column([each.description for each in groups if each], pl.String),
        "group_size": column([each.size for each in groups if each], pl.Int64),
        "group_ranks": column([each.ranks for each in groups if each], pl.String),
        "candidates": column(candidates, pl.String),
        "world": pl.Series([world_size(trace)], dtype=pl.Int64).gather(place * 0),
    }


def _group(
    trace: Trace, known: list[Group], name: int, number: int, description: int, ranks: int, size: int, *even: int
) -> Group | None:
    """The group that arguments tell; None where they tell none."""
    strings = trace.strings
    if name < 0 and number < 0 and ranks < 0:
        return None
    called = strings.label(name) if name >= 0 else str(number) if number >= 0 else None
    count = size if 0 < size < MOST_ELEMENTS else None
    listed = whole_list(strings.label(ranks), count) if ranks >= 0 else None
    about = strings.label(description) if description >= 0 else None
    return resolved(Group(called, about, count, listed), known, *even)


def _candidates(known: list[Group]) -> str:
    return "\n".join(each.written() for each in known)


# --- the content


def _content(trace: Trace, found: _Found, joined: dict[str, NDArray[np.int64]]) -> dict[str, pl.Series]:
    """Type and number of elements, and the bytes of one (`width`): by arguments, else as inputs on the host tell."""
    places, distinct = types(
        trace, _codes(trace, "element_type", found), input_types(trace, found.span), input_types(trace, found.operator)
    )
    shaped = shaped_elements(trace, found.span, found.operator)
    columns = {
        "dtype": pl.Series([each.name for each in distinct], dtype=pl.String).gather(arrays.rows(places)),
        "width": pl.Series([each.bytes for each in distinct], dtype=pl.Int64).gather(arrays.rows(places)),
    }
    for name, of_shape in shaped.items():
        told = joined.get(name, _integers(trace, name, found))
        values = np.where(told >= 0, told, of_shape)
        columns[name] = arrays.column(values, (values >= 0) & (values < MOST_ELEMENTS))
    return columns
