"""Which kernels an operator launches, one after the other, and how often the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.grouping import distinct_sequences, group, sum_by
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.charts import Bars
from kinetoscope.errors import UsageError
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.busy import no_work_note
from kinetoscope.model.execution.call_tree import call_tree, outermost_ops
from kinetoscope.model.execution.calls import call_name, call_names, is_repeat
from kinetoscope.model.steps.scope import Scope, scope, unclipped
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Schema, ShareOf

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("operator", pl.String, "Name of the operator or annotation."),
    Column("sequence", pl.String, 'What a call launched, joined by " -> "; null if it launched nothing.'),
    Column("kernels", pl.Int64, "Length of the sequence: kernels, copies and sets."),
    Column("calls", pl.Int64, "How many calls launched just these, in this order."),
    Column("device_time", pl.Int64, "Durations of what these calls launched.", "ns"),
    Column("host_time", pl.Int64, "Durations of these calls on the host.", "ns"),
    Column("share", pl.Float64, "Device time / durations of all selected device work.", "fraction"),
    across={"key": "kernels", "sum": "calls device_time host_time", ShareOf("device_time"): "share"},
)

_ARROW: Final = " -> "
_MAX_LEVELS: Final = 100
"""Levels of calls of one name inside each other that are followed; deeper ones count for the innermost of them."""


def kernel_sequences(
    trace: Trace,
    select: Selection,
    *,
    operator: Annotated[
        str | None, Param("Name of an operator or annotation, in full; none: the outermost operators of each thread.")
    ] = None,
    min_length: Annotated[int, Param("Shorter sequences are left out; 0 shows calls that launched nothing, too.")] = 1,
) -> Partial:
    """Which sequences of kernels do the calls of an operator launch, how often, and at what cost?

    Method. The sequence of a call is all device work launched by it or by calls inside it, in order of the launches;
    the work of one launch (a graph) in order of start. Calls with the same sequence, name by name, are one row. Of two
    nested calls of one name each has its own sequence, and the kernels of the inner one are in both, unless it is the
    outer one recorded twice. Without `operator` the rows are those of the outermost operators, so that each piece of
    device work is in one at most. Sorted by device time.

    How to read it. A sequence of many short kernels that takes much time is what to fuse: by `torch.compile`, or by a
    kernel of your own. Several sequences of one operator mean different shapes, layouts or types; copies among them are
    often needless conversions.

    Limits. Names are compared, not shapes. Work whose launch was not recorded is placed by its operator, in order of
    start. With a time range or selected steps, calls that start in them count with all that they launched; with
    selected devices or streams the sequence is of work on those.
    """
    view = scope(trace, select)
    notes: list[Note] = []
    chosen = outermost_ops(trace) if operator is None else _named(trace, operator)
    work = view.device_work
    selected = unclipped(view).device_work_mask
    if not selected.any():
        notes.append(no_work_note(view))
        return Partial(RESULT.per_rank.empty(), tuple(notes))
    launched = _launched(view, chosen, selected)
    names = call_names(trace)
    kernels = trace.name[work.rows[launched.work]]
    sequence, _ = distinct_sequences(launched.offsets, kernels)
    codes, first = group(names[launched.calls], sequence)
    length = np.diff(launched.offsets)
    of_call = np.repeat(codes, length)
    device = sum_by(of_call, len(first), work.duration[launched.work])
    host = np.maximum(trace.end[launched.calls] - trace.start[launched.calls], 0)
    everything = int(work.duration[selected].sum())
    shown = np.flatnonzero(length[first] >= min_length)
    frame = pl.DataFrame(
        {
            "operator": [_label(trace, launched.calls[first[row]]) for row in shown.tolist()],
            "sequence": [_text(trace, kernels, launched.offsets, int(first[row])) for row in shown.tolist()],
            "kernels": length[first][shown],
            "calls": np.bincount(codes, minlength=len(first))[shown],
            "device_time": device[shown],
            "host_time": sum_by(codes, len(first), host)[shown],
            "share": device[shown] / everything if everything else [None] * len(shown),
        },
        schema=RESULT.per_rank.types,
    )
    notes += _notes(operator, min_length, launched, selected, first[length[first] < min_length], codes)
    order = ["device_time", "calls", "operator", "sequence"]
    return Partial(frame.sort(order, descending=[True, True, False, False], nulls_last=True), tuple(notes))


ANALYSIS = Analysis(
    "Kernel sequences", kernel_sequences, RESULT, chart=Bars("sequence", "device_time"), of_operators=True
)


@dataclass(frozen=True)
class _Launched:
    """What each chosen call launched.

    Attributes:
        calls: int32 [calls], their rows.
        offsets: int64 [calls + 1]: call n launched `work[offsets[n]:offsets[n + 1]]`.
        work: int64 [pairs], places in the device work.
    """

    calls: Int32s
    offsets: Int64s
    work: Int64s


# --- which calls, and what they launched


def _named(trace: Trace, operator: str) -> Bools:
    """Which calls have this name and are not the same call recorded twice: bool [events]."""
    kinds = EventKind.HOST_OP, EventKind.ANNOTATION
    is_called_so = call_tree(trace).member & np.isin(trace.kind, kinds) & ~is_repeat(trace)
    is_called_so &= rows_named(trace, lambda name: operator in (name, call_name(name, EventKind.HOST_OP)), *kinds)
    if not is_called_so.any():
        raise UsageError(f"no operator or annotation is called {operator!r} in this trace; `operators` lists the names")
    return is_called_so


def _launched(view: Scope, chosen: Bools, selected: Bools) -> _Launched:
    trace, work = view.trace, view.device_work
    calls = np.flatnonzero(chosen & view.host_mask).astype(np.int32)
    parent = call_tree(trace).parent
    around = ancestor(parent, chosen)
    event = work.caller
    begun = np.where(work.launch >= 0, trace.start[work.launch], work.start) if len(trace) else work.start
    places = np.flatnonzero(selected & (event >= 0))
    places = places[np.lexsort((places, work.start[places], begun[places]))]
    number = np.full(len(trace), -1, np.int32)
    number[calls] = np.arange(len(calls), dtype=np.int32)
    levels: list[tuple[Int32s, Int64s]] = [(np.empty(0, np.int32), np.empty(0, np.int64))]
    row, position = around[event[places]], np.arange(len(places))
    for _ in range(_MAX_LEVELS):
        row, position = row[row >= 0], position[row >= 0]
        if not len(row):
            break
        levels.append((number[row], position))
        above = parent[row]
        row = np.where(above >= 0, around[above], np.int32(-1))
    call, position = (np.concatenate(parts) for parts in zip(*levels, strict=True))
    call, position = call[call >= 0], position[call >= 0]
    # Work that stands directly in a call and work of calls of this name inside it come at different levels.
    order = np.lexsort((position, call)) if len(levels) > 2 else np.argsort(call, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(call, minlength=len(calls)))]).astype(np.int64)
    return _Launched(calls, offsets, places[position[order]])


# --- texts


def _label(trace: Trace, row: int) -> str:
    return call_name(trace.strings.label(int(trace.name[row])), int(trace.kind[row]))


def _text(trace: Trace, kernels: Int32s, offsets: Int64s, call: int) -> str | None:
    names = trace.strings.labels(kernels[offsets[call] : offsets[call + 1]].tolist())
    return _ARROW.join(names) if names else None


def _notes(
    operator: str | None,
    min_length: int,
    launched: _Launched,
    selected: Bools,
    left_out: Int32s,
    codes: Int32s,
) -> Iterator[Note]:
    if len(left_out) and (operator is not None or min_length > 1):
        count = int(np.isin(codes, codes[left_out]).sum())
        yield Note(
            "SHORT_SEQUENCES",
            f"{count:,} of {len(launched.calls):,} calls launched less than min_length and are not shown.",
        )
    lost = int(selected.sum()) - len(np.unique(launched.work))
    if operator is None and lost:
        yield Note(
            "WORK_OF_NO_OPERATOR",
            f"{lost:,} of {int(selected.sum()):,} pieces of device work were launched in no recorded operator.",
        )
