"""How long operators take until they have launched their kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.grouping import distinct_sequences, group, sum_by
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.launches import Launches, is_selected, launch_notes, launches
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.calls import call_name, call_names
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, MeanBy, Param, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("operator", pl.String, "Name of the operator."),
    Column("sequence", pl.String, "What a call of it launches, in order; of a long sequence the first, and how many."),
    Column("kernels", pl.Int64, "Length of the sequence: kernels, copies and sets."),
    Column("calls", pl.Int64, "Calls of the operator that launched exactly this sequence."),
    Column("operator_delay", pl.Int64, "Sum of the times from a call's start to its first launch.", "ns"),
    Column("operator_delay_mean", pl.Int64, "Mean time from a call's start to the start of its first launch.", "ns"),
    Column("launch_delay", pl.Int64, "Sum of the times from a first launch to the start of its work.", "ns"),
    Column("launch_delay_mean", pl.Int64, "Mean time from the start of the first launch to that of its work.", "ns"),
    Column("device_time", pl.Int64, "Sum of the durations of the work launched.", "ns"),
    Column("names", pl.List(pl.String), "The whole sequence, a name for each; of more than 4,096 those at its start."),
    across={
        "key": "kernels",
        "sum": "calls operator_delay launch_delay device_time",
        MeanBy("calls"): "operator_delay_mean launch_delay_mean",
        "agreed": "names",
    },
)

SHOWN_KERNELS: Final = 8
"""Names of a sequence that its text shows; the list has all."""

_MAX_SEQUENCE: Final = 4096
"""Names of a sequence that the list has; a graph of a whole model has more."""


def operator_launch_delay(
    trace: Trace,
    select: Selection,
    *,
    operators: Annotated[
        str, Param("How the names of the operators begin that count; empty: any operator.")
    ] = "aten::",
    copies: Annotated[bool, Param("Take memory copies and sets into the sequences, too.")] = True,
) -> Partial:
    """How long from the start of an operator to its first launch, and from there to its kernel?

    Method. Each launch call belongs to the innermost chosen operator around it on its own thread. The launches of one
    call of an operator, in order, are its sequence; calls of one name with the same sequence, kernel for kernel, are
    one row. Operator delay is from the start of the operator to the start of its first launch call; launch delay from
    there to the start of that call's work, 0 if it began before. Sorted by the sum of the operator delays, then by
    operator and sequence.

    How to read it. Operator delay is host overhead before anything is launched: checks of shapes and types, dispatch,
    allocation. Fewer and larger operators, compiling, or a graph remove it. It limits the device only where the device
    waits for launches (see `idle_breakdown`). Launch delay is time in the queue: long means that the host is ahead.

    Limits. Launches outside the chosen operators are left out and counted in the notes; with `operators=""` operators
    of other libraries count, too. An operator has what it launches itself, not what operators inside it launch.
    """
    view = scope(trace, select)
    every_launch = launches(trace)
    chosen = np.flatnonzero(is_selected(view, every_launch))
    notes = launch_notes(view, every_launch, chosen)
    chosen = chosen[every_launch.first[chosen] >= 0]
    if not copies:
        chosen = chosen[view.device_work.kind[every_launch.first[chosen]] < WorkKind.MEMCPY]
    op = _enclosing(trace, operators)[every_launch.rows[chosen]]
    outside = int((op < 0).sum())
    if outside:
        within = f"whose name begins with {operators}" if operators else "at all"
        notes.append(
            Note(
                "LAUNCHES_OF_NO_OPERATOR",
                f"{outside:,} of {len(op):,} launches are in no operator {within}, and are left out.",
            )
        )
    if outside == len(op):
        return Partial(RESULT.per_rank.empty(), tuple(notes))
    calls = _op_calls(every_launch, chosen[op >= 0], op[op >= 0])
    return Partial(_frame(view, every_launch, calls), tuple(notes))


ANALYSIS = Analysis("Operator launch delay", operator_launch_delay, RESULT, chart=Bars("operator", "operator_delay"))


@dataclass(frozen=True)
class _OpCalls:
    """Calls of operators that launched something: what, and when first.

    Attributes:
        op: int32 [calls], their rows.
        launch: int32 [calls], place in `Launches` of the first launch of each.
        offsets: int64 [calls + 1], and work: int32 [work], places in `device_work`: what each launched, in order.
    """

    op: Int32s
    launch: Int32s
    offsets: Int64s
    work: Int32s


@derived
def _enclosing(trace: Trace, operators: str) -> Int32s:
    """The operator of that kind which each event is, or is called by: int32 [events], −1 for none."""
    words = (operators,) if operators else ()
    wanted = rows_named(trace, lambda name: name.startswith(operators), EventKind.HOST_OP, holding=words)
    return ancestor(call_tree(trace).parent, wanted)


def _op_calls(every_launch: Launches, chosen: Int64s, op: Int32s) -> _OpCalls:
    """Launches come in order of time; sorted by operator they are the launches of each of its calls, in order."""
    order = np.argsort(op, kind="stable")
    chosen, op = chosen[order], op[order]
    begins = np.flatnonzero(np.diff(op, prepend=-1))
    pieces = every_launch.pieces[chosen]
    until = np.cumsum(pieces)
    within = np.arange(until[-1]) - np.repeat(until - pieces, pieces)
    work = every_launch.work[np.repeat(every_launch.offsets[chosen], pieces) + within]
    offsets = np.append((until - pieces)[begins], until[-1])
    return _OpCalls(op[begins], chosen[begins].astype(np.int32), offsets, work)


def _frame(view: Scope, every_launch: Launches, calls: _OpCalls) -> pl.DataFrame:
    trace, work = view.trace, view.device_work
    names = trace.name[work.rows[calls.work]]
    sequence, _ = distinct_sequences(calls.offsets, names)
    operator = call_names(trace)[calls.op]
    codes, first = group(operator, sequence)
    groups = len(first)
    launched = trace.start[every_launch.rows[calls.launch]]
    begun = work.start[every_launch.first[calls.launch]]
    count = np.bincount(codes, minlength=groups)

    def label(code: int) -> str:
        return call_name(trace.strings.label(code), EventKind.HOST_OP)

    to_launch = sum_by(codes, groups, np.maximum(launched - trace.start[calls.op], 0))
    to_work = sum_by(codes, groups, np.maximum(begun - launched, 0))
    # `gemm -> relu -> … (90 more)`.
    shown = pl.col("names").list.head(SHOWN_KERNELS).list.eval(pl.element().fill_null("?")).list.join(" -> ")
    more = pl.format("{} -> … ({} more)", shown, pl.col("kernels") - SHOWN_KERNELS)
    frame = pl.DataFrame(
        {
            "operator": polars_columns.labelled(operator[first], label),
            "kernels": np.diff(calls.offsets)[first],
            "calls": count,
            "operator_delay": to_launch,
            "operator_delay_mean": (2 * to_launch + count) // (2 * count),
            "launch_delay": to_work,
            "launch_delay_mean": (2 * to_work + count) // (2 * count),
            "device_time": sum_by(np.repeat(codes, np.diff(calls.offsets)), groups, work.duration[calls.work]),
            "names": _sequences(trace, calls, names, first),
        }
    )
    text = pl.when(pl.col("kernels") > SHOWN_KERNELS).then(more).otherwise(shown)
    frame = frame.with_columns(pl.col("operator").cast(pl.String), sequence=text)
    return frame.sort(["operator_delay", "operator", "sequence"], descending=[True, False, False], maintain_order=True)


def _sequences(trace: Trace, calls: _OpCalls, names: Int32s, chosen: Int32s) -> pl.Series:
    """The names of what each of the chosen calls launched, as lists."""
    low = calls.offsets[chosen]
    length = np.minimum(calls.offsets[chosen + 1] - low, _MAX_SEQUENCE)
    until = np.cumsum(length)
    within = np.arange(until[-1]) - np.repeat(until - length, length)
    flat = polars_columns.texts(trace.strings, names[np.repeat(low, length) + within]).cast(pl.String)
    call = np.repeat(np.arange(len(chosen)), length)
    return pl.DataFrame({"call": call, "name": flat}).group_by("call", maintain_order=True).agg("name")["name"]
