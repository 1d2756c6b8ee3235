"""Which rank the others wait for in collectives, and why."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.outliers import SEVERAL
from kinetoscope.model.collectives.calls import selected_calls
from kinetoscope.model.collectives.process_groups import host_of
from kinetoscope.model.job import Job, Partial
from kinetoscope.model.matching.joined_ranks import joined
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.stragglers.arrivals import Rows, rows_of
from kinetoscope.model.stragglers.blame import CAUSES, Charges, charge
from kinetoscope.model.stragglers.delay_by_rank import OWN_CAUSES, held_time, rank_costs
from kinetoscope.model.stragglers.delay_by_step import step_costs
from kinetoscope.model.stragglers.host_activity import ACTIVITIES, COVERED, before_collectives
from kinetoscope.model.stragglers.late_launches import HELD, held_lists
from kinetoscope.model.stragglers.own_time import COLUMNS, IN_COLLECTIVES, OwnTime, own_steps, own_time
from kinetoscope.model.stragglers.pipeline_stages import launched_before, stages
from kinetoscope.model.stragglers.verdicts import judged
from kinetoscope.model.trace.names import listed
from kinetoscope.model.trace.trace import Trace
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
    Column("calls", pl.Int64, "Collectives that the rank took part in; only those that could be matched."),
    Column("last", pl.Int64, "In how many of them it arrived last."),
    Column("late", pl.Int64, "How long after the rank in the middle it arrived where it was last, at most.", "ns"),
    Column(
        "lost", pl.Int64, "What the others waited because of it, summed over them; an estimate by whole steps.", "ns"
    ),
    Column("carried", pl.Int64, "What they waited for it because of something earlier; charged there.", "ns"),
    Column("lost_share", pl.Float64, "Lost / time of all steps of the other ranks.", "fraction"),
    Column(
        "straggler",
        pl.Boolean,
        "Is that more than 1 % of a step, more than clocks can tell, its own fault, and no chance.",
    ),
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

    Method. Collectives of all ranks are matched and put on one clock. In each of them the rank that arrives last
    makes the others wait: each from its own arrival to the last one, less what its computation covers. The last rank
    is compared with the one in the middle of those that wait: what each did since both last stood still in a
    collective, and how long each waited on the way. What the last one did more is its own fault; for the time that it
    had to wait itself, the cause is looked for further back, so that a loss is charged where it began. The cause is
    what it did more of: computation, communication (transfer, not waiting: a slow link), memory copies, data loading,
    synchronization (calls that wait for the device, and what is idle because of them), or host gap (other work of the
    host, or nothing recorded). Transfer of a collective that both share takes as long on both: if the last one has
    more of it in the open, as its host launched the next computation late, the cause is what its host did. A rank is
    a straggler if by its own fault, which a slow link is not, it costs those who wait more than 1 % of a step in each
    step on average, and more than three times the spread of the clocks, beyond what the rank in the middle costs, by
    the same cause at least three times that; and if it does more itself in each step than others that have the same
    to do, by as much, and beyond doubt: by five standard errors of what ranks vary by from step to step. From three
    steps on the one in which a rank cost most does not count: it may have been an accident, such as a warm-up; unless
    the rank's host loads data, or calls nothing but Python, for longer than the others' in each step, and in each by
    half of that or more: then it is so for good, and hidden where hosts run ahead of their devices. By step no step is
    left out; by collective the first two limits hold for what the others lose.

    Collectives that could not be matched tell who is waited for, too, by whole steps, which all ranks number alike: a
    rank that does more itself in each step than those with the same to do, while these are in collectives for longer,
    computing nothing. Both must be beyond doubt, as above; what they lose is the lesser of the two, estimated for each
    by the rank in the middle. That is asked of ranks that single collectives do not name, and a note says so.

    How to read it. Begin with the ranks that are stragglers. The cause says where to look on that rank: `kernel_spread`
    for computation, the loader for data loading, `synchronizations` for synchronization, `idle_breakdown` for the host.
    `by="step"` tells a hiccup from a habit. With `by="collective"` you see each collective: who arrived last, what it
    cost, and whose fault it was.

    Limits. Sending and receiving is no collective: waiting there is a bubble of the pipeline, and what follows from it
    in later collectives has the cause pipeline, which makes no straggler. By collective, a rank that waits in several
    at a time counts in each; else in the first. Lateness in the first collective of a recording may come from before
    it: cause unknown. A rank whose file is missing cannot be told; one that is late now and then, in few steps, or in
    a recording much of which is missing, may not be sure enough to be named. By whole steps nothing is told of less
    than three steps, of steps that no marks number, or where most ranks of the job are missing; nor of stages of a
    pipeline on hosts alone, whose waiting is not recorded. Unlike HTA, which names at all times two candidates, those
    that start the longest NCCL kernels late, all collectives count, on one clock, and there may be no straggler.
    """
    return job.reduce(_of_trace, _both, partial(_finished, by=by), RESULT, select)


ANALYSIS = Analysis("Stragglers", stragglers, RESULT, chart=Bars("rank", "lost"), across_ranks=True)

_SHARE: Final = 0.01
"""Of a step: what a straggler costs each of the others at least."""

_SPREADS: Final = 3


