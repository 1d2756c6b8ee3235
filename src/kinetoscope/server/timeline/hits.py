"""The hits of a search as a table: when, how long, in which lane, with what name; of one rank or of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.model.timeline.layout import REST, timeline
from kinetoscope.model.timeline.replays import drawn_events, replay_rows
from kinetoscope.model.timeline.search import Hits
from kinetoscope.model.trace.polars_columns import column, labelled, texts
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Result, Schema

RESULT: Final = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("start", pl.Int64, "From the first event of the trace on.", "ns", instant=True),
    Column("duration", pl.Int64, "From start to end.", "ns"),
    Column("name", pl.String, "As recorded."),
    Column("lane", pl.String, "The lane in which it is drawn."),
    Column("row", pl.Int64, "Number of the event in the file, from 0 on."),
)


def hits_table(of_ranks: Sequence[tuple[Trace, Hits]], notes: Sequence[Note] = ()) -> Result:
    """The hits of some ranks, rank after rank, in order of time."""
    frames = [_frame(trace, hits) for trace, hits in of_ranks]
    return Result(pl.concat(frames) if frames else RESULT.empty(), RESULT, tuple(notes))


def _frame(trace: Trace, hits: Hits) -> pl.DataFrame:
    rows, layout = hits.rows, timeline(trace)
    _, start, end = (each[rows] for each in drawn_events(trace))
    lanes = layout.lanes
    number = np.full((len(trace.tracks), REST + 1), -1, np.int32)
    number[[lane.track for lane in lanes], [lane.layer for lane in lanes]] = np.arange(len(lanes))
    of_hit = number[trace.track[rows], layout.layer[rows]]
    captured = np.flatnonzero(rows >= trace.recorded)
    if len(captured) and (replayed := replay_rows(trace)) is not None:
        places = np.array([place for place, lane in enumerate(lanes) if lane.id in replayed.of_lane], np.int32)
        of_hit[captured] = places[replayed.calls.lane[rows[captured] - trace.recorded]]
    titles = [_title(lane.group.title, lane.title) for lane in lanes]
    frame = pl.DataFrame(
        {
            "rank": pl.Series(np.full(len(rows), trace.source.rank)),
            "start": column(start - layout.origin),
            "duration": column(np.maximum(end - start, 0)),
            "name": texts(trace.strings, trace.name[rows]),
            "lane": labelled(of_hit, titles.__getitem__),
            "row": column(rows),
        }
    )
    return RESULT.conform(frame)


def _title(group: str, lane: str) -> str:
    return lane if lane == group else f"{group.partition(' · ')[0]} · {lane}"
