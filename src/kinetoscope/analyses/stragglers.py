"""Which rank the others wait for in collectives, and why."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final, Literal

import numpy as np
import polars as pl

from kinetoscope.model.before_collectives import ACTIVITIES, COVERED, before_collectives
from kinetoscope.model.collective_calls import selected_calls
from kinetoscope.model.job import Job, Partial
from kinetoscope.model.joined_ranks import joined
from kinetoscope.model.naming import listed
from kinetoscope.model.own_time import OwnTime, own_time
from kinetoscope.model.process_groups import host_of
from kinetoscope.model.scope import scope
from kinetoscope.model.selection import ALL, Selection
from kinetoscope.model.steps import steps
from kinetoscope.model.straggling import CAUSES, Charges, Rows, charge, rows_of
from kinetoscope.model.trace import Trace
from kinetoscope.schema import Analysis, Bars, Column, Param, Result, Schema

By = Literal["rank", "step", "collective"]

RESULT = Schema(
    Column("rank", pl.Int64, "Rank that is charged; by collective the rank that arrived last."),
    Column("step", pl.Int64, "Number of the step; null by rank."),
    Column("process_group", pl.String, "Process group of the collective; null unless by collective."),
    Column("kind", pl.String, "Kind of the collective; null unless by collective."),
    Column(
        "start", pl.Int64, "First arrival, since the first one of all; null unless by collective.", "ns", instant=True
    ),
    Column("calls", pl.Int64, "Collectives that the rank took part in."),
    Column("last", pl.Int64, "In how many of them it arrived last."),
    Column("late", pl.Int64, "How long after the rank in the middle it arrived where it was last, at most.", "ns"),
    Column("lost", pl.Int64, "What the others waited because of it, summed over them.", "ns"),
    Column("carried", pl.Int64, "What they waited for it because of something earlier; charged there.", "ns"),
    Column("lost_share", pl.Float64, "Lost / time of all steps of the other ranks.", "fraction"),
    Column("straggler", pl.Boolean, "Is that more than 1 % of a step, more than clocks can tell, and its own fault."),
    Column(
        "cause",
        pl.String,
        "Why it was late: what it did more of than the rank in the middle; null if nothing was lost.",
    ),
    Column("cause_share", pl.Float64, "Share of that cause in what it is charged with.", "fraction"),
    Column("charged_to", pl.Int64, "Rank that caused most of the loss; null unless by collective."),
)


def stragglers(
    job: Job,
    *,
    select: Selection = ALL,
    by: Annotated[
        By,
        Param("A row for each rank, each rank and step, or each collective.", choices=("rank", "step", "collective")),
    ] = "rank",
) -> Result:
    """Which rank do the others wait for, how much does that cost, and why is it late?

    Method. Collectives of all ranks are matched and put on one clock. In each of them the rank that arrives last makes
    the others wait: each from its own arrival to the last one, less what its computation covers. The last rank is
    compared with the one in the middle of those that wait: what each did since both last stood still in a collective,
    and how long each waited on the way. What the last one did more is its own fault; for the time that it had to wait
    itself, the cause is looked for further back, so that a loss is charged where it began. The cause is what it did
    more of: computation, communication (transfer, not waiting: a slow link), memory copies, data loading,
    synchronization (calls that wait for the device, and what is idle because of them), or host gap (other work of the
    host, or nothing recorded). A rank is a straggler if by its own fault, which a slow link is not, it costs those who
    wait more than 1 % of a step in each step on average, and more than three times the spread of the clocks, beyond
    what the rank in the middle costs, and at least three times that and a quarter of what the worst rank costs. By
    collective the first two limits hold for what the others lose in it.

    How to read it. Begin with the ranks that are stragglers. The cause says where to look on that rank: `kernel_spread`
    for computation, the loader for data loading, `synchronizations` for synchronization, `idle_breakdown` for the host.
    `by="step"` tells a hiccup from a habit. With `by="collective"` you see each collective: who arrived last, what it
    cost, and whose fault it was.

    Limits. Sending and receiving is no collective: waiting there is a bubble of the pipeline, and what follows from it
    in later collectives has the cause pipeline, which makes no straggler. By collective, a rank that waits in several
    at a time counts in each; else in the first. Lateness in the first collective of a recording may come from before
    it: cause unknown. A rank whose file is missing cannot be told. Unlike HTA, which names at all times two candidates,
    those that start the longest NCCL kernels late, all collectives count, on one clock, and there may be no straggler.
    """
    return job.reduce(_of_trace, _both, partial(_finished, by=by), RESULT, select)


ANALYSIS = Analysis("Stragglers", stragglers, RESULT, chart=Bars("rank", "lost"))

_SHARE: Final = 0.01
"""Of a step: what a straggler costs each of the others at least."""

_SPREADS: Final = 3

_OWN: Final = ("computation", "memory copies", "data loading", "synchronization", "host gap")
"""Causes that are the rank's own; a slow link is not."""

