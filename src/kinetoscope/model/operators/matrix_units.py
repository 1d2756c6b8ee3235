"""Operators that matrix units (tensor cores, matrix cores) can compute, and how much of their time runs there."""

from __future__ import annotations

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.intervals.priority_sweep import charge
from kinetoscope.model.device.tensor_cores import ON_MATRIX_UNIT, UNKNOWN_UNIT, kernel_units
from kinetoscope.model.execution.calls import ShownCalls
from kinetoscope.model.operators.categories import PRODUCTS, categories_of_names
from kinetoscope.model.operators.costs import CallGroups, Launched, Values
from kinetoscope.model.steps.scope import Scope
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.event_kinds import EventKind


def matrix_unit_costs(
    view: Scope, calls: ShownCalls, groups: CallGroups, work: Launched, costs: Values
) -> dict[str, pl.Series]:
    """Groups of calls: is a call of it eligible, and how much of its device time runs on matrix units.

    Shares are of the time of work whose name tells; null where there is none. `costs` are the `device_costs`.
    """
    every, chosen, count = view.device_work, view.device_work_mask, len(groups)
    span = view.clipped(every.start[chosen], every.end[chosen])
    units = kernel_units(view.trace)[chosen]

    def share(row: Int32s, total: Int64s | None, *, climb: bool) -> pl.Series:
        yes, unknown = (
            charge(span.start[which], span.end[which], row[which], calls.parent, groups.code, count, climb=climb).total
            for which in (units == ON_MATRIX_UNIT, units == UNKNOWN_UNIT)
        )
        known = (unknown * 0 if total is None else total - unknown).astype(np.float64)
        return polars_columns.numbers(yes / np.where(known > 0, known, np.nan))

    return {
        "matrix_eligible": pl.Series(_eligible(view, calls, groups)),
        "matrix_self_share": share(work.own, costs["device_self"], climb=False),
        "matrix_total_share": share(work.row, costs["device_total"], climb=True),
    }


def _eligible(view: Scope, calls: ShownCalls, groups: CallGroups) -> Bools:
    """Groups that have a call that matrix units can compute: bool [groups].

    The rule of the TensorBoard plugin: an operator that is a product by its name (GEMM, convolution; here attention,
    too), one that launched a kernel on matrix units, or a call with such an operator inside.
    """
    trace, work = view.trace, view.device_work
    by_name = np.isin(categories_of_names(trace, trace.name[groups.first]), PRODUCTS)
    by_name &= trace.kind[groups.first] == EventKind.HOST_OP
    rows = np.flatnonzero(np.append(by_name, np.False_)[groups.code])
    launching = work.op[view.device_work_mask & (kernel_units(trace) == ON_MATRIX_UNIT) & (work.op >= 0)]
    reached: Int32s = np.concatenate([rows, calls.around[launching]]).astype(np.int32)
    eligible = np.zeros(len(trace) + 1, np.bool_)
    while len(reached := np.unique(reached[(reached >= 0) & ~eligible[reached]])):
        eligible[reached] = True
        reached = calls.parent[reached]
    return np.asarray(np.bincount(groups.code[eligible[:-1] & (groups.code >= 0)], minlength=len(groups)) > 0)