def _of_trace(trace: Trace, select: Selection) -> Partial:
    """The collectives, and the steps as rows of a kind of their own."""
    view = scope(trace, select)
    calls = selected_calls(view)
    did = before_collectives(trace, select.steps_by)
    lists = *ACTIVITIES, *COVERED, held_lists(trace, did).alias(HELD)
    did = did.select("row", "place", *lists, launched_before(trace, did))
    marks = own_steps(view)
    frame = calls.join(did, on="row", how="left").join(marks.select("step", "step_time"), on="step", how="left")
    counts = calls.group_by("step").agg(calls=pl.len())
    marks = marks.join(counts, on="step", how="left").with_columns(pl.col("calls").fill_null(0))
    frame = pl.concat([frame.with_columns(mark=False), marks.with_columns(mark=True)], how="diagonal")
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
    calls = frame.filter(~pl.col("mark")).drop("mark", "calls", *COLUMNS, *IN_COLLECTIVES)
    if calls["rank"].n_unique() < 2:
        alone = () if calls.is_empty() else ("Only one rank has collectives: nobody waits for another.",)
        return Partial(RESULT.empty(), alone)
    found = joined(calls)
    rows, calls = rows_of(found.frame)
    charges = charge(rows, int(rows.match.max(initial=-1)) + 1)
    step = _median(calls["step_time"]) or _median(found.frame["step_time"])
    least = max(int(_SHARE * step), _SPREADS * found.clocks.spread)
    matched = bool(calls["matched"].any())
    if by == "collective":
        table = _by_collective(rows, calls, charges, least) if matched else RESULT.empty()
    else:
        marks, costs = frame.filter("mark"), rank_costs(rows, calls, charges)
        own = own_time(marks, stages(found.frame), step, held_time(calls, charges))
        told = step_costs(marks, found.frame, costs, step)
        table = _by_rank(costs if matched else None, told, own, least, by)
    if table.is_empty():
        return Partial(RESULT.empty(), (*found.notes, "No collective of one rank could be matched with another's."))
    return Partial(RESULT.conform(table.select(RESULT.names)), (*found.notes, *_notes(rows, frame, table, by)))


def _by_collective(rows: Rows, calls: pl.DataFrame, charges: Charges, least: int) -> pl.DataFrame:
    last, first, cause = charges.last, charges.first, charges.cause
    start = np.full(len(last), np.iinfo(np.int64).max)
    np.minimum.at(start, rows.match, rows.arrival)
    names = pl.Series(CAUSES).gather(cause.astype(np.int64))
    own = np.isin(cause, OWN_CAUSES) & ~rows.pairwise[last]
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


def _by_rank(costs: pl.DataFrame | None, told: pl.DataFrame | None, own: OwnTime, least: int, by: By) -> pl.DataFrame:
    """The verdicts on costs of collectives, and on those told by whole steps where the first name nobody."""
    keys = ["rank", "step"] if by == "step" else ["rank"]
    tables = [
        _with_shares(judged(each, own, least, each_step=by == "step"), by).with_columns(by_steps=each is told)
        for each in (costs, told)
        if each is not None
    ]
    if len(tables) < 2:
        return tables[0] if tables else RESULT.empty()
    first, second = tables
    new = ~pl.col("rank").is_in(first["rank"].unique().implode())
    more = second.filter(new | pl.col("straggler"))
    more = more.join(first.filter("straggler"), on=keys, how="anti", nulls_equal=True)
    return pl.concat([first.join(more, on=keys, how="anti", nulls_equal=True), more]).sort(keys)


def _with_shares(table: pl.DataFrame, by: By) -> pl.DataFrame:
    together = pl.col("step") if by == "step" else pl.lit(0)
    rest = pl.col("step_time").sum().over(together) - pl.col("step_time")
    return table.with_columns(
        lost_share=pl.when(rest > 0).then((pl.col("lost") / rest).clip(0, 1)),
        step=pl.col("step") if by == "step" else pl.lit(None, pl.Int64),
        process_group=pl.lit(None, pl.String),
        kind=pl.lit(None, pl.String),
        start=pl.lit(None, pl.Int64),
        charged_to=pl.lit(None, pl.Int64),
    )


def _notes(rows: Rows, frame: pl.DataFrame, table: pl.DataFrame, by: By) -> Iterator[str]:
    if len(rows) and rows.pairwise.all():
        yield "All is sending and receiving: waiting there is a bubble of the pipeline and makes no straggler."
        return
    if by == "collective":
        return

    def who(*marked: str) -> list[int]:
        return table.filter(*marked)["rank"].unique().sort().to_list()

    hidden, named, once = who("hidden"), who("straggler"), who("once")
    if hidden:
        yield (
            f"What the others lost by {_ranks(hidden)} was nearly all in one step, but its host does the same in each: "
            "it is hidden afterwards, as hosts run ahead of their devices."
        )
    if once:
        yield (
            f"What the others lost by {_ranks(once)} was nearly all in one step: an accident, it seems; "
            "step by step it is listed (by='step')."
        )
    if named:
        if by == "rank" and frame.filter("mark")["step"].n_unique() < SEVERAL:
            yield "With less than three steps an accident cannot be told from what is so for good."
        if estimated := who("straggler", "by_steps"):
            yield (
                f"By single collectives it cannot be told that the others wait for {_ranks(estimated)}, by whole steps "
                "it can: what they lost is estimated from how much longer they were in collectives."
            )
        yield f"The others wait for {_ranks(named)}."
    else:
        yield "No rank makes the others wait for more than 1 % of a step by its own fault."


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {listed(ranks)}"
