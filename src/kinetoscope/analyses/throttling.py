"""Steps in which a device ran below its usual clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.counters.device_log import counters_of
from kinetoscope.model.counters.throttling import DeviceClock, clocks
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, MeanBy, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.Int64, "Device of the rank."),
    Column("step", pl.Int64, "Number of the step."),
    Column("busy", pl.Int64, "Time of the step in which any work ran on the device.", "ns"),
    Column("sampled", pl.Int64, "The part of it that has a clock.", "ns"),
    Column("clock", pl.Float64, "Mean clock of the multiprocessors over that, MHz."),
    Column("min_clock", pl.Float64, "The least such clock, MHz."),
    Column("usual_clock", pl.Float64, "The clock that the device has or falls below in 95 % of its busy time, MHz."),
    Column("greatest_clock", pl.Float64, "The clock that it may have, MHz; null where no log says."),
    Column("clock_share", pl.Float64, "Clock / usual clock, 1 at most.", "fraction"),
    Column("lost", pl.Int64, "Time that the lower clock costs at most: sampled × (1 − clock share).", "ns"),
    Column("power", pl.Float64, "Mean power while busy, W; null where it is not known."),
    Column("reasons", pl.String, "What limits the clock, as nvidia-smi calls it; null where no log says."),
    Column("limited_share", pl.Float64, "Share of the busy time in which the first of them did.", "fraction"),
    across={
        "device": "device",
        "key": "step",
        "sum": "busy sampled lost",
        MeanBy("sampled"): "clock usual_clock clock_share power limited_share",
        "least": "min_clock",
        "greatest": "greatest_clock",
        "agreed": "reasons",
    },
)


def throttling(trace: Trace, select: Selection) -> Partial:
    """In which steps did a device run below its usual clock while it was busy, and what did that cost at most?

    Method. The clock is a counter of the trace, or of a log (`--device-log`) of nvidia-smi, amd-smi or DCGM, over the
    time of the step in which kernels, copies or sets run on its device. The usual clock is the one that the device has
    or falls below in 95 % of the busy time of the whole recording. `reasons` are those of the log's column
    `clocks_event_reasons.active` (of older drivers `clocks_throttle_reasons`), or of its columns for each, most first.

    How to read it. A share well below 1 in some steps: the device was throttled there. `sw_power_cap` is the limit of
    power, `…thermal_slowdown` heat, `hw_power_brake_slowdown` the power supply. Sort by `lost`.

    Limits. `lost` is what the step would gain if all its work went with the clock of the multiprocessors. Work that
    waits for memory, links or other devices does not: it is an upper bound, and a guess as to what is really lost. A
    device that is throttled all the time has a low usual clock, and no loss here: compare it with `greatest_clock`.
    What is shorter than the interval of the samples is not seen.
    """
    every = list(clocks(scope(trace, select)))
    if not every:
        return Partial(RESULT.per_rank.empty(), (_NO_CLOCK, *counters_of(trace).notes))
    rows = [tuple(row.values()) for each in every for row in _rows(each)]
    return Partial(RESULT.per_rank.frame(rows), counters_of(trace).notes)


ANALYSIS = Analysis("Throttling", throttling, RESULT)

_NO_CLOCK = Note(
    "NO_CLOCK",
    "No clock was sampled while a device worked. A log of nvidia-smi has it (clocks.sm), named by --device-log.",
)


def _rows(each: DeviceClock) -> Iterator[dict[str, Any]]:
    share, lost = each.share, np.rint(np.nan_to_num(each.lost)).astype(np.int64)

    def known(value: float) -> float | None:
        return None if np.isnan(value) else float(value)

    for place, step in enumerate(each.steps.step):
        active = {name: shares[place] for name, shares in each.limits.items() if shares[place] > 0}
        reasons = sorted(active, key=lambda name: (-active[name], name))
        yield {
            "device": each.device,
            "step": step,
            "busy": int(each.busy[place]),
            "sampled": int(each.sampled[place]),
            "clock": known(each.clock[place]),
            "min_clock": known(each.least[place]),
            "usual_clock": each.usual,
            "greatest_clock": each.highest,
            "clock_share": known(share[place]),
            "lost": int(lost[place]),
            "power": known(each.power[place]),
            "reasons": ", ".join(reasons) or None,
            "limited_share": float(active[reasons[0]]) if reasons else None,
        }
