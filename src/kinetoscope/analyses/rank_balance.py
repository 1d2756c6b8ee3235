"""Where the time of each step goes on each rank, with waiting for other ranks told from communicating."""

from __future__ import annotations

import numpy as np
import polars as pl

from kinetoscope.algorithms.intervals.intervals import Intervals, covered, exclusive, intersection
from kinetoscope.model.collectives.calls import base_of, selected_calls
from kinetoscope.model.collectives.process_groups import host_of
from kinetoscope.model.job import Job, Partial
from kinetoscope.model.matching.clocks import aligned
from kinetoscope.model.matching.joined_ranks import Joined, joined
from kinetoscope.model.matching.match import join
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.stragglers.arrivals import parts_of, rows_of
from kinetoscope.model.stragglers.exposed_waiting import waiting
from kinetoscope.model.stragglers.host_activity import ACTIVITIES, COVERED, before_collectives, doings
from kinetoscope.model.trace.names import listed
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Analysis, Column, Result, Schema, StackedBars

PARTS = ("computation", "overlap", "exposed_transfer", "exposed_waiting", "exposed_memory", "other")

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("step", pl.Int64, "Number of the step, as in ProfilerStep#N."),
    Column("duration", pl.Int64, "Length of the device step; the six parts sum to it.", "ns"),
    Column("computation", pl.Int64, "Computation and no communication runs.", "ns"),
    Column("overlap", pl.Int64, "Computation and communication run.", "ns"),
    Column("exposed_transfer", pl.Int64, "Communication and no computation, all ranks of it having arrived.", "ns"),
    Column(
        "exposed_waiting",
        pl.Int64,
        "Communication and no computation, before the last rank of it arrived; null if not known.",
        "ns",
    ),
    Column("exposed_memory", pl.Int64, "Copies or sets, and none of the above.", "ns"),
    Column("other", pl.Int64, "None of these: the devices have nothing to run.", "ns"),
    Column("exposed_communication", pl.Int64, "Transfer and waiting together.", "ns"),
    Column("ratio", pl.Float64, "All computation / all communication; null without communication."),
)


def rank_balance(job: Job, *, select: Selection = ALL) -> Result:
    """Does each rank compute as long as the others, or does it wait for them?

    Method. Each instant of a device step is charged once: to computation and communication at once, to computation
    alone, to communication alone, to copies and sets, or to none. Communication alone is waiting until the last rank of
    the collective has arrived, on one clock, and transfer after that. On a rank without device work its operators are
    computation, and what a library of the host does (gloo) is communication.

    How to read it. Ranks that wait much are not to blame: look for those that wait least, and `stragglers` for the
    cause. If no rank waits and transfer is large, the network is what limits. Computation that differs between ranks is
    work that is shared badly.

    Limits. Waiting for the other side of sending and receiving, the bubbles of a pipeline, is waiting too. Where a rank
    has collectives but none was matched with those of another rank, transfer and waiting are null. Of a selection,
    steps and the range of time count. Unlike the TensorBoard plugin, collectives of any kind count and are matched by
    more than their order, and the host's share of a collective is no communication where the device's was recorded.
    """
    return job.reduce(_of_trace, join, _finished, RESULT, select)


ANALYSIS = Analysis("Rank balance", rank_balance, RESULT, chart=StackedBars("rank", PARTS), across_ranks=True)

_MARK = "step_"
"""Before the names of a step's own numbers: collectives have some of the same name."""

_CHARGED = ("overlap", "computation", "exposed_communication", "exposed_memory", "other")


def _of_trace(trace: Trace, select: Selection) -> Partial:
    """The collectives, and the steps as rows of a kind of their own."""
    view = scope(trace, select)
    who = {
        "cycle": pl.lit(trace.source.cycle, pl.Int64),
        "rank": pl.lit(trace.source.rank, pl.Int64),
        "host": pl.lit(host_of(trace), pl.String),
    }
    whole = scope(trace, Selection(steps_by=select.steps_by))
    covering = before_collectives(trace, select.steps_by)
    calls = selected_calls(whole).join(
        covering.select("row", "place", *ACTIVITIES, *COVERED), on="row", how="left", maintain_order="left"
    )
    windows = view.clipped(view.steps.device.start, view.steps.device.end)
    did = doings(trace)
    both = intersection(did.computation, did.communication)
    charged = exclusive(windows, [both, did.computation, did.communication, did.classes[2]])
    marks = pl.DataFrame(
        {
            "row": pl.Series(range(len(view.steps)), dtype=pl.Int64),
            "step": view.steps.number,
            "start": windows.start + base_of(trace),
            "end": windows.end + base_of(trace),
            **{_MARK + name: charged[:, place] for place, name in enumerate(_CHARGED)},
            "computing": covered(windows, did.computation),
            "communicating": covered(windows, did.communication),
        }
    )
    frame = pl.concat([calls.with_columns(mark=False, **who), marks.with_columns(mark=True, **who)], how="diagonal")
    return Partial(frame, (*view.warm_up, *view.notes))


def _finished(frame: pl.DataFrame) -> Partial:
    calls = frame.filter(~pl.col("mark"))
    found = joined(calls)
    marks = aligned(frame.filter("mark").drop(_CHARGED[1]), found.clocks).sort("rank", "step", "start")
    marks = marks.rename({_MARK + name: name for name in _CHARGED})
    exposed = pl.col("exposed_communication")
    table = marks.with_columns(
        duration=pl.sum_horizontal(_CHARGED),
        exposed_waiting=_waited(found, marks),
        ratio=pl.when(pl.col("communicating") > 0).then(pl.col("computing") / pl.col("communicating")),
    )
    waited = pl.when(exposed == 0).then(0).otherwise(pl.min_horizontal("exposed_waiting", exposed))
    waited = pl.when(pl.col("exposed_waiting").is_null() & (exposed > 0)).then(None).otherwise(waited)
    table = table.with_columns(exposed_waiting=waited).with_columns(
        exposed_transfer=exposed - pl.col("exposed_waiting")
    )
    unknown = table.filter(pl.col("exposed_waiting").is_null())["rank"].unique().to_list()
    notes = [f"No collective of rank {listed(unknown)} was matched: waiting is not known there."] if unknown else []
    return Partial(table.select(RESULT.names), (*found.notes, *notes))


def _waited(found: Joined, marks: pl.DataFrame) -> pl.Series:
    """Exposed waiting in each step, null on ranks of whose collectives none was matched."""
    rows, calls = rows_of(found.frame)
    matched = calls["matched"].to_numpy()
    until = np.full(int(rows.match.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(until, rows.match, rows.arrival)
    waited = np.full(len(marks), -1, np.int64)
    rank, start, end = (marks[name].to_numpy() for name in ("rank", "start", "end"))
    for here in (part for part in parts_of(rows) if matched[part].any()):
        low, high = np.searchsorted(rank, [rows.rank[here.start], rows.rank[here.start] + 1]).tolist()
        windows = Intervals(start[low:high], end[low:high])
        waited[low:high] = np.maximum(waited[low:high], 0) + covered(windows, waiting(rows, until[rows.match], here))
    return pl.Series(waited).set(pl.Series(waited < 0), None)