_LEAST: Final = 0.25
"""A straggler costs a quarter of what the worst one does, and of what it costs for reasons of others, at least."""

_OFTEN: Final = 3
"""And so many times what the rank in the middle costs: where all are late in turn, none is a straggler."""

_SURE: Final = 5
"""Standard errors by which a straggler's own time exceeds that of the others."""

_PLACES: Final = [CAUSES.index(name) for name in _OWN]
_OTHERS: Final = [CAUSES.index(name) for name in ("communication", "pipeline")]


def _of_trace(trace: Trace, select: Selection) -> Partial:
    view = scope(trace, select)
    calls = selected_calls(view)
    did = trace.of(before_collectives, select.steps_by).select("row", "place", *ACTIVITIES, *COVERED)
    found = trace.of(steps, select.steps_by)
    length = pl.DataFrame({"step": found.number, "step_time": found.device.end - found.device.start}).unique("step")
    frame = calls.join(did, on="row", how="left").join(length, on="step", how="left")
    rank, host = pl.lit(trace.source.rank, pl.Int64), pl.lit(host_of(trace), pl.String)
    notes = list(view.notes) if select != ALL else []
    if not len(calls):
        notes.append("No collectives were recorded.")
    return Partial(frame.with_columns(rank=rank, host=host, cycle=pl.lit(trace.source.cycle, pl.Int64)), tuple(notes))


