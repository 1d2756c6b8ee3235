"""How far the host runs ahead of each stream, from moment to moment."""

from __future__ import annotations

import polars as pl

from kinetoscope.charts import Lines
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.queues import queues
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.Int64, "Device of the rank."),
    Column("stream", pl.Int64, "Stream of the device."),
    Column("time", pl.Int64, "When the length changes, from the first event of the trace on.", "ns", instant=True),
    Column("length", pl.Int64, "Launches in the queue from then until the next row of the stream."),
    across={"device": "device", "key": "stream time", "own": "length"},
)


def queue_length_series(trace: Trace, select: Selection) -> Partial:
    """How does the length of each stream's queue change over time?

    Method. As in `queue_length`: +1 when a launch's call starts, −1 when its first work on the stream starts. A row for
    each time at which the length changes, by device, stream and time; before the first row of a stream and after its
    last it is 0.

    How to read it. Where the curve comes down to 0 the device has nothing to do until the host launches more. A curve
    that climbs through the forward pass and falls at a synchronization is the usual picture.

    Limits. Changes at one nanosecond are one row. With a time range, waits are cut to it. Work that starts before its
    call, by the clocks, waited 0 ns and has no row.
    """
    waits = queues(trace, select)
    curve = waits.length
    frame = pl.DataFrame(
        {
            "device": polars_columns.rows(waits.device[curve.group]),
            "stream": polars_columns.rows(waits.stream[curve.group]),
            "time": curve.time - origin_of_time(trace),
            "length": curve.level,
        }
    )
    return Partial(frame, waits.notes)


ANALYSIS = Analysis(
    "Queue length over time",
    queue_length_series,
    RESULT,
    chart=Lines("time", "length", by=("rank", "device", "stream")),
)
