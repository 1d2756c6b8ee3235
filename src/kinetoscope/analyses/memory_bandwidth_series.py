"""How fast copies and sets of device memory are, from moment to moment."""

from __future__ import annotations

import polars as pl

from kinetoscope.charts import Lines
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.copies import transfers
from kinetoscope.model.steps.scope import origin_of_time, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.Int64, "Device of the rank."),
    Column("direction", pl.String, "HtoD, DtoH, DtoD, PtoP (H host, D device, P peer, S shared), memset, or unknown."),
    Column("time", pl.Int64, "When the bandwidth changes, from the first event of the trace on.", "ns", instant=True),
    Column("bandwidth", pl.Float64, "Bytes a second of all copies that run from then until the next row.", "bytes/s"),
    across={"device": "device", "key": "time", "own": "bandwidth"},
)


def memory_bandwidth_series(trace: Trace, select: Selection) -> Partial:
    """How does the memory bandwidth that copies and sets use change over time?

    Method. Each copy counts with its bytes / its duration while it runs; the value is the sum over the running copies.
    A row for each time at which the sum changes, by device, direction and time; before the first row of a direction and
    after its last it is 0.

    How to read it. Bursts at the same place of each step are copies of the input, of gradients or of results. See
    `memory_bandwidth` for the numbers.

    Limits. Copies without a size or a duration are counted in the notes and add nothing. With a time range, copies are
    cut to it. Sums are exact to about 15 digits of the greatest of them, and exactly 0 when nothing runs.
    """
    copies = transfers(scope(trace, select))
    curve = copies.bandwidth
    frame = pl.DataFrame(
        {
            "device": polars_columns.rows(copies.device[curve.group]),
            "direction": polars_columns.labelled(curve.group, lambda group: copies.direction[group]),
            "time": curve.time - origin_of_time(trace),
            "bandwidth": curve.level,
        }
    )
    return Partial(frame, copies.notes)


ANALYSIS = Analysis(
    "Memory bandwidth over time",
    memory_bandwidth_series,
    RESULT,
    chart=Lines("time", "bandwidth", by=("rank", "device", "direction")),
)
