"""The process group of each collective, by its arguments and `distributedInfo`."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.grouping import group
from kinetoscope.model.collectives.attributes import MAX_ELEMENTS
from kinetoscope.model.collectives.host_records import Records
from kinetoscope.model.collectives.process_groups import ProcessGroup, configured, resolved, whole_list, world_size
from kinetoscope.model.trace.trace import Trace

_NO_CODE: Final = -1

COLUMNS: Final = {
    "group": pl.String,
    "group_name": pl.String,
    "group_description": pl.String,
    "group_size": pl.Int64,
    "group_ranks": pl.String,
    "candidates": pl.String,
    "world": pl.Int64,
}
"""Columns of `group_columns`."""


def group_columns(trace: Trace, records: Records) -> dict[str, pl.Series]:
    """Columns of `CALLS` about the group; where a rank has just one, calls that name none are taken for its."""
    names = records.codes(trace, "process_group")
    numbers = records.integers(trace, "process_group")  # an ID in files of spring 2024
    facts = (
        np.where(names >= 0, names, _NO_CODE),
        np.where(names >= 0, _NO_CODE, numbers),
        records.codes(trace, "process_group_description"),
        records.codes(trace, "process_group_ranks"),
        records.integers(trace, "group_size"),
        records.integers(trace, "first_rank"),
        records.integers(trace, "rank_stride"),
    )
    codes, first = group(*facts)
    known = configured(trace)
    groups = [_group(trace, known, *(int(fact[row]) for fact in facts)) for row in first.tolist()]
    place = pl.Series(codes, dtype=pl.UInt32)
    every = "\n".join(each.written() for each in known)
    candidates = [every if each is None else None for each in groups]
    only = known[0] if len(known) == 1 else ProcessGroup()
    groups = [only if each is None else each for each in groups]

    distinct = pl.DataFrame(
        {
            "group": [each.key for each in groups if each],
            "group_name": [each.name for each in groups if each],
            "group_description": [each.description for each in groups if each],
            "group_size": [each.size for each in groups if each],
            "group_ranks": [each.ranks for each in groups if each],
            "candidates": candidates,
            "world": [world_size(trace)] * len(groups),
        },
        schema=COLUMNS,
    )
    return {column.name: column for column in distinct[place]}


def _group(
    trace: Trace, known: list[ProcessGroup], name: int, number: int, description: int, ranks: int, size: int, *even: int
) -> ProcessGroup | None:
    """The group that arguments describe; None where they describe none."""
    strings = trace.strings
    if name < 0 and number < 0 and ranks < 0:
        return None
    called = strings.label(name) if name >= 0 else str(number) if number >= 0 else None
    count = size if 0 < size < MAX_ELEMENTS else None
    listed = whole_list(strings.label(ranks), count) if ranks >= 0 else None
    about = strings.label(description) if description >= 0 else None
    return resolved(ProcessGroup(called, about, count, listed), known, *even)
