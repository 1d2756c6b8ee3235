"""Which ranks have the same to do, and so can be compared: stages of a pipeline do different work."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope.model.collectives.attributes import POINT_TO_POINT
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.model.trace.trace import Trace

LAUNCHED: Final = "launched"
"""A column: how much computation was launched since the collective before."""

_SINGLE: Final = pl.col("kind").is_in(POINT_TO_POINT)


def stages(frame: pl.DataFrame) -> pl.DataFrame:
    """`stage` of each `rank`: a code for what it sends and receives at least once in each step."""
    direction = (pl.col("destination_rank") - pl.col("rank")).sign()
    steps = pl.col("step").n_unique().over("rank")
    inside = frame.filter(pl.col("step").is_not_null())
    often = inside.select("rank", "kind", direction=direction, steps=steps).filter(_SINGLE)
    often = often.group_by("rank", "kind", "direction").agg(pl.len(), pl.col("steps").first())
    often = often.filter(pl.col("len") >= pl.col("steps")).sort("rank", "kind", "direction")
    said = often.group_by("rank").agg(what=pl.concat_str("kind", pl.col("direction").cast(pl.String).fill_null("")))
    every = frame.select(pl.col("rank").unique()).join(said, on="rank", how="left")
    text = pl.col("what").list.join(" ").fill_null("")
    return every.select("rank", stage=text.rank("dense").cast(pl.Int32))


def alike(frame: pl.DataFrame) -> pl.DataFrame | None:
    """`stage` of each `rank`: a code, equal for those that do the same; None where that cannot be told.

    It is how often in a step they are in collectives of each kind, and what they send and receive. Where nothing says
    to whom they send, ranks of one stage are known by their program: they launch the same in the same order.
    """
    text: pl.Expr = pl.col("what")
    if not frame.filter(_SINGLE)["destination_rank"].null_count():
        often = frame.filter(~_SINGLE, pl.col("step").is_not_null()).group_by("rank", "step", "kind").agg(pl.len())
        often = often.group_by("rank", "kind").agg(pl.col("len").median()).sort("rank", "kind")
        said = often.group_by("rank", maintain_order=True).agg(what=pl.format("{} {}", "kind", "len"))
        every = stages(frame).join(said, on="rank", how="left")
        text = pl.format("{}: {}", "stage", pl.col("what").list.join(" ").fill_null(""))
    elif frame["on_host"].any():
        return None  # while a host waits for another stage nothing is recorded: that would seem to be its own time
    else:
        inside = frame.filter(pl.col("launch").is_not_null(), pl.col("step").is_not_null())
        inside = inside.sort("rank", "cycle", "place")
        # before a step's first collective also counts what was launched before the step, if that was recorded
        first = pl.col("place") == pl.col("place").min().over("rank", "cycle", "step")
        launched = pl.when(first).then(0).otherwise(LAUNCHED)
        program = inside.group_by("rank", "cycle", "step", maintain_order=True).agg(
            what=pl.format("{} {}", launched, "kind")
        )
        every = program.group_by("rank").agg(what=pl.col("what").list.join(" ").mode().min())
    return every.select("rank", stage=text.rank("dense").cast(pl.Int32)).sort("rank")


def launched_before(trace: Trace, calls: pl.DataFrame) -> pl.Series:
    """LAUNCHED of the calls, rows of `before_collectives` of the trace."""
    work = device_work(trace)
    call = work.launch[work.of(WorkKind.COMPUTATION)]
    launches = np.sort(trace.start[call[call >= 0]])
    launch, known = polars_columns.integers(calls["launch"])
    since = np.where(known, np.searchsorted(launches, trace.start[launch]), 0)
    return pl.Series(LAUNCHED, np.diff(np.maximum.accumulate(since), prepend=0).astype(np.int32))
