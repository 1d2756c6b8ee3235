"""How much of the communication runs while the device computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import polars as pl

from kinetoscope.algorithms.intervals.intervals import Intervals, intersection, union
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.collectives.calls import base_of, computation, selected_calls
from kinetoscope.model.device.busy import Busy, busy, no_work_note
from kinetoscope.model.steps.scope import Scope, scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.text import listed
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, RatioOf, Schema

By = Literal["device", "group"]

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.Int64, "Device of the rank; null for collectives on the host."),
    Column("process_group", pl.String, "Process group of the collectives; null by device, and where it is unknown."),
    Column("communication", pl.Int64, "Time with communication running.", "ns"),
    Column("computation", pl.Int64, "Time with computation running.", "ns"),
    Column("overlap", pl.Int64, "Time with both running.", "ns"),
    Column("exposed_communication", pl.Int64, "Time with communication and no computation running.", "ns"),
    Column("overlap_share", pl.Float64, "Overlap / communication; null without communication.", "fraction"),
    across={
        "device": "device",
        "sum": "communication computation overlap exposed_communication",
        RatioOf("overlap", "communication"): "overlap_share",
    },
)


def overlap(
    trace: Trace,
    select: Selection,
    *,
    by: Annotated[By, Param("All communication of a device, or of each process group.")] = "device",
) -> Partial:
    """How much of the communication is hidden by computation?

    Method. On each device the time in which any kernel of a collective runs is intersected with the time in which any
    computation kernel runs, over all streams. With `by="group"` the communication is that of each process group (data,
    tensor, pipeline, expert parallel, …); collectives on the host (gloo) count there too, against computation on the
    devices or, where no device work was recorded, against the operators.

    How to read it. A share of 1: communication costs no time of its own. 0: the device stops computing for it, and
    `exposed_communication` is the most that better overlap (buckets, prefetching, another stream) could save. Without
    communication the share is null.

    Limits. Kernels that run at the same time compete for the device, so hidden communication is not free. Waiting for a
    slower rank inside a collective counts as communication (see `rank_balance`). Groups whose collectives run at the
    same time count the time each.
    """
    view = scope(trace, select)
    notes: list[Note] = []
    devices = busy(view)
    rows = list(_by_group(view, devices)) if by == "group" else [_by_device(each) for each in devices]
    silent = [each.device for each in devices if not each.communication.length]
    if by == "device" and not devices:
        notes.append(no_work_note(view))
    elif by == "group" and not rows:
        notes.append(Note("NO_COMMUNICATION", "No communication was recorded: there is nothing to overlap."))
    elif by == "device" and silent:
        notes.append(
            Note("SILENT_DEVICES", f"No communication ran on device {listed(silent)}: there is nothing to overlap.")
        )
    frame = RESULT.per_rank.frame(rows)
    return Partial(frame, tuple(notes))


ANALYSIS = Analysis("Overlap", overlap, RESULT, chart=Bars("rank", "overlap_share"), counts_warm_up=True)


Row = tuple[int | float | str | None, ...]


def _by_device(each: Busy) -> Row:
    return each.number, None, *_numbers(each.communication, each.computation)


def _by_group(view: Scope, devices: list[Busy]) -> Iterator[Row]:
    calls = selected_calls(view)
    running = {each.number: each.computation for each in devices}
    base = base_of(view.trace)
    for (device, group), part in calls.sort("device", "group", nulls_last=True).group_by(
        "device", "group", maintain_order=True
    ):
        spans = union(*view.clipped(part["start"].to_numpy() - base, part["end"].to_numpy() - base))
        covering = running.get(device) if device is not None else union(*view.clipped(*computation(view.trace)))
        yield device, group, *_numbers(spans, covering or Intervals(spans.start[:0], spans.end[:0]))


def _numbers(communication: Intervals, computing: Intervals) -> Row:
    both = intersection(communication, computing).length
    total = communication.length
    return total, computing.length, both, total - both, both / total if total else None
