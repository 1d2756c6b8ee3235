"""Chains of memory-bound operators that one kernel could compute, and what a compiler fused already."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.grouping import distinct_sequences, group, sum_by
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.busy import no_work_note
from kinetoscope.model.device.hardware import is_host_only
from kinetoscope.model.execution.frames import user_source
from kinetoscope.model.execution.program import operators_in_name
from kinetoscope.model.operators.call_stacks import CallStacks, call_stacks
from kinetoscope.model.operators.modules import modules
from kinetoscope.model.roofline.calls import CostedCalls, costed_calls
from kinetoscope.model.roofline.fusion import FusableChains, call_times, fusable_chains
from kinetoscope.model.steps.scope import Scope, scope, unclipped
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.recording import not_recorded, shapes_not_recorded
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("chain", pl.String, "The operators, in the order in which they ran; of a fused kernel what its name says."),
    Column("calls", pl.Int64, "How often the chain ran; of fused kernels their launches."),
    Column("device_time", pl.Int64, "Durations of the chain's device work; without a device, of its calls.", "ns"),
    Column("saved_time_least", pl.Int64, "Part of it that one fused kernel surely saves.", "ns"),
    Column("saved_time", pl.Int64, "Part that it saves if no intermediate result is needed later.", "ns"),
    Column("file", pl.String, "Source file of the user's own from which the first operator is called."),
    Column("line", pl.Int64, "Line in that file."),
    Column("module", pl.String, "Path of the module that the first operator works for, with classes for names."),
    Column("operators", pl.Int64, "Operators in the chain; null for fused kernels."),
    Column("by", pl.String, "eager: each operator has kernels of its own; Inductor: they are fused already."),
    Column("bytes", pl.Int64, "Bytes that the chain's operators move at least, each by itself.", "bytes"),
    Column("saved_bytes_least", pl.Int64, "Those that a fused kernel surely does not move.", "bytes"),
    Column("saved_bytes", pl.Int64, "Those that it does not move if no intermediate result is needed later.", "bytes"),
    Column("input_shapes", pl.String, "Shape of each input of the first operator; null where it was not recorded."),
    across={
        "key": "operators line",
        "sum": "calls device_time saved_time_least saved_time bytes saved_bytes_least saved_bytes",
    },
)


def fusion(trace: Trace, select: Selection) -> Partial:
    """Which chains of operators write results only for the next one to read, and what would one fused kernel save?

    Method. Operators that compute element by element, normalize, reduce, copy or look up embeddings are bound by
    memory. One of them reads what another wrote if it is the first one behind it, on the same stream and with nothing
    but such operators between them, that reads a tensor of the same shape, strides and type as the other's main result;
    with another shape if a view of the result was made in between. Operators so connected are a chain, unless all of
    them only copy; others of the kind may stand between them. One kernel in the chain's place moves neither writes nor
    reads of the intermediate results: `saved_bytes`. `saved_bytes_least` leaves out the write of the largest one, which
    may be needed later, unless its memory was given back before another operator ran; and results before and behind
    batch and group normalization, which need all of their input before they write. Each operator's time shrinks as its
    bytes do: `saved_time`; `saved_time_least` counts the bytes at the rate of the chain's fastest operator. Rows are
    chains of the same operators and shapes from one line and module.

    How to read it. The first rows are what `torch.compile` of the named line or module, or a fused kernel of your own
    (Liger, Apex, FlashAttention's layer norm) would gain most from. Between the two ends lie results that are needed
    later, as for a residual. Rows of Inductor show what is fused already; they have no savings.

    Limits. A trace does not name tensors, so another tensor of the same shape, strides and type may be taken for the
    result. Matrix products, convolutions and attention are in no chain, though some kernels of theirs take in what
    stands before or behind them; neither are optimizers, of which torch has fused forms (HOST004 names them). Without
    shapes there are no chains. Calls that start in the selection count with all of their device work.
    """
    view = scope(trace, select)
    notes: list[Note] = []
    chains, costed = fusable_chains(trace), costed_calls(trace)
    eager = _eager(view, costed, chains)
    frame = pl.concat([eager, _fused_already(view)]).sort(
        ["saved_time", "device_time", "chain", "input_shapes", "module", "file", "line"],
        descending=[True, True, *[False] * 5],
        nulls_last=True,
    )
    return Partial(frame, (*notes, *_notes(view, eager, frame)))


ANALYSIS = Analysis("Fusable chains", fusion, RESULT, chart=Bars("chain", "saved_time"), of_operators=True)

_SCHEMA: Final = RESULT.per_rank.types
_NUMBER: Final = re.compile(r"_\d+(?=/|$)")


# --- rows


def _eager(view: Scope, costed: CostedCalls, chains: FusableChains) -> pl.DataFrame:
    trace = view.trace
    chosen = unclipped(view).device_work_mask
    ran = np.zeros(len(costed) + 1, np.bool_)
    ran[costed.call[chosen] if not is_host_only(trace) else slice(None)] = True
    first = chains.calls[chains.offsets[:-1]]
    selected = np.flatnonzero(view.host_mask[costed.rows[first]] & ran[first])
    if not len(selected):
        return RESULT.per_rank.empty()
    kinds = _numbered([(variant.name, variant.shapes) for variant in costed.variants])
    sequence, _ = distinct_sequences(chains.offsets, kinds[costed.variant[chains.calls]].astype(np.int32))
    stacks = call_stacks(trace, False, True)
    rows = costed.rows[first[selected]]
    code, representative = group(sequence[selected], *_places(trace, stacks, rows))
    time = call_times(trace)[chains.calls].astype(np.float64)
    time_least, time_most = chains.saved_times(time)
    of_chain = {
        "device_time": chains.sums(time),
        "saved_time_least": time_least,
        "saved_time": time_most,
        "bytes": chains.sums(chains.bytes),
        "saved_bytes_least": chains.sums(chains.surely),
        "saved_bytes": chains.sums(chains.saved),
    }
    names = [costed.variants[place].name.removeprefix("aten::") for place in costed.variant[chains.calls].tolist()]
    shown_chains = selected[representative]
    return _frame(
        trace,
        rows[representative],
        stacks,
        "eager",
        chain=[" → ".join(names[slice(*chains.offsets[place : place + 2])]) for place in shown_chains.tolist()],
        calls=np.bincount(code, minlength=len(representative)),
        operators=np.diff(chains.offsets)[shown_chains],
        **{
            name: np.rint(np.bincount(code, values[selected], len(representative))).astype(np.int64)
            for name, values in of_chain.items()
        },
    )


def _fused_already(view: Scope) -> pl.DataFrame:
    """The kernels that Inductor named after what it fused."""
    trace, work = view.trace, view.device_work
    names = trace.name[work.rows]
    named = {code: operators_in_name(trace.strings.label(code)) for code in np.unique(names).tolist()}
    operators = {code: each[0] for code, each in named.items() if each}
    fused = np.isin(names, list(operators))
    place = np.flatnonzero(unclipped(view).device_work_mask & fused & (work.caller >= 0))
    if not len(place):
        return RESULT.per_rank.empty()
    stacks = call_stacks(trace, False, True)
    rows = np.where(work.op[place] >= 0, work.op[place], work.caller[place])
    code, first = group(names[place], *_places(trace, stacks, rows))
    return _frame(
        trace,
        rows[first],
        stacks,
        "Inductor",
        chain=[operators[int(names[place[each]])] for each in first.tolist()],
        calls=np.bincount(code, minlength=len(first)),
        device_time=sum_by(code, len(first), work.duration[place]),
    )


def _frame(trace: Trace, rows: Int32s, stacks: CallStacks, by: str, **values: Any) -> pl.DataFrame:
    """Rows with the place in the program of each one's first call."""
    sources = [user_source(stacks.texts[code] if code >= 0 else "") for code in stacks.code[rows].tolist()]
    shapes = arguments.codes(trace, "input_dims", rows).tolist()
    paths, node = _classes(trace), modules(trace).node[rows].tolist()
    where = {
        "input_shapes": [json.dumps(trace.strings.nested(code)) if code >= 0 else None for code in shapes],
        "module": [paths[each] if each >= 0 else None for each in node],
        "file": [source.file for source in sources],
        "line": [source.line for source in sources],
    }
    columns = {**where, **values, "by": [by] * len(rows)}
    return pl.DataFrame({name: columns.get(name, [None] * len(rows)) for name in _SCHEMA}, schema=_SCHEMA)


def _places(trace: Trace, stacks: CallStacks, rows: Int32s) -> tuple[Int64s, Int64s]:
    """Numbers for the module and the user's own line that calls belong to, −1 for none: int64 [rows] each."""
    lines = [user_source(text) for text in stacks.texts]
    line = _numbered([None if source.file is None else source for source in lines])[stacks.code[rows]]
    return _numbered(_classes(trace))[modules(trace).node[rows]], line


def _classes(trace: Trace) -> list[str]:
    """The path of each module with classes for names: without the numbers that tell those of one class apart."""
    return [_NUMBER.sub("", path) for path in modules(trace).paths]


def _numbered(values: Sequence[object]) -> Int64s:
    """A number for each distinct value, −1 for None; and at the end −1, for places of −1."""
    numbers: dict[object, int] = {None: -1}
    return np.array([*(numbers.setdefault(value, len(numbers)) for value in values), -1], np.int64)


# --- notes


def _notes(view: Scope, eager: pl.DataFrame, frame: pl.DataFrame) -> Iterator[Note]:
    trace = view.trace
    if not arguments.has(trace, "input_dims").any():
        yield shapes_not_recorded(trace, "no chain can be seen")
    elif not len(view.device_work) and not is_host_only(trace):
        yield no_work_note(view)
    elif not len(frame):
        yield Note("NOTHING_TO_FUSE", "No operator that is bound by memory reads what another one has just written.")
    if not len(eager):
        return
    times = call_times(trace) if is_host_only(trace) else view.device_work.duration[view.device_work_mask]
    names = ("device_time", "saved_time_least", "saved_time")
    took, least, most = (int(eager[name].sum()) / max(int(times.sum()), 1) for name in names)
    what = "the operators' time" if is_host_only(trace) else "device time"
    yield Note(
        "FUSION_SAVES", f"Chains take {took:.1%} of {what}; fused kernels would save {least:.1%} to {most:.1%} of it."
    )
    if not (trace.kind == EventKind.MEMORY).any():
        yield not_recorded("memory", "nothing shows which results are given back")
