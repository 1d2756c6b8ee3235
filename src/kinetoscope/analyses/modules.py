"""What each module of the model cost, in the forward and in the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.grouping import node_totals, preorder, sum_by
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.busy import no_work_note
from kinetoscope.model.execution.call_tree import call_tree, owned_times
from kinetoscope.model.operators.modules import Modules
from kinetoscope.model.operators.modules import modules as modules_of
from kinetoscope.model.roofline.group_floors import group_floors
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.recording import not_recorded
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, MeanBy, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("path", pl.String, "Names of the modules from the outermost to this one, parted by slashes."),
    Column("depth", pl.Int64, "How many modules are around it."),
    Column("name", pl.String, "Name of the module, the last of its path."),
    Column("calls", pl.Int64, "How many calls of it began in the selection; null where calls were not recorded."),
    Column("host_total", pl.Int64, "Host time in it and the modules inside, forward and backward pass.", "ns"),
    Column("host_self", pl.Int64, "Host time in it and in none of the modules inside.", "ns"),
    Column("host_forward", pl.Int64, "Of host_total, the forward pass.", "ns"),
    Column("host_backward", pl.Int64, "Of host_total, the backward pass; null if none is linked.", "ns"),
    Column("device_total", pl.Int64, "Sum of the durations of the device work launched for it and those inside.", "ns"),
    Column(
        "device_self", pl.Int64, "Durations of the device work launched for it and none of the modules inside.", "ns"
    ),
    Column("device_forward", pl.Int64, "Of device_total, what was launched in the forward pass.", "ns"),
    Column("device_backward", pl.Int64, "Of device_total, the backward pass; null if none is linked.", "ns"),
    Column("operators", pl.Int64, "Operators that it called itself, not those inside other operators or modules."),
    Column("floor", pl.Int64, "Time of device_total at the device's peaks (see `roofline`); null if unknown.", "ns"),
    Column("efficiency", pl.Float64, "Floor / that of device_total that has one; above 1 in a cache.", "fraction"),
    Column("headroom", pl.Int64, "Of device_total, time above the floor.", "ns"),
    across={
        "key": "depth",
        "sum": "calls host_total host_self host_forward host_backward device_total device_self device_forward "
        "device_backward operators floor headroom",
        MeanBy("device_total"): "efficiency",
    },
)


def modules(trace: Trace, select: Selection) -> Partial:
    """Which modules of the model take the time, in the forward and in the backward pass?

    Method. Modules come from the Python calls `nn.Module: …`, nested by time; without stacks from the spans of PyTorch
    Lightning's profiler, nested by their dotted names; else from the module hierarchy that TorchScript writes into
    operators. The time of a call belongs to the innermost module around it. An operator of the backward pass belongs to
    the module of its forward operator, by the forward–backward links of the file (flow events, else sequence number and
    forward thread). Device work belongs to the module of its launch. Each instant of a thread, and each piece of device
    work, is self time of one module at most; total adds the modules inside.

    How to read it. Rows are in the order of the tree: after each module those inside it, the one with the most device
    time first (host time, without device work). Self columns add up over rows. Much host time and little device time:
    the module's launches take the time, not its kernels.

    Limits. The loss, the optimizer and the accumulation and exchange of gradients are in no module; notes say how much
    device time that is. A module that several others call has a row in each. A forward pass that is recomputed in the
    backward pass (checkpointing) counts as backward, and as a call of its module. With a time range, times are of what
    lies inside it, calls of those that begin in it.
    """
    view, tree = scope(trace, select), modules_of(trace)
    if not len(tree):
        return Partial(pl.DataFrame(schema=_SCHEMA), (_NOTE_WITHOUT_MODULES,))
    notes: list[Note] = []
    calls = np.bincount(tree.node[view.host_mask & tree.is_call], minlength=len(tree))
    work = view.device_work.caller[view.device_work_mask]
    own = owned_times(view.trace, tree.owner, view.clip)  # a call that is not selected still takes its time off
    rows = np.flatnonzero(tree.owner & view.host_mask_untimed).astype(np.int32)
    values: dict[str, Int64s | None] = {
        "calls": None if tree.origin == "operators" else calls,
        **_columns("host", tree, _by_module(tree, rows, own[rows])),
        **_columns("device", tree, _device(view, tree, work)),
        "operators": _operators(view, tree),
    }
    if not view.device_work_mask.any():
        values.update(dict.fromkeys([name for name in values if name.startswith("device_")]))
    if not tree.is_backward.any():
        values.update(host_backward=None, device_backward=None)
    notes += _notes(view, tree, work)
    return Partial(_ordered(tree, values, _floors(view, tree, work), select), tuple(notes))


ANALYSIS = Analysis(
    "Modules", modules, RESULT, chart=Bars("path", "device_self", instead="host_self"), of_operators=True
)

_FORWARD, _BACKWARD = 0, 1
_SCHEMA: Final = RESULT.per_rank.types

_NOTE_WITHOUT_MODULES: Final = not_recorded("modules")


@dataclass(frozen=True)
class _Split:
    """Self time of each module: int64 [modules] each, ns."""

    forward: Int64s
    backward: Int64s


# --- columns


def _device(view: Scope, tree: Modules, row: Int32s) -> _Split:
    work = view.device_work
    start, end = view.clipped(work.start[view.device_work_mask], work.end[view.device_work_mask])
    return _by_module(tree, row, end - start)


def _by_module(tree: Modules, row: Int32s, time: Int64s) -> _Split:
    """Times summed by the module and the pass of their rows; those of row −1 count nowhere."""
    node = np.where(row >= 0, tree.node[row], -1)
    key = np.where(node >= 0, 2 * node + tree.is_backward[row], -1).astype(np.int32)
    total = sum_by(key, 2 * len(tree), time)
    return _Split(total[_FORWARD::2], total[_BACKWARD::2])


def _columns(where: str, tree: Modules, own: _Split) -> dict[str, Int64s | None]:
    forward, backward = (node_totals(each, tree.parent) for each in (own.forward, own.backward))
    return {
        f"{where}_total": forward + backward,
        f"{where}_self": own.forward + own.backward,
        f"{where}_forward": forward,
        f"{where}_backward": backward,
    }


def _floors(view: Scope, tree: Modules, row: Int32s) -> dict[str, pl.Series]:
    work, chosen = view.device_work, np.flatnonzero(view.device_work_mask)
    start, end = view.clipped(work.start[chosen], work.end[chosen])
    node = np.where(row >= 0, tree.node[row], np.int32(-1))
    return group_floors(view.trace, node, len(tree), chosen, end - start, parent=tree.parent)


def _operators(view: Scope, tree: Modules) -> Int64s:
    """Operators directly in a call of each module: no other operator and no backward pass lies between."""
    trace, parent = view.trace, call_tree(view.trace).parent
    spelled = tree.origin == "operators"  # there an operator tells its own module, and no calls of modules are there
    is_op = (trace.kind == EventKind.HOST_OP) & (tree.is_call == spelled)
    rows = np.flatnonzero(is_op & view.host_mask & ~tree.is_backward)
    nearest = ancestor(parent, is_op | tree.owner)
    around = np.where(parent[rows] >= 0, nearest[parent[rows]], -1)
    inside = (around >= 0) & (tree.node[around] == tree.node[rows])
    direct = ~inside if spelled else inside & tree.is_call[around]
    return np.bincount(tree.node[rows[direct]], minlength=len(tree))


# --- rows and notes


def _ordered(
    tree: Modules, values: dict[str, Int64s | None], limits: dict[str, pl.Series], select: Selection
) -> pl.DataFrame:
    """Rows in the order of the tree; with a selection those of modules that have something in it."""
    texts = {"path": tree.paths, "name": tree.names, "depth": tree.depth}
    numbers = {name: [None] * len(tree) if column is None else column for name, column in values.items()}
    frame = pl.DataFrame({**texts, **numbers, **limits}, schema=_SCHEMA)
    size = [
        values["device_total"],
        values["host_total"],
        node_totals(values["calls"], tree.parent) if values["calls"] is not None else None,
    ]
    known = [each for each in size if each is not None]
    by_name = np.array(tree.names, np.object_).argsort(kind="stable").argsort()
    order = preorder(tree.parent, np.lexsort((by_name, *(-each for each in reversed(known)))))
    if select != ALL:
        order = order[np.any([each[order] != 0 for each in known], axis=0)]
    return frame[order]


def _notes(view: Scope, tree: Modules, launched: Int32s) -> Iterator[Note]:
    if tree.origin == "operators":
        yield Note("NO_MODULE_CALLS", "Calls of modules were not recorded: host time is that of the operators in them.")
    if not tree.is_backward.any():
        yield Note(
            "BACKWARD_NOT_LINKED",
            "No operator of a backward pass is linked to one of the forward pass: its columns are empty.",
        )
    if not len(launched):
        yield no_work_note(view, "the columns of device time are empty")
        return
    outside = (launched < 0) | (tree.node[launched] < 0)
    if outside.any():
        count = view.count_of_work(outside)
        yield Note(
            "OUTSIDE_MODULES",
            f"{count} are in no row: launched outside all modules, or by a call that was not recorded.",
        )