def _median(values: pl.Series) -> int:
    """The lower middle one; 0 for none."""
    known = values.drop_nulls().sort()
    return int(known[(len(known) - 1) // 2]) if len(known) else 0


def _both(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([a, b])


def _finished(frame: pl.DataFrame, *, by: By) -> Partial:
    if frame["rank"].n_unique() < 2:
        alone = () if frame.is_empty() else ("Only one rank has collectives: nobody waits for another.",)
        return Partial(RESULT.empty(), alone)
    found = joined(frame)
    rows, calls = rows_of(found.frame)
    if not calls["matched"].any():
        return Partial(RESULT.empty(), (*found.notes, "No collective of one rank could be matched with another's."))
    matches = int(rows.match.max()) + 1
    charges = charge(rows, matches)
    step = _median(calls["step_time"])
    least = max(int(_SHARE * step), _SPREADS * found.clocks.spread)
    table = (
        _by_collective(rows, calls, charges, least) if by == "collective" else _by_rank(rows, calls, charges, least, by)
    )
    return Partial(RESULT.conform(table), (*found.notes, *_notes(rows, table, by)))


def _by_collective(rows: Rows, calls: pl.DataFrame, charges: Charges, least: int) -> pl.DataFrame:
    last, first, cause = charges.last, charges.first, charges.cause
    start = np.full(len(last), np.iinfo(np.int64).max)
    np.minimum.at(start, rows.match, rows.arrival)
    names = pl.Series(CAUSES).gather(cause.astype(np.int64))
    own = np.isin(cause, _PLACES) & ~rows.pairwise[last]
    frame = calls[last].select("rank", "step", pl.col("group").alias("process_group"), "kind")
    return (
        frame.with_columns(
            start=pl.Series(start - start.min()),
            calls=pl.lit(1, pl.Int64),
            last=pl.lit(1, pl.Int64),
            late=pl.Series(charges.late),
            lost=pl.Series(charges.lost),
            carried=pl.Series(charges.carried),
            lost_share=pl.lit(None, pl.Float64),
            straggler=pl.Series((charges.lost > least) & own),
            cause=pl.Series(names).set(pl.Series((charges.lost == 0) | rows.pairwise[last]), None),
            cause_share=pl.lit(None, pl.Float64),
            charged_to=pl.Series(rows.rank[first]).set(pl.Series(charges.lost == 0), None),
        )
        .filter(calls[last]["matched"])
        .sort("rank", "start", "process_group", "kind", maintain_order=True)
    )


def _by_rank(rows: Rows, calls: pl.DataFrame, charges: Charges, least: int, by: By) -> pl.DataFrame:
    keys = ["rank", "step"] if by == "step" else ["rank"]
    is_last = np.zeros(len(rows), np.bool_)
    is_last[charges.last] = ~rows.pairwise[charges.last]
    is_last &= calls["matched"].to_numpy()
    of_match = rows.match[is_last]
    late, carried = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    late[is_last], carried[is_last] = charges.late[of_match], charges.carried[of_match]
    each = calls.select("rank", "step", "step_time", "matched").with_columns(
        collective=pl.Series(~rows.pairwise) & pl.col("matched"),
        last=pl.Series(is_last),
        late=pl.Series(late),
        carried=pl.Series(carried),
        delay=pl.Series(charges.delay[:, _PLACES].sum(axis=1)),
        of_others=pl.Series(charges.delay[:, _OTHERS].sum(axis=1)),
        **{name: pl.Series(charges.charged[:, place]) for place, name in enumerate(CAUSES)},
    )
    time = (
        each.drop_nulls("step").unique(["rank", "step"]).group_by(keys).agg(pl.col("step_time").sum(), steps=pl.len())
    )
    table = each.group_by(keys).agg(
        calls=pl.col("collective").sum().cast(pl.Int64),
        last=pl.col("last").sum().cast(pl.Int64),
        late=pl.col("late").max(),
        carried=pl.col("carried").sum(),
        delay=pl.col("delay").sum(),
        of_others=pl.col("of_others").sum(),
        lost=pl.sum_horizontal(CAUSES).sum(),
        **{name: pl.col(name).sum() for name in CAUSES},
    )
    table = table.join(time, on=keys, how="left", nulls_equal=True).sort(keys)
    own = own_time(rows, calls["step"], _median(calls["step_time"]))
    table = table.join(_evidence(own, by), on=keys, how="left", nulls_equal=True, maintain_order="left")
    return _judged(table, least, by)


def _evidence(own: OwnTime, by: By) -> pl.DataFrame:
    """By how much each rank's own time exceeds that of others, ns a step, and how many standard errors that is."""
    above = own.above
    if by == "rank":
        return pl.DataFrame({"rank": own.rank, "above": np.minimum(above.mean,above.mean), "sure": above.sure})
    return pl.DataFrame(
        {
            "rank": np.repeat(own.rank, len(own.step)),
            "step": pl.Series(np.tile(own.step, len(own.rank))).replace({-1: None}),
            "above": above.each.ravel(),
            "sure": (above.each / above.noise[:, None]).ravel(),
        }
    )


def _judged(table: pl.DataFrame, least: int, by: By) -> pl.DataFrame:
    """With the verdict on each rank, or on each rank in each step."""
    together = pl.col("step") if by == "step" else pl.lit(0)
    usual = pl.col("delay").sort().gather((pl.len() - 1) // 2).first().over(together)
    everyone = pl.col("step_time").sum().over(together)
    rest = everyone - pl.col("step_time")
    worst = pl.col("delay").max().over(together)
    straggler = (pl.col("delay") - usual) > least * pl.col("steps").fill_null(1)
    straggler &= (pl.col("above") > least) & (pl.col("sure") > _SURE)
    straggler &= pl.col("delay") >= _LEAST * pl.max_horizontal(worst, "of_others")
    straggler &= pl.col("delay") >= _OFTEN * usual
    # Of a straggler only its own causes are asked for: they are why it is one.
    greatest = pl.when(straggler).then(pl.max_horizontal(_OWN)).otherwise(pl.max_horizontal(CAUSES))
    cause = pl.coalesce(pl.when(pl.col(name) == greatest).then(pl.lit(name)) for name in (*_OWN, *CAUSES))
    lost = pl.col("lost") > 0
    return table.with_columns(
        straggler=straggler,
        cause=pl.when(lost).then(cause),
        cause_share=pl.when(lost).then(greatest / pl.col("lost")),
        lost_share=pl.when(rest > 0).then((pl.col("lost") / rest).clip(0, 1)),
        step=pl.col("step") if by == "step" else pl.lit(None, pl.Int64),
        process_group=pl.lit(None, pl.String),
        kind=pl.lit(None, pl.String),
        start=pl.lit(None, pl.Int64),
        charged_to=pl.lit(None, pl.Int64),
    ).select(RESULT.names)


def _notes(rows: Rows, table: pl.DataFrame, by: By) -> list[str]:
    if rows.pairwise.all():
        return ["All is sending and receiving: waiting there is a bubble of the pipeline and makes no straggler."]
    found = table.filter("straggler")["rank"].unique().sort().to_list()
    if by == "collective":
        return []
    if not found:
        return ["No rank makes the others wait for more than 1 % of a step by its own fault."]
    return [f"The others wait for rank{'s' if len(found) > 1 else ''} {listed(found)}."]
