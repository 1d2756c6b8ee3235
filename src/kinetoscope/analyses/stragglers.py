"""Which rank the others wait for in collectives, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal

import numpy as np
import polars as pl

from kinetoscope.algorithms.outliers import MIN_PLACES
from kinetoscope.charts import Bars
from kinetoscope.model.analysis import Analysis
from kinetoscope.model.answer import Partial
from kinetoscope.model.collectives.calls import selected_calls, with_source
from kinetoscope.model.matching.match import join, match_and_align
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.stragglers.arrivals import Arrivals, arrivals_of
from kinetoscope.model.stragglers.attribution import CAUSES, Attribution, attribute_waiting, gains_without
from kinetoscope.model.stragglers.delays import OWN_CAUSES, delays_by_rank, delays_by_step, host_exposed_time
from kinetoscope.model.stragglers.host_activity import ACTIVITIES, COVERED, QUEUED, before_collectives
from kinetoscope.model.stragglers.late_launches import host_exposed
from kinetoscope.model.stragglers.own_time import OwnTime, own_steps, own_time
from kinetoscope.model.stragglers.pipeline_stages import launched_before, stages
from kinetoscope.model.stragglers.verdicts import straggler_verdicts
from kinetoscope.model.trace.text import numbered
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Param, Schema

By = Literal["rank", "step", "collective"]

RESULT = Schema(
    Column("rank", pl.Int64, "Rank that is charged; by collective the rank that arrived last."),
    Column("step", pl.Int64, "Number of the step; null by rank."),
    Column("process_group", pl.String, "Process group of the collective; null unless by collective."),
    Column("kind", pl.String, "Kind of the collective; null unless by collective."),
    Column("start", pl.Int64, "First arrival, since the first one of all; null unless by collective.", "ns"),
    Column("calls", pl.Int64, "Collectives that the rank took part in; only those that could be matched."),
    Column("last", pl.Int64, "In how many of them it arrived last."),
    Column("late", pl.Int64, "The longest that it arrived after the rank in the middle where it was last.", "ns"),
    Column(
        "lost",
        pl.Int64,
        "Time that the others waited because of it, or that its lateness put off, summed over them; an estimate by "
        "whole steps.",
        "ns",
    ),
    Column(
        "gain",
        pl.Int64,
        "By how much the steps of the others would be shorter if nobody waited for this straggler alone, summed over "
        "them; null for other ranks, by collective, and by whole steps.",
        "ns",
    ),
    Column("carried", pl.Int64, "Time that they waited for it because of something earlier; charged there.", "ns"),
    Column("lost_share", pl.Float64, "Lost / time of all steps of the other ranks.", "fraction"),
    Column(
        "straggler",
        pl.Boolean,
        "Is lost more than 1 % of a step and than the error of clocks, by the rank's own fault, and beyond chance.",
    ),
    Column(
        "cause",
        pl.String,
        "Why it was late: the activity that took longer than on the rank in the middle; null if nothing was lost.",
    ),
    Column("cause_share", pl.Float64, "Share of that cause in what it is charged with.", "fraction"),
    Column(
        "row",
        pl.Int64,
        "Event of the rank: the collective in which it was last and the others lost most; null if they lost nothing.",
    ),
    Column("charged_to", pl.Int64, "Rank that caused most of the loss; null unless by collective."),
)


def stragglers(trace: Trace, select: Selection) -> Partial:
    """Which rank do the others wait for, how much does that cost, and why is it late?

    Method. Collectives of all ranks are matched and put on one clock. In each the rank that arrives last makes the
    others wait: each from its own arrival to the last one, less the part that computation covers. Waiting beneath
    computation puts off what comes later on the same stream: as much transfer as is exposed by that is lost, too.

    The last rank is compared with the one in the middle of those that wait, since the last barrier: a collective in
    which both stood still. Its extra own time is its fault, and names the cause: computation, communication (transfer,
    not waiting: a slow link), memory copies, data loading, synchronization (calls that wait for the device, and the
    idle time after them), or host gap (other host work, or nothing recorded). Time that it had to wait itself is
    charged to where that began. Exposed transfer that both ranks share is charged to the host activity that left it
    exposed.

    A rank is a straggler if by its own fault, which a slow link is not, it costs those who wait more than 1 % of a
    step in each step on average, more than three times the spread of the clocks, and three times the cost of the rank
    in the middle by the same cause; and if its own time exceeds that of ranks with the same work by as much in each
    step, by five standard errors. From three steps on the step in which a rank cost most is left out: it may be an
    accident, such as a warm-up; unless the rank's host is slow in each step and hidden by run-ahead after the first. By
    step no step is left out; by collective the first two limits hold for the loss of the others.

    Ranks that single collectives do not name are also judged by whole steps: own time is longer in each step, and the
    others are in collectives for as much longer, computing nothing. Their cost is estimated, and a note says so.
    `docs/stragglers.md` describes the method.

    `gain` replays the collectives of all ranks as if nobody waited for the straggler. Of several stragglers, mending
    one gains its delay beyond that of the next one, which is less than `lost`.

    How to read it. By rank, stragglers stand first, the costliest before the others. The cause says where to look on
    that rank: `kernel_spread` for computation, the loader for data loading, `synchronizations` for synchronization,
    `idle_breakdown` for the host. `by="step"` tells a hiccup from a habit. With `by="collective"` you see each
    collective: who arrived last, what it cost, and whose fault it was.

    Limits. Sending and receiving is no collective: waiting there is a bubble of the pipeline, and what follows from it
    in later collectives has the cause pipeline, which makes no straggler. By collective, a rank that waits in several
    at a time counts in each; else in the first. Lateness in the first collective of a recording may come from before
    it: cause unknown. A rank that is late now and then, in few steps, or in a damaged recording may not be certain
    enough to be named. Whole steps need three steps with marks that number them, most ranks of the job, and devices
    where there is a pipeline.
    """
    view = scope(trace, select)
    calls = selected_calls(view)
    before = before_collectives(trace, select.steps_by)
    before = before.select(
        "row", "place", *ACTIVITIES, QUEUED, COVERED, host_exposed(trace, before), launched_before(trace, before)
    )
    steps = own_steps(view)
    counts = calls.group_by("step").agg(calls=pl.len())
    calls = calls.join(before, on="row", how="left").join(steps.select("step", "step_time"), on="step", how="left")
    steps = steps.join(counts, on="step", how="left").with_columns(pl.col("calls").fill_null(0))
    notes: list[Note] = []
    if not len(calls):
        notes.append(Note("NO_COLLECTIVES", "No collectives were recorded."))
    return Partial(with_source(calls, trace), tuple(notes), with_source(steps, trace))


_MIN_STEP_SHARE: Final = 0.01
"""Cost of a straggler for each of the others / duration of a step."""

NONE_MATCHED: Final = Note("NO_MATCHED_COLLECTIVES", "No collectives were matched across ranks.")

_MIN_CLOCK_SPREADS: Final = 3


def _lower_median(values: pl.Series) -> int:
    """The lower middle value; 0 for none."""
    known = values.drop_nulls().sort()
    return int(known[(len(known) - 1) // 2]) if len(known) else 0


def _finished(
    calls: pl.DataFrame,
    steps: pl.DataFrame,
    *,
    by: Annotated[By, Param("A row for each rank, each rank and step, or each collective.")] = "rank",
) -> Partial:
    if calls["rank"].n_unique() < 2:
        alone = (
            () if calls.is_empty() else (Note("ONE_RANK", "Only one rank has collectives: nobody waits for another."),)
        )
        return Partial(RESULT.empty(), alone)
    collectives = match_and_align(calls)
    arrivals, calls = arrivals_of(collectives.frame)
    attribution = attribute_waiting(arrivals, int(arrivals.match.max(initial=-1)) + 1)
    step = _lower_median(calls["step_time"]) or _lower_median(collectives.frame["step_time"])
    least = max(int(_MIN_STEP_SHARE * step), _MIN_CLOCK_SPREADS * collectives.clocks.spread)
    matched = bool(calls["matched"].any())
    if by == "collective":
        table = _by_collective(arrivals, calls, attribution, least) if matched else RESULT.empty()
    else:
        costs = delays_by_rank(arrivals, calls, attribution)
        own = own_time(steps, stages(collectives.frame), step, host_exposed_time(calls, attribution))
        estimates = delays_by_step(steps, collectives.frame, costs, step)
        table = _by_rank(costs if matched else None, estimates, own, least, by)
        table = _with_gains(table, arrivals, calls, by)
        table = _with_worst(table, arrivals, calls, attribution, by)
    if table.is_empty():
        return Partial(RESULT.empty(), (*collectives.notes, NONE_MATCHED))
    if by == "rank":
        table = table.sort("straggler", "lost", "rank", descending=[True, True, False])
    notes = _notes(arrivals, steps, table, by) if matched or table["straggler"].any() else (NONE_MATCHED,)
    return Partial(RESULT.conform(table.select(RESULT.names)), (*collectives.notes, *notes))


def _by_collective(arrivals: Arrivals, calls: pl.DataFrame, attribution: Attribution, least: int) -> pl.DataFrame:
    last, lost, cause = attribution.last, attribution.lost, attribution.cause
    start = np.full(len(last), np.iinfo(np.int64).max)
    np.minimum.at(start, arrivals.match, arrivals.arrival)
    own = np.isin(cause, OWN_CAUSES) & ~arrivals.pairwise[last]
    causes = pl.Series(CAUSES).gather(cause.astype(np.int64))
    frame = calls[last].select("rank", "step", "row", pl.col("group").alias("process_group"), "kind")
    return (
        frame.with_columns(
            start=pl.Series(start - start.min()),
            calls=pl.lit(1, pl.Int64),
            last=pl.lit(1, pl.Int64),
            late=pl.Series(attribution.late),
            lost=pl.Series(lost),
            carried=pl.Series(attribution.carried),
            gain=pl.lit(None, pl.Int64),
            lost_share=pl.lit(None, pl.Float64),
            straggler=pl.Series((lost > least) & own),
            cause=pl.Series(causes).set(pl.Series((lost == 0) | arrivals.pairwise[last]), None),
            cause_share=pl.lit(None, pl.Float64),
            row=pl.when(pl.Series(lost > 0)).then("row"),
            charged_to=pl.Series(arrivals.rank[attribution.first]).set(pl.Series(lost == 0), None),
        )
        .filter(calls[last]["matched"])
        .sort("rank", "start", "process_group", "kind", maintain_order=True)
    )


def _by_rank(
    costs: pl.DataFrame | None, estimates: pl.DataFrame | None, own: OwnTime, least: int, by: By
) -> pl.DataFrame:
    """The verdicts on costs of collectives, and on estimates by whole steps where the first name nobody."""
    keys = ["rank", "step"] if by == "step" else ["rank"]
    tables = [
        _with_shares(straggler_verdicts(each, own, least, each_step=by == "step"), by).with_columns(
            by_steps=each is estimates
        )
        for each in (costs, estimates)
        if each is not None
    ]
    if len(tables) < 2:
        return tables[0] if tables else RESULT.empty()
    first, second = tables
    new = ~pl.col("rank").is_in(first["rank"].unique().implode())
    more = second.filter(new | pl.col("straggler"))
    more = more.join(first.filter("straggler"), on=keys, how="anti", nulls_equal=True)
    return pl.concat([first.join(more, on=keys, how="anti", nulls_equal=True), more]).sort(keys)


def _with_gains(table: pl.DataFrame, arrivals: Arrivals, calls: pl.DataFrame, by: By) -> pl.DataFrame:
    """With what the steps of the others would gain without each straggler that collectives name."""
    if "by_steps" not in table.columns:
        return table
    keys = ["rank", "step"] if by == "step" else ["rank"]
    is_named = pl.col("straggler") & ~pl.col("by_steps")
    named = table.filter(is_named)["rank"].unique().sort().to_list()
    each = calls.select("step", of=pl.col("rank"))
    gains = [
        each.with_columns(rank=pl.lit(rank, pl.Int64), gain=pl.Series(gains_without(arrivals, rank))).filter(
            pl.col("of") != rank
        )
        for rank in named
    ]
    if not gains:
        return table.with_columns(gain=pl.lit(None, pl.Int64))
    sums = pl.concat(gains).group_by(keys).agg(pl.col("gain").sum())
    joined = table.join(sums, on=keys, how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(gain=pl.when(is_named).then(pl.min_horizontal("gain", "lost")))


def _with_worst(
    table: pl.DataFrame, arrivals: Arrivals, calls: pl.DataFrame, attribution: Attribution, by: By
) -> pl.DataFrame:
    """With the event of the collective that cost the others most."""
    keys = ["rank", "step"] if by == "step" else ["rank"]
    late = calls[attribution.last].with_columns(lost=pl.Series(attribution.lost))
    late = late.filter((pl.col("lost") > 0) & pl.Series(~arrivals.pairwise[attribution.last]))
    worst = late.group_by(keys).agg(pl.col("row").sort_by("lost", "row", descending=[True, False]).first())
    return table.join(worst, on=keys, how="left", nulls_equal=True, maintain_order="left")


def _with_shares(table: pl.DataFrame, by: By) -> pl.DataFrame:
    together = pl.col("step") if by == "step" else pl.lit(0)
    rest = pl.col("step_time").sum().over(together) - pl.col("step_time")
    return table.with_columns(
        lost_share=pl.when(rest > 0).then((pl.col("lost") / rest).clip(0, 1)),
        step=pl.col("step") if by == "step" else pl.lit(None, pl.Int64),
        **{name: pl.lit(None, RESULT[name].dtype) for name in ("process_group", "kind", "start", "charged_to")},
    )


def _notes(arrivals: Arrivals, steps: pl.DataFrame, table: pl.DataFrame, by: By) -> Iterator[Note]:
    if len(arrivals) and arrivals.pairwise.all():
        yield Note(
            "POINT_TO_POINT",
            "All communication is point-to-point: waiting there is a pipeline bubble and makes no straggler.",
        )
        return
    if by == "collective":
        return

    def ranks(*filters: str) -> list[int]:
        return table.filter(*filters)["rank"].unique().sort().to_list()

    if hidden := ranks("hidden_by_run_ahead"):
        yield Note(
            "HIDDEN_STRAGGLERS",
            f"The others waited for {numbered('rank', hidden)} almost only in one step, but its host is slow in each: "
            "in the others it is hidden, as hosts run ahead of their devices.",
        )
    if one_off := ranks("one_off"):
        yield Note(
            "ONE_OFF_DELAY",
            f"The others waited for {numbered('rank', one_off)} almost only in one step: probably a one-off delay "
            "(by='step' lists each step).",
        )
    if not (stragglers := ranks("straggler")):
        yield Note("NO_STRAGGLER", "No rank makes the others wait for more than 1 % of a step by its own fault.")
        return
    if by == "rank" and steps["step"].n_unique() < MIN_PLACES:
        yield Note("FEW_STEPS", "With fewer than three steps a one-off delay cannot be distinguished from a straggler.")
    if estimated := ranks("straggler", "by_steps"):
        yield Note(
            "STRAGGLERS_OF_STEPS",
            f"Whole steps, not single collectives, show that the others wait for {numbered('rank', estimated)}: their "
            "loss is estimated from their extra time in collectives.",
        )
    yield Note("STRAGGLERS", f"The others wait for {numbered('rank', stragglers)}.")


ANALYSIS = Analysis(
    "Stragglers", stragglers, RESULT, combine=join, finish=_finished, chart=Bars("rank", "lost"), across_ranks=True
)
