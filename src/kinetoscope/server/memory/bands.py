"""A stretch of the history of a device as bands: bytes of each category at the highest instant of each column."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.layout.bands import columns_of
from kinetoscope.model.memory.categories import CATEGORIES
from kinetoscope.model.snapshot.bands import bands, categories, category_changes, event_instants
from kinetoscope.model.snapshot.replay import SnapshotHistory, level
from kinetoscope.model.trace.trace import Trace
from kinetoscope.server.http.endpoint import JsonResponse, rows_response
from kinetoscope.server.memory.answers import Axis, MemoryBands

MAX_COLUMNS: Final = 8000
"""Columns of a picture: twice as many as the widest screens have pixels."""


def bands_answer(
    trace: Trace, past: SnapshotHistory, *, by: Axis, stretch: tuple[int, int] | None, columns: int
) -> JsonResponse[MemoryBands]:
    """The bytes of each category, at the highest instant of each column.

    Args:
        trace: whose snapshot it is.
        past: the history of a device.
        by: the axis.
        stretch: of that axis; None for all.
        columns: at most so many rows, besides the state before them.
    """
    instants = event_instants(trace, past.device)
    count = len(past.events)
    if by == "event" or not len(instants):
        start, end = stretch or (0, max(count, 1))
        begins = columns_of(min(max(start, 0), count), min(max(end, 0), count), columns)
    else:
        start, end = stretch or (int(instants[0]), int(instants[-1]) + 1)
        edges = start + np.arange(columns + 1) * (end - start) // columns
        begins = np.unique(np.searchsorted(instants, edges))
        begins = begins if len(begins) > 1 else np.repeat(begins, 2)
    changes = category_changes(trace, past.device)
    drawn = bands(past, categories(trace, past.device), changes, begins)
    places = drawn.place.copy() if by == "event" or not len(instants) else _at(instants, drawn.place)
    places[0] = start
    frame = pl.DataFrame(
        {
            "event": drawn.place,
            "at": places,
            "reserved": level(trace, past.device, "reserved")[drawn.place + 1],
            **{name: drawn.levels[:, place] for place, name in enumerate(CATEGORIES)},
        }
    )
    times = _at(instants, drawn.place).tolist() if by == "event" and len(instants) else None
    return rows_response(MemoryBands(by, start, end, CATEGORIES, times), frame)


def _at(instants: Int64s, event: Int64s) -> Int64s:
    return instants[np.maximum(event, 0)]
