"""The rows of a query as a lane of the timeline: rows that name an event, or that have a time of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.layout import packing
from kinetoscope.model.timeline.layout import timeline
from kinetoscope.model.timeline.replays import drawn_events
from kinetoscope.model.trace.polars_columns import integers
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Result
from kinetoscope.server.errors import BadValueError
from kinetoscope.server.json_encoding import MAX_INTEGER
from kinetoscope.server.timeline.hues import NO_HUE, hue_of

MAX_MARKS: Final = 50_000
"""Rows of a query that are drawn on a rank."""

_MAX_DEPTH: Final = 16
"""Rows of the lane; what overlaps more often shares the last one."""

_MAX_NAMES: Final = 5_000
"""Names that are told apart; others are none."""

_MAX_NAME_CHARACTERS: Final = 240


@dataclass(frozen=True, slots=True)
class QueryMarks:
    """The rows of a query on one rank, by start.

    Attributes:
        rank: its number.
        start, end: ns after its first event.
        row: events, −1 for none.
        depth: rows of the lane.
        name: places in `names`, whose colours are `hues`.
    """

    rank: int
    start: Sequence[int]
    end: Sequence[int]
    row: Sequence[int]
    depth: Sequence[int]
    name: Sequence[int]
    names: Sequence[str]
    hues: Sequence[int]


@dataclass(frozen=True, slots=True)
class QueryLanes:
    """The marks on each rank that is drawn, and what of the rows is left out, in one sentence each."""

    lanes: Sequence[QueryMarks]
    notes: Sequence[str]


def require_places(result: Result, ranks: int) -> None:
    """Refuse rows that name no place on the timeline.

    Args:
        result: of the query.
        ranks: how many ranks it was asked of.

    Raises:
        BadValueError: there is neither `row` nor `start`, or nothing says of which rank they are.
    """
    columns = result.frame.schema
    place = next((name for name in ("row", "start") if name in columns and columns[name].is_integer()), None)
    if place is None:
        raise BadValueError(
            "rows become a lane by a column row, or by start and end (or duration)", "SELECT row, name FROM kernels"
        )
    if ranks > 1 and "rank" not in columns:
        raise BadValueError("with several ranks the rows need the column rank", f"SELECT rank, {place}, … FROM …")


def lane_answer(result: Result, traces: Sequence[Trace]) -> QueryLanes:
    """The marks on each rank that is drawn, and what of the rows is left out, in one sentence each."""
    frame, lanes, drawn = result.frame, list[QueryMarks](), 0
    for trace in traces:
        own = frame.filter(pl.col("rank") == trace.source.rank) if "rank" in frame.columns else frame
        lanes.append(_marks(trace, own))
        drawn += len(lanes[-1].start)
    notes = []
    if drawn < frame.height:
        notes.append(
            f"Of the {frame.height:,} rows of the query {drawn:,} are drawn: the others have no time, are of ranks "
            f"that are not shown, or come after the first {MAX_MARKS:,} of their rank."
        )
    return QueryLanes(lanes, notes)


def _marks(trace: Trace, frame: pl.DataFrame) -> QueryMarks:
    start, end, row, places = _spans(trace, frame)
    kept = np.flatnonzero((np.abs(start) <= MAX_INTEGER) & (np.abs(end) <= MAX_INTEGER))[:MAX_MARKS]
    kept = kept[np.lexsort((-end[kept], start[kept]))]
    start, end, row, places = start[kept], np.maximum(end[kept], start[kept]), row[kept], places[kept]
    order, none = np.arange(len(kept), dtype=np.int32), np.full(len(kept), packing.NO_ROW, np.int32)
    depth = packing.packed(start, end, order, np.array([0, len(kept)], np.int64), none, most=_MAX_DEPTH)
    names, number = _names(frame, places)
    return QueryMarks(
        rank=trace.source.rank,
        start=start.tolist(),
        end=end.tolist(),
        row=row.tolist(),
        depth=depth.tolist(),
        name=number.tolist(),
        names=names,
        hues=[hue_of(name) if name else NO_HUE for name in names],
    )


def _spans(trace: Trace, frame: pl.DataFrame) -> tuple[Int64s, Int64s, Int32s, Int64s]:
    """Start and end, ns after the origin, event (−1 for none) and place in the frame of each row that has them."""
    origin = timeline(trace).origin
    if "row" in frame.columns and frame.schema["row"].is_integer():
        values, known = integers(frame["row"])
        places = np.flatnonzero(known & (values >= 0) & (values < len(trace)))
        row = values[places].astype(np.int32)
        start, end = (each[row] - origin for each in drawn_events(trace)[1:])
        return start, end, row, places
    start, known = integers(frame["start"])
    end = start
    if "end" in frame.columns and frame.schema["end"].is_integer():
        end, ended = integers(frame["end"])
        known = known & ended
    elif "duration" in frame.columns and frame.schema["duration"].is_integer():
        length, ended = integers(frame["duration"])
        end, known = start + length, known & ended
    places = np.flatnonzero(known)
    return start[places] - origin, end[places] - origin, np.full(len(places), -1, np.int32), places


def _names(frame: pl.DataFrame, places: Int64s) -> tuple[list[str], Int32s]:
    """The distinct names, and the place of each mark's among them: those of `name`, else of the first text."""
    texts = [name for name, dtype in frame.schema.items() if dtype == pl.String or isinstance(dtype, pl.Enum)]
    column = "name" if "name" in texts else next(iter(texts), None)
    if column is None:
        return [""], np.zeros(len(places), np.int32)
    values = frame[column].cast(pl.String).gather(places).fill_null("").str.slice(0, _MAX_NAME_CHARACTERS)
    names = values.unique(maintain_order=True).head(_MAX_NAMES)
    number = values.replace_strict(names, pl.Series(range(1, len(names) + 1), dtype=pl.Int32), default=0)
    return ["", *names.to_list()], number.cast(pl.Int32).to_numpy()
