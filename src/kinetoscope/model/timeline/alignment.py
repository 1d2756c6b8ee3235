"""Where the time 0 of each rank lies on one clock, so that ranks can be drawn beneath one another."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from kinetoscope.model.collectives.process_groups import host_of
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.trace.trace import Trace

_FAR = 1 << 53
"""Offsets beyond this, ns, are none of ranks that ran together: a hundred days."""


def offsets(traces: Sequence[Trace]) -> tuple[list[int], tuple[str, ...]]:
    """What is added to the times of each trace, counted from its own time 0, to have them on the clock of the first.

    Clocks are set by the ends of collectives that the ranks have in common (`model.matching.clocks`).
    Returns ns by trace, and what must be said.
    """
    if len(traces) < 2:
        return [0] * len(traces), ()
    from kinetoscope.model.matching.clocks import aligned
    from kinetoscope.model.matching.match import match_and_align

    origins = [trace.base + origin_of_time(trace) for trace in traces]
    calls = pl.concat([_calls(trace) for trace in traces])
    notes: tuple[str, ...] = ("No collectives were recorded: clocks of ranks are as the files have them.",)
    if len(calls):
        found = match_and_align(calls)
        frame = pl.DataFrame(
            {
                "rank": [trace.source.rank for trace in traces],
                "host": pl.Series([host_of(trace) for trace in traces], dtype=pl.String),
                "end": pl.Series(origins, dtype=pl.Int64),
            }
        )
        origins, notes = aligned(frame, found.clocks)["end"].to_list(), found.clocks.notes
    shifts = [origin - origins[0] for origin in origins]
    if max(map(abs, shifts)) > _FAR:
        said = "The ranks were recorded more than a hundred days apart: each is shown from its own beginning."
        return [0] * len(traces), (said,)
    return shifts, notes


def _calls(trace: Trace) -> pl.DataFrame:
    from kinetoscope.model.collectives.calls import collective_calls

    rank, host = pl.lit(trace.source.rank, pl.Int64), pl.lit(host_of(trace), pl.String)
    return collective_calls(trace).with_columns(rank=rank, host=host)
