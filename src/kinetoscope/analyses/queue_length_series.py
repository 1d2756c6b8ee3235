"""How far the host runs ahead of each stream, from moment to moment."""

from __future__ import annotations

import polars as pl

from kinetoscope.algorithms.intervals.sweeps import count_open
from kinetoscope.model.device.queues import queues
from kinetoscope.model.job import Job, Partial
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Analysis, Column, Lines, Result, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.Int64, "Device of the rank."),
    Column("stream", pl.Int64, "Stream of the device."),
    Column("time", pl.Int64, "When the length changes, from the first event of the trace on.", "ns", instant=True),
    Column("length", pl.Int64, "Launches in the queue from then until the next row of the stream."),
)


def queue_length_series(job: Job, *, select: Selection = ALL) -> Result:
    """How does the length of each stream's queue change over time?

    Method. As in `queue_length`: +1 when a launch's call starts, −1 when the first work that it made on the stream
    starts. There is a row for each time at which that changes the length, by device, stream and time; before the first
    row of a stream the length is 0, and from its last row on it is 0 again.

    How to read it. Where the curve comes down to 0 the device has nothing to do until the host launches more. A curve
    that climbs through the forward pass and falls at a synchronisation is the usual picture.

    Limits. What comes at one nanosecond is one row. With a range of time, waits are cut to it. Work that starts before
    its call, by the clocks, waited 0 ns and has no row. HTA gives the same curve of the calls that it knows, with a row
    for each change of several at one time, and can fall below 0.
    """
    return job.map(_of_trace, RESULT, select)


ANALYSIS = Analysis(
    "Queue length over time",
    queue_length_series,
    RESULT,
    chart=Lines("time", "length", by=("rank", "device", "stream")),
)


def _of_trace(trace: Trace, select: Selection) -> Partial:
    found = queues(trace, select)
    start, end = found.clipped
    curve = count_open(found.queue, start, end)
    frame = pl.DataFrame(
        {
            "device": polars_columns.rows(found.device[curve.group]),
            "stream": polars_columns.rows(found.stream[curve.group]),
            "time": curve.time - origin_of_time(trace),
            "length": curve.level,
        }
    )
    return Partial(frame, found.notes)
