"""Time of intervals charged to the rows of a tree that they belong to: each row's sum, and the time that it covers.

The case at hand is device work, charged to the calls that launched it: to a call and, at wish, to all calls around it,
and summed over groups of calls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s, require_rows
from kinetoscope.algorithms.compiled import compiled, frozen


class Charged(NamedTuple):
    """Sums of each group: int64 [groups] each.

    Attributes:
        total: sum of the lengths, an interval counted once in each group whose rows it is charged to.
        covered: length of the union, each instant once.
    """

    total: Int64s
    covered: Int64s


def charge(
    start: Int64s, end: Int64s, row: Int32s, parent: Int32s, group: Int32s, groups: int, *, climb: bool
) -> Charged:
    """Charge each interval to the group of its row, and if `climb` to the groups of all rows that enclose that one.

    Args:
        start: int64 [n], where the intervals start; they are in any order.
        end: int64 [n], where they end; those that end before they start count for nothing.
        row: int32 [n], where each belongs; a negative row is nowhere.
        parent: int32 [rows], the row around each, negative for none.
        group: int32 [rows], the group of each row; a negative group counts nowhere, the rows around it do.
        groups: how many groups there are.
        climb: whether rows around a row are charged too.

    Raises:
        ValueError: the arrays differ in length, or a row, parent or group is out of range.
    """
    require_rows(start.size, start=start, end=end, row=row)
    require_rows(parent.size, parent=parent, group=group)
    for what, values, limit in (("row", row, parent.size), ("parent", parent, parent.size), ("group", group, groups)):
        if values.size and values.max() >= limit:
            raise ValueError(f"{what} {values.max()} is out of range: there are {limit}")
    order = np.argsort(start, kind="stable")
    total, covered = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    _charge(
        frozen(start[order], np.int64),
        frozen(end[order], np.int64),
        frozen(row[order], np.int32),
        frozen(parent, np.int32),
        frozen(group, np.int32),
        climb,
        total,
        covered,
        np.empty(groups, np.int64),
        np.full(groups, -1, np.int64),
    )
    return Charged(total, covered)


@compiled
def _charge(
    start: Int64s,
    end: Int64s,
    row: Int32s,
    parent: Int32s,
    group: Int32s,
    climb: bool,
    total: Int64s,
    covered: Int64s,
    reach: Int64s,
    latest: Int64s,
) -> None:
    """Intervals come in order of start, so the union of a group grows at its greatest end so far, `reach`.

    `latest` is the last interval that was charged to each group, −1 for none.
    """
    for i in range(start.size):
        if end[i] <= start[i]:
            continue
        above = row[i]
        while above >= 0:
            g = group[above]
            if g >= 0 and latest[g] != i:
                total[g] += end[i] - start[i]
                if latest[g] < 0 or start[i] >= reach[g]:
                    covered[g] += end[i] - start[i]
                    reach[g] = end[i]
                elif end[i] > reach[g]:
                    covered[g] += end[i] - reach[g]
                    reach[g] = end[i]
                latest[g] = i
            above = parent[above] if climb else -1
