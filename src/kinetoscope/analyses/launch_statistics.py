"""What launching costs, by the name of the call."""

from __future__ import annotations

from typing import Annotated, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.grouping import group, reduce_by
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.device.launches import is_selected, launch_notes, launches
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace import polars_columns
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, MeanBy, Param, Schema

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("name", pl.String, "Name of the launch call; the first row of a rank, (all), is of all of them."),
    Column("calls", pl.Int64, "How many calls there are."),
    Column("total", pl.Int64, "Sum of the durations of the calls, on the host.", "ns"),
    Column("mean", pl.Int64, "Mean duration of a call, rounded to the nanosecond.", "ns"),
    Column("median", pl.Int64, "Median duration of a call.", "ns"),
    Column("p99", pl.Int64, "The least duration that 99 % of the calls do not exceed.", "ns"),
    Column("max", pl.Int64, "Longest call.", "ns"),
    Column("delay_mean", pl.Int64, "Mean delay from the end of a call to the start of its work.", "ns"),
    Column("delay_median", pl.Int64, "Median delay.", "ns"),
    Column("delay_p99", pl.Int64, "The least delay that 99 % of the calls do not exceed.", "ns"),
    Column("delay_max", pl.Int64, "Longest delay.", "ns"),
    Column("short_kernels", pl.Int64, "Calls that took longer than what they launched."),
    Column("short_excess", pl.Int64, "Sum over them of the call's duration less that of its work.", "ns"),
    Column("slow_calls", pl.Int64, "Calls longer than `slow_call`."),
    Column("slow_excess", pl.Int64, "Sum over them of what is beyond `slow_call`.", "ns"),
    Column("long_delays", pl.Int64, "Calls with a delay longer than `long_delay`."),
    across={
        "sum": "calls total short_kernels short_excess slow_calls slow_excess long_delays",
        MeanBy("calls"): "mean delay_mean",
        "own": "median p99 delay_median delay_p99",
        "greatest": "max delay_max",
    },
)


def launch_statistics(
    trace: Trace,
    select: Selection,
    *,
    slow_call: Annotated[int, Param("Calls that take longer than this are slow.", "ns")] = 50_000,
    long_delay: Annotated[int, Param("Delays above this are long.", "ns")] = 100_000,
) -> Partial:
    """What does it cost the host to launch work, and how long until the work begins?

    Method. All calls that launch device work (see `launches`), by name and all together. Launch delay is from the end
    of the call to the start of its first work, 0 if that began before. A short kernel is shorter than its call; of a
    graph, the union of its kernels counts. The 99th percentile is a value that did occur (nearest rank). Delays
    and short kernels are of calls whose work was recorded, null where there are none. Sorted by total, then by name.

    How to read it. `short_excess` is time in which the host cannot keep the device busy: fuse kernels, use larger
    batches, capture a graph, compile. Slow calls were blocked: a full queue, an allocation, the first load of a kernel,
    a copy from memory that is not pinned. Long delays mean that the host runs ahead of the device, as it should; they
    are a loss only where the device idles meanwhile (see `idle_breakdown`).

    Limits. The profiler makes each call some microseconds slower. Calls of several threads overlap.
    """
    view = scope(trace, select)
    calls = launches(trace)
    chosen = np.flatnonzero(is_selected(view, calls))
    notes = launch_notes(view, calls, chosen)
    if not len(chosen):
        return Partial(RESULT.per_rank.empty(), tuple(notes))
    rows = calls.rows[chosen]
    time = np.maximum(trace.end[rows] - trace.start[rows], 0)
    waits = runtime_call_kinds(trace)[rows] == RuntimeCallKind.COPY_AND_WAIT
    if waits.any():
        notes.append(
            Note(
                "WAITS_FOR_COPIES",
                f"In {int(waits.sum()):,} of {len(rows):,} calls the host waits for a copy: of their "
                f"{int(time[waits].sum()) / 1e6:,.3g} ms all but some µs are waiting, see synchronizations.",
            )
        )
    delay = np.where(calls.first[chosen] >= 0, calls.delay[chosen], -1)
    busy = calls.busy[chosen]
    codes, first = group(trace.name[rows])
    names = trace.strings.labels(trace.name[rows[first]].tolist())
    together = np.zeros(len(rows), np.int32)
    parts = [
        pl.DataFrame({"name": label, **_statistics(of, len(label), time, delay, busy, slow_call, long_delay)})
        for label, of in (([ALL_CALLS], together), (names, codes))
    ]
    by_name = parts[1].sort(["total", "name"], descending=[True, False])
    return Partial(pl.concat([parts[0], by_name]), tuple(notes))


ANALYSIS = Analysis("Launch statistics", launch_statistics, RESULT, chart=Bars("name", "total"))

ALL_CALLS: Final = "(all)"


def _statistics(
    codes: Int32s,
    groups: int,
    time: Int64s,
    delay: Int64s,
    busy: Int64s,
    slow_call: int,
    long_delay: int,
) -> dict[str, pl.Series]:
    """The columns of numbers. `delay` is −1 where the work was not recorded."""
    linked = delay >= 0
    excess, beyond = time - busy, time - slow_call
    short, slow = linked & (excess > 0), beyond > 0

    def sums(which: Bools, values: Int64s, known: Bools) -> tuple[pl.Series, ...]:
        reduced = reduce_by(np.where(which, codes, np.int32(-1)), groups, values)
        return polars_columns.column(reduced.rows, known), polars_columns.column(reduced.total, known)

    of_linked = np.where(linked, codes, np.int32(-1))
    has_work = reduce_by(of_linked, groups, delay).rows > 0
    of_delays = polars_columns.statistics(of_linked, groups, delay, "mean", "median", "p99", "max")
    short_kernels, short_excess = sums(short, excess, has_work)
    slow_calls, slow_excess = sums(slow, beyond, np.ones(groups, np.bool_))
    return {
        **polars_columns.statistics(codes, groups, time, "calls", "total", "mean", "median", "p99", "max"),
        **{f"delay_{name}": values for name, values in of_delays.items()},
        "short_kernels": short_kernels,
        "short_excess": short_excess,
        "slow_calls": slow_calls,
        "slow_excess": slow_excess,
        "long_delays": sums(delay > long_delay, delay, has_work)[0],
    }
