"""How much of the communication runs while the device computes."""

from __future__ import annotations

import polars as pl

from kinetoscope.algorithms.intervals import intersection
from kinetoscope.model.busy import Busy, busy, nothing_ran
from kinetoscope.model.job import Job, Partial
from kinetoscope.model.naming import listed
from kinetoscope.model.scope import scope
from kinetoscope.model.selection import ALL, Selection
from kinetoscope.model.trace import Trace
from kinetoscope.schema import Analysis, Bars, Column, Result, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.Int64, "Device of the rank."),
    Column("communication", pl.Int64, "Time with communication running.", "ns"),
    Column("computation", pl.Int64, "Time with computation running.", "ns"),
    Column("overlap", pl.Int64, "Time with both running.", "ns"),
    Column("exposed_communication", pl.Int64, "Time with communication and no computation running.", "ns"),
    Column("overlap_share", pl.Float64, "Overlap / communication; null without communication.", "fraction"),
)


def overlap(job: Job, *, select: Selection = ALL) -> Result:
    """How much of the communication is hidden by computation?

    Method. On each device the time in which any collective's kernel runs, on any stream, is intersected with the time
    in which any computation kernel runs. The share is what of the communication is in both.

    How to read it. 1 means that communication costs no time of its own, 0 that the device stops computing for it: then
    `exposed_communication` is what better overlap (buckets, prefetching, another stream) could save at most. Without
    communication there is no share: null, not 0.

    Limits. Kernels that run at the same time compete for the device, so hidden communication is not free. Waiting for a
    slower rank inside a collective counts as communication. Unlike HTA, `cuda_sync` rows are no work, collectives are
    told by more than the prefix `nccl` of a name (custom all-reduces, NVSHMEM, DeepEP, RCCL, arguments of
    collectives), kernels whose names begin with `hip` are not communication because of that, and the last step is not
    left out.
    """
    return job.map(_of_trace, RESULT, select)


ANALYSIS = Analysis("Overlap", overlap, RESULT, chart=Bars("rank", "overlap_share"))


def _of_trace(trace: Trace, select: Selection) -> Partial:
    view = scope(trace, select)
    devices = busy(view)
    notes = list(view.notes) if select != ALL else []
    silent = [each.device for each in devices if not each.communication.length]
    if not devices:
        notes.append(nothing_ran(view))
    elif silent:
        notes.append(f"No communication ran on device {listed(silent)}: there is nothing to overlap.")
    frame = pl.DataFrame([_row(each) for each in devices], schema=RESULT.without("rank").empty().schema, orient="row")
    return Partial(frame, tuple(notes))


def _row(each: Busy) -> tuple[int | float | None, ...]:
    communication, both = each.communication.length, intersection(each.communication, each.computation).length
    share = both / communication if communication else None
    return each.number, communication, each.computation.length, both, communication - both, share
