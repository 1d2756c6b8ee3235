"""Floor, efficiency and headroom of any groups of device work: the columns that several tables have."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Floats, Int32s, Int64s
from kinetoscope.algorithms.grouping import node_totals
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.roofline.floors import floors
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace

MAX_FLOOR_NS: Final = 1 << 62
"""No floor that is shown is longer: shapes that give one are not those of tensors."""


def group_floors(
    trace: Trace, codes: Int32s, groups: int, work: Int64s, time: Int64s, *, parent: Int32s | None = None
) -> dict[str, pl.Series]:
    """Floor, efficiency and headroom of groups of device work; null where no work of a group has a floor.

    Args:
        trace: all of it.
        codes: int32 [n], the group of each piece, negative for none.
        groups: how many there are.
        work: int64 [n], which of `device_work` the pieces are. They share the floor of a call as they share its time.
        time: int64 [n], how long each counts, ns: its duration, or the part of it in a range of time.
        parent: int32 [groups], the group around each, to which its work counts, too; None where groups do not nest.
    """
    limits, duration = floors(trace), device_work(trace).duration[work]
    part = np.where(time == duration, 1.0, time / np.maximum(duration, 1))
    floor = limits.floor[limits.unit[work]] * limits.share[work] * part
    known = (codes >= 0) & ~np.isnan(floor)
    codes, floor, time = codes[known], floor[known], time[known]

    def total(values: Floats) -> Int64s:
        whole = np.rint(np.minimum(np.bincount(codes, values, groups), MAX_FLOOR_NS)).astype(np.int64)
        return whole if parent is None else node_totals(whole, parent)

    is_known = total(np.ones(len(codes))) > 0
    least, spent = total(floor), total(time.astype(np.float64))
    return {
        "floor": polars_columns.column(least, is_known),
        "efficiency": polars_columns.numbers(np.where(is_known, least / np.where(spent > 0, spent, np.nan), np.nan)),
        "headroom": polars_columns.column(total(np.maximum(time - floor, 0.0)), is_known),
    }
