"""Ranks that do the same work, and so can be compared: stages of a pipeline do different work."""

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
"""Column: number of kernels of computation launched since the collective before."""

_IS_POINT_TO_POINT: Final = pl.col("kind").is_in(POINT_TO_POINT)
_PROGRAM: Final = pl.col("program").list.join(" ")


def stages(frame: pl.DataFrame) -> pl.DataFrame:
    """`stage` of each `rank`: a code for what it sends and receives at least once in each step."""
    direction = (pl.col("destination_rank") - pl.col("rank")).sign()
    steps = pl.col("step").n_unique().over("rank")
    inside = frame.filter(pl.col("step").is_not_null())
    exchanges = inside.select("rank", "kind", direction=direction, steps=steps).filter(_IS_POINT_TO_POINT)
    exchanges = exchanges.group_by("rank", "kind", "direction").agg(pl.len(), pl.col("steps").first())
    exchanges = exchanges.filter(pl.col("len") >= pl.col("steps")).sort("rank", "kind", "direction")
    text = pl.concat_str("kind", pl.col("direction").cast(pl.String).fill_null(""))
    programs = exchanges.group_by("rank").agg(program=text)
    every = frame.select(pl.col("rank").unique()).join(programs, on="rank", how="left")
    return every.select("rank", stage=_PROGRAM.fill_null("").rank("dense").cast(pl.Int32))


def same_stage(frame: pl.DataFrame) -> pl.DataFrame | None:
    """`stage` of each `rank`: a code, equal for those that do the same; None where that is not known.

    It is how often in a step they are in collectives of each kind, and what they send and receive. Where destinations
    are not recorded, ranks of one stage are recognized by their program: they launch the same in the same order.
    """
    text = _PROGRAM
    if not frame.filter(_IS_POINT_TO_POINT)["destination_rank"].null_count():
        counts = (
            frame.filter(~_IS_POINT_TO_POINT, pl.col("step").is_not_null())
            .group_by("rank", "step", "kind")
            .agg(pl.len())
        )
        counts = counts.group_by("rank", "kind").agg(pl.col("len").median()).sort("rank", "kind")
        programs = counts.group_by("rank", maintain_order=True).agg(program=pl.format("{} {}", "kind", "len"))
        every = stages(frame).join(programs, on="rank", how="left")
        text = pl.format("{}: {}", "stage", _PROGRAM.fill_null(""))
    elif frame["on_host"].any():
        return None  # while a host waits for another stage nothing is recorded: that would seem to be its own time
    else:
        inside = frame.filter(pl.col("launch").is_not_null(), pl.col("step").is_not_null())
        inside = inside.sort("rank", "cycle", "place")
        # before a step's first collective also counts what was launched before the step, if that was recorded
        first = pl.col("place") == pl.col("place").min().over("rank", "cycle", "step")
        launched = pl.when(first).then(0).otherwise(LAUNCHED)
        of_steps = inside.group_by("rank", "cycle", "step", maintain_order=True).agg(
            program=pl.format("{} {}", launched, "kind")
        )
        every = of_steps.group_by("rank").agg(program=_PROGRAM.mode().min())
        text = pl.col("program")
    return every.select("rank", stage=text.rank("dense").cast(pl.Int32)).sort("rank")


def launched_before(trace: Trace, calls: pl.DataFrame) -> pl.Series:
    """LAUNCHED of the calls, rows of `before_collectives` of the trace."""
    work = device_work(trace)
    call = work.launch[work.of(WorkKind.COMPUTATION)]
    launches = np.sort(trace.start[call[call >= 0]])
    launch, known = polars_columns.integers(calls["launch"])
    launched = np.where(known, np.searchsorted(launches, trace.start[launch]), 0)
    return pl.Series(LAUNCHED, np.diff(np.maximum.accumulate(launched), prepend=0).astype(np.int32))
