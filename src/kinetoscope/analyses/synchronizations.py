"""Where the host waits for a device, and what the device loses by that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, marked
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.execution.call_tree import call_tree, enclosing_op, outermost_op, owned_times
from kinetoscope.model.execution.calls import call_name, call_names
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.execution.streams import NO_WORK
from kinetoscope.model.execution.synchronization import HostWaits, host_waits, idle_after
from kinetoscope.model.graphs.lost_work import no_device_work
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_containing, rows_named
from kinetoscope.model.trace.recording import not_recorded
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device_idle", pl.Int64, "Idle time of the device that would not be if the calls took no time.", "ns"),
    Column("time", pl.Int64, "Time of the host in these calls, each instant of a thread once.", "ns"),
    Column("call", pl.String, "Call of the runtime or driver in which the host waits."),
    Column("copy", pl.String, "The copy that the call queued and waits for; null for calls that queue none."),
    Column("operator", pl.String, "Innermost operator that makes the call; null outside operators."),
    Column("outer_operator", pl.String, "Outermost operator around it, such as aten::item; null outside operators."),
    Column("source", pl.String, "Python function around it, with file and its first line; null if not recorded."),
    Column("calls", pl.Int64, "Number of calls; of a range of time, of those that begin in it."),
    Column("waits", pl.Int64, "Calls in which device work ended that they had to wait for."),
    Column("waiting", pl.Int64, "Of the time, what passed until the device work that they waited for had ended.", "ns"),
    Column("longest", pl.Int64, "The longest of the calls.", "ns"),
    across={"sum": "device_idle time calls waits waiting", "greatest": "longest"},
)

_RECORDER: Final = ("kinetoscope/record/", "kinetoscope\\record\\")
_PYTHON_FILE: Final = ".py("


def synchronizations(trace: Trace, select: Selection) -> Partial:
    """Where does the host wait for the device, and how long is the device idle because of it?

    Method. Counted are synchronizations (see Numbers and definitions): of a stream, an event or the device; copies that
    the host waits for, as `.item()`, `.cpu()`, `.tolist()` and `nonzero` make them; freeing device memory where it
    waited. A call inside another, as the driver's in the runtime's, counts, and its time is that of the other. What a
    call waited for is recorded (`cuda_sync`) or inferred as in `critical_path`. After the wait the device has nothing
    to do until the next launch reaches it: device_idle is that idle time, as much of it as the calls took, for without
    them the launch had come so much sooner.

    How to read it. Long waiting with little device_idle is harmless: the device is the bottleneck. device_idle is the
    gain from removing the call: keep values on the device, copy to pinned memory with `non_blocking=True`, look at
    losses every n-th step.

    Limits. Calls that only ask (`cudaEventQuery`) do not wait. The first line of a Python function is not the line of
    the call. A wait on a device that other threads keep busy has no idle time. Copies of pageable memory to the device
    also take time for staging, which is not waiting. With a time range, times are of what lies inside it; calls, waits
    and device_idle are of calls that begin in it, as a whole.
    """
    view = scope(trace, select)
    waits = host_waits(trace)
    call = waits.call
    start, end = view.clipped(trace.start[call], trace.end[call])
    reaches_in = view.host_mask[call] | (view.host_mask_untimed[call] & (end > start))
    chosen = np.flatnonzero(reaches_in & _counts(trace, waits) & _on_device(view, waits))
    frame = _frame(view, waits, chosen, _inside(view, waits))
    frame = frame.sort(["time", *frame.columns[:5]], descending=[True] + [False] * 5, nulls_last=True)
    return Partial(frame, tuple(_notes(view, waits, chosen)))


ANALYSIS = Analysis("Synchronizations", synchronizations, RESULT, chart=Bars("call", "time"))


def _counts(trace: Trace, waits: HostWaits) -> Bools:
    return np.asarray(waits.waited | (runtime_call_kinds(trace)[waits.call] != RuntimeCallKind.FREE))


def _on_device(view: Scope, waits: HostWaits) -> Bools:
    """Of selected devices and streams only calls that wait for work there."""
    fits, work = np.ones(len(waits), np.bool_), view.device_work
    for wanted, have in ((view.select.devices, work.device), (view.select.streams, work.stream)):
        if wanted is not None:
            fits &= (waits.work >= 0) & np.isin(have[waits.work], wanted) if len(work) else False
    return fits


def _inside(view: Scope, waits: HostWaits) -> Int32s:
    """Rows of the calls that begin in the range of time inside another one: they count, and their time is of that."""
    counts = _counts(view.trace, waits) & _on_device(view, waits)
    kind = runtime_call_kinds(view.trace)[waits.inside]
    chosen = view.host_mask[waits.inside] & counts[waits.around] & (kind != RuntimeCallKind.FREE)
    return np.asarray(waits.inside[chosen])


def _frame(view: Scope, waits: HostWaits, chosen: Int64s, inside: Int32s) -> pl.DataFrame:
    trace, work = view.trace, view.device_work

    def of_all(values: NDArray[Any], of_inside: int = 0) -> NDArray[Any]:
        return np.append(values[chosen], np.full(len(inside), of_inside, values.dtype))

    rows = np.append(waits.call[chosen], inside)
    outer = marked(len(trace), waits.call)
    time = owned_times(trace, outer, view.clip)
    start, end = view.clipped(trace.start[rows], np.maximum(trace.end[rows], trace.start[rows]))
    own = of_all(waits.own, NO_WORK)
    until = np.clip(work.end[of_all(waits.work)], start, end) if len(work) else start
    waiting = np.minimum(np.where(of_all(waits.waited), until - start, 0), time[rows])
    begun = view.host_mask[rows]
    names = {
        "call": trace.name[rows],
        "copy": np.where(own >= 0, trace.name[work.rows[own]], -1) if len(work) else np.full(len(rows), -1),
        "operator": _names(trace, enclosing_op(trace)[rows]),
        "outer_operator": _names(trace, outermost_op(trace)[rows]),
        "source": _names(trace, _source(trace)[rows]),
    }
    codes, first = group(*(each.astype(np.int64) for each in names.values()))
    groups = len(first)
    longest = np.zeros(groups, np.int64)
    np.maximum.at(longest, codes, end - start)
    frame = pl.DataFrame(
        {
            **{name: _texts(trace, name, each[first]) for name, each in names.items()},
            "calls": sum_by(codes, groups, begun.astype(np.int64)),
            "waits": sum_by(codes, groups, (of_all(waits.waited) & begun).astype(np.int64)),
            "time": sum_by(codes, groups, time[rows]),
            "waiting": sum_by(codes, groups, waiting),
            "longest": longest,
            "device_idle": sum_by(codes, groups, np.where(begun, of_all(idle_after(trace)), 0)),
        }
    )
    if len(work):
        return frame
    return frame.with_columns(pl.lit(None, pl.Int64).alias(name) for name in ("waits", "waiting", "device_idle"))


def _texts(trace: Trace, what: str, codes: Int32s) -> pl.Series:
    kind = EventKind.HOST_OP if what.endswith("operator") else EventKind.OTHER
    return polars_columns.labelled(codes, lambda code: call_name(trace.strings.label(code), kind)).cast(pl.String)


def _names(trace: Trace, row: Int32s) -> Int32s:
    return np.where(row >= 0, call_names(trace)[row], np.int32(-1)) if len(trace) else row


@derived
def _source(trace: Trace) -> Int32s:
    """The nearest Python function around each event that is neither torch's nor the recorder's, else the nearest."""
    parent = call_tree(trace).parent
    frames = rows_containing(trace, (_PYTHON_FILE,), EventKind.PYTHON)
    torchs = rows_named(trace, _is_torchs, EventKind.PYTHON, holding=("torch/", "torch\\", *_RECORDER))
    own = ancestor(parent, frames & ~torchs)
    return np.where(own >= 0, own, ancestor(parent, frames))


def _is_torchs(name: str) -> bool:
    path = name.partition(_PYTHON_FILE)[0].replace("\\", "/")
    return path.startswith("torch/") or "/torch/" in path or _RECORDER[0] in path


def _notes(view: Scope, waits: HostWaits, chosen: Int64s) -> Iterator[Note]:
    trace = view.trace
    if not len(chosen):
        yield Note("NO_WAITS", "No call that waits for a device was " + ("selected." if len(waits) else "recorded."))
        return
    if not len(view.device_work):
        yield no_device_work(trace, "what these calls waited for is not known")
    chosen = chosen[view.host_mask[waits.call[chosen]]]
    inferred = int((waits.waited & ~waits.recorded)[chosen].sum())
    if inferred:
        yield Note(
            "WAITS_INFERRED",
            f"Of {int(waits.waited[chosen].sum()):,} waits {inferred:,} are inferred from times, not recorded.",
        )
    if not (trace.kind == EventKind.PYTHON).any():
        yield not_recorded("Python calls", "there is no source")
