"""Where the time of each step goes on each rank, with waiting for other ranks separated from communication."""

from __future__ import annotations

import numpy as np
import polars as pl

from kinetoscope.algorithms.intervals.intervals import Intervals, covered, exclusive, intersection
from kinetoscope.charts import StackedBars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.collectives.calls import selected_calls, selected_steps, with_source
from kinetoscope.model.matching.clocks import aligned
from kinetoscope.model.matching.match import join, match_and_align
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.stragglers.arrivals import arrivals_of
from kinetoscope.model.stragglers.host_activity import ACTIVITIES, COVERED, QUEUED, activities, before_collectives
from kinetoscope.model.stragglers.late_launches import host_exposed
from kinetoscope.model.trace.text import listed
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Schema

PARTS = ("computation", "overlap", "exposed_transfer", "exposed_waiting", "exposed_memory", "other")

RESULT = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("step", pl.Int64, "Number of the step, as in ProfilerStep#N."),
    Column("duration", pl.Int64, "Length of the device step; the six parts sum to it.", "ns"),
    Column("computation", pl.Int64, "Computation and no communication runs.", "ns"),
    Column("overlap", pl.Int64, "Computation and communication run.", "ns"),
    Column("exposed_transfer", pl.Int64, "Communication and no computation, and no waiting.", "ns"),
    Column(
        "exposed_waiting",
        pl.Int64,
        "Communication and no computation, before the last rank of it arrived, or put off by such waiting beneath "
        "computation; null if not known.",
        "ns",
    ),
    Column("exposed_memory", pl.Int64, "Copies or sets, and none of the above.", "ns"),
    Column("other", pl.Int64, "None of these: the devices have nothing to run.", "ns"),
    Column("exposed_communication", pl.Int64, "Transfer and waiting together.", "ns"),
    Column("ratio", pl.Float64, "All computation / all communication; null without communication."),
)


def rank_balance(trace: Trace, select: Selection) -> Partial:
    """Does each rank compute as long as the others, or does it wait for them?

    Method. Each instant of a device step is charged once: to computation and communication at once, to computation
    alone, to communication alone, to copies and sets, or to none. Communication alone is waiting until the last rank of
    the collective has arrived, on one clock, and transfer after that; but for transfer that waiting beneath computation
    put off (`docs/stragglers.md`), which is waiting, too. On a rank without device work its operators are
    computation, and what a library of the host does (gloo) is communication.

    How to read it. Ranks that wait much are not to blame: look for those that wait least, and `stragglers` for the
    cause. If no rank waits and transfer is large, the network is what limits. Computation that differs between ranks is
    work that is shared badly.

    Limits. Waiting for the other side of sending and receiving, the bubbles of a pipeline, is waiting too. Where a rank
    has collectives but none was matched with those of another rank, transfer and waiting are null. Of a selection,
    steps and the range of time count.
    """
    view = scope(trace, select)
    before = before_collectives(trace, select.steps_by)
    calls = selected_calls(scope(trace, Selection(steps_by=select.steps_by))).join(
        before.select("row", "place", *ACTIVITIES, QUEUED, COVERED, host_exposed(trace, before)),
        on="row", how="left", maintain_order="left",
    )  # fmt: skip
    windows = view.clipped(view.steps.device.start, view.steps.device.end)
    did = activities(trace)
    both = intersection(did.computation, did.communication)
    charged = exclusive(windows, [both, did.computation, did.communication, did.classes[2]])
    steps = selected_steps(view).with_columns(
        **{name: pl.Series(charged[:, place]) for place, name in enumerate(_CHARGED)},
        computing=pl.Series(covered(windows, did.computation)),
        communicating=pl.Series(covered(windows, did.communication)),
    )
    return Partial(with_source(calls, trace), (), with_source(steps, trace))


_CHARGED = ("overlap", "computation", "exposed_communication", "exposed_memory", "other")


def _finished(calls: pl.DataFrame, steps: pl.DataFrame) -> Partial:
    collectives = match_and_align(calls)
    steps = aligned(steps, collectives.clocks).sort("rank", "step", "start")
    exposed = pl.col("exposed_communication")
    table = steps.with_columns(
        duration=pl.sum_horizontal(_CHARGED),
        exposed_waiting=_waited(collectives.frame, steps),
        ratio=pl.when(pl.col("communicating") > 0).then(pl.col("computing") / pl.col("communicating")),
    )
    waited = pl.when(exposed == 0).then(0).otherwise(pl.min_horizontal("exposed_waiting", exposed))
    waited = pl.when(pl.col("exposed_waiting").is_null() & (exposed > 0)).then(None).otherwise(waited)
    table = table.with_columns(exposed_waiting=waited).with_columns(
        exposed_transfer=exposed - pl.col("exposed_waiting")
    )
    unknown = table.filter(pl.col("exposed_waiting").is_null())["rank"].unique().to_list()
    who = (
        f"ranks {listed(unknown)} was matched: their"
        if len(unknown) > 1
        else f"rank {listed(unknown)} was matched: its"
    )
    notes = [Note("WAITING_UNKNOWN", f"No collective of {who} waiting is unknown.")] if unknown else []
    return Partial(table.select(RESULT.names), (*collectives.notes, *notes))


def _waited(frame: pl.DataFrame, steps: pl.DataFrame) -> pl.Series:
    """Exposed waiting in each step, null on ranks of whose collectives none was matched."""
    arrivals, calls = arrivals_of(frame)
    matched = calls["matched"].to_numpy()
    last = np.full(int(arrivals.match.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(last, arrivals.match, arrivals.arrival)
    until = last[arrivals.match]
    put_off = arrivals.deferred(until).put_off
    waited = np.full(len(steps), -1, np.int64)
    rank, start, end = (steps[name].to_numpy() for name in ("rank", "start", "end"))
    for history in (each for each in arrivals.histories() if matched[each].any()):
        low, high = np.searchsorted(rank, arrivals.rank[history.start] + [0, 1]).tolist()
        waits = arrivals.waiting(history, until, put_off)
        waited[low:high] = np.maximum(waited[low:high], 0) + covered(Intervals(start[low:high], end[low:high]), waits)
    return pl.Series(waited).set(pl.Series(waited < 0), None)


ANALYSIS = Analysis(
    "Rank balance",
    rank_balance,
    RESULT,
    combine=join,
    finish=_finished,
    chart=StackedBars("rank", PARTS),
    across_ranks=True,
    of_calls=False,
    selection_notes="always",
    counts_warm_up=True,
)
