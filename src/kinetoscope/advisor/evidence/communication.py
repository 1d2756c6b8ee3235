"""Costs of a job's collectives, and where the time goes that nothing hides: asked once for all rules about ranks.

Exposed communication of the average step is laid out on an axis of its own, transfer first, waiting after it. Rules
claim stretches of that axis, so that two of them do not count the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from kinetoscope.advisor.rule import JobView
from kinetoscope.advisor.step_statistics import mean_of
from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, covered
from kinetoscope.model.analysis import Question
from kinetoscope.model.answer import Partial
from kinetoscope.model.collectives.bandwidth import collectives_of, with_costs
from kinetoscope.model.collectives.calls import base_of, computation, for_matching
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.schema import Column, Result, Schema

COLLECTIVES = Schema(
    Column("rank", pl.Int64, "The lowest rank that took part."),
    Column("group", pl.String, "The process group; null where nothing tells."),
    Column("group_size", pl.Int64, "Ranks in it."),
    Column("group_ranks", pl.String, "Which they are."),
    Column("hosts", pl.Int64, "Machines that they are on; null where the files do not say."),
    Column("kind", pl.String, "all_reduce, all_gather, …"),
    Column("dtype", pl.String, "Type of the elements."),
    Column("bytes", pl.Int64, "Size as nccl-tests counts it.", "bytes"),
    Column("on_host", pl.Boolean, "Do they run on hosts although there is work on devices?"),
    Column("by_host", pl.Boolean, "Do hosts carry them out, whether there is work on devices or not?"),
    Column("calls", pl.Float64, "In an average step of a rank that takes part."),
    Column("members", pl.Float64, "Share of all ranks and steps that take part."),
    Column("transfer", pl.Float64, "The least that one took on any of its ranks: the middle of them.", "ns"),
    Column("fastest", pl.Float64, "The same: of the quickest tenth.", "ns"),
    Column(
        "exposed_transfer", pl.Float64, "Transfer that no computation hides, in an average step of all ranks.", "ns"
    ),
    Column("exposed", pl.Float64, "The same with waiting for late ranks.", "ns"),
    Column("before", pl.Float64, "Share of the step's computation done before the first of them: the middle."),
    Column("factor", pl.Float64, "Bus / algorithm bandwidth."),
    Column("link_bandwidth", pl.Float64, "Peak of the links that it passes, one direction; null: unknown.", "bytes/s"),
    Column("computation", pl.Float64, "Computation of an average step of all ranks.", "ns"),
    Column("halved", pl.Float64, "What half the time of reducing gradients saves, on the rank with the least.", "ns"),
)
"""The collectives of `communication_costs`: a row for each group, kind, type and size."""

_GROUP_KEY: Final = ("group", "kind", "dtype", "bytes", "on_host")


@dataclass(frozen=True)
class Straggler:
    """A rank that the others wait for.

    Attributes:
        rank: which.
        cause: as the analysis says.
        cost: what it costs each of the others in an average step, ns.
        gain: what mending it alone gains, ns; None where collectives do not tell.
        waiting: the cost on average over all ranks, itself among them; place: where that is on the axis, ns.
    """

    rank: int
    cause: str
    cost: float
    gain: float | None
    waiting: float
    place: float


@dataclass(frozen=True)
class CommunicationCosts:
    """Exposed communication of the average step of a job.

    Attributes:
        collectives: rows of `COLLECTIVES`.
        ranks: how many.
        steps: steps of a rank, on average.
        step: the average step, ns.
        transfer, waiting: of it, not hidden, on average over all ranks, ns.
        stragglers: those that are late in most steps, the costliest first.
        pipeline: do ranks wait for others that send to them, or receive?
        balance: of each rank and step, as the analysis `rank_balance` says.
    """

    collectives: pl.DataFrame
    ranks: int
    steps: float
    step: float
    transfer: float
    waiting: float
    stragglers: tuple[Straggler, ...]
    pipeline: bool
    balance: pl.DataFrame

    @property
    def by_hosts(self) -> bool:
        """Do hosts carry out all collectives?"""
        return len(self.collectives) > 0 and bool(self.collectives["by_host"].all())

    @property
    def of_hosts_alone(self) -> bool:
        """Do hosts carry out all collectives, and is there no work on devices?"""
        return self.by_hosts and not self.collectives["on_host"].any()

    @property
    def rest(self) -> float:
        """Waiting that no straggler is charged with, ns."""
        return max(self.waiting - sum(each.waiting for each in self.stragglers), 0.0)

    def of_transfer(self, length: float, place: float = 0.0) -> Intervals:
        """A stretch of the axis that is transfer."""
        return _stretch(min(place, self.transfer), min(place + length, self.transfer))

    def of_rest(self, length: float) -> Intervals:
        """A stretch that is waiting for no straggler."""
        until = self.transfer + self.waiting
        return _stretch(until - min(length, self.rest), until)

    def of_straggler(self, straggler: Straggler) -> Intervals:
        """The stretch that is waiting for a straggler."""
        return _stretch(self.transfer + straggler.place, self.transfer + straggler.place + straggler.waiting)


@derived
def communication_costs(job: JobView) -> CommunicationCosts:
    """The communication of the job's average step that nothing hides."""
    balance = job.ask("rank_balance").frame
    ranks = max(balance["rank"].n_unique(), 1)
    exposed = mean_of(balance["exposed_communication"])
    waiting = mean_of(balance["exposed_waiting"])
    step = mean_of(balance["duration"])
    # Where next to nothing is exposed no rule has anything to say, and nothing more is asked.
    quiet = exposed < _NEGLIGIBLE_STEP_SHARE * step or ranks < 2
    collectives = COLLECTIVES.empty()
    if not quiet:
        collectives = _limited(job.of(collectives_of_steps).frame, exposed - waiting)
    late = tuple(_late(job, balance)) if waiting >= _NEGLIGIBLE_STEP_SHARE * step and not quiet else ()
    sends = float(collectives.filter(pl.col("kind").is_in(PAIRWISE))["exposed"].sum())
    pipeline = sends > _PIPELINE * float(collectives["exposed"].sum())
    return CommunicationCosts(
        collectives, ranks, len(balance) / ranks, step, exposed - waiting, waiting, late, pipeline, balance
    )


def collectives_question(select: Selection) -> Question:
    """The question for the collectives of the selected steps: rows of `COLLECTIVES`."""
    from kinetoscope.model.matching.match import join

    return Question(_of_trace, COLLECTIVES, select, combine=join, finish=_finished)


def collectives_of_steps(job: JobView) -> Result:
    """The collectives of the selected steps: rows of `COLLECTIVES`."""
    return job.traces.answer(collectives_question(job.select))


EARLY_WORK_SHARE: Final = 0.12
"""Share of the computation before which no gradient can be ready; what is reduced earlier is needed at once."""

PAIRWISE: Final = ("send", "recv", "send_recv")

_PIPELINE: Final = 0.1
"""Share of the exposed communication that is sending and receiving, from which on stages of a pipeline are supposed."""

_NEGLIGIBLE_STEP_SHARE: Final = 0.005
"""Share of a step below which communication is ignored."""

_MIN_STEPS: Final = 4
_COSTLY_SHARE, _OCCASIONAL_SHARE = 0.25, 0.5
"""A straggler is occasional if at most half of the steps cost a quarter of the worst step or more."""


def _stretch(start: float, end: float) -> Intervals:
    whole = np.array([[round(start)], [round(end)]], np.int64)
    return Intervals(*whole) if whole[1, 0] > whole[0, 0] else Intervals(whole[0, :0], whole[1, :0])


def _late(job: JobView, balance: pl.DataFrame) -> Iterator[Straggler]:
    """The stragglers, the costliest first, one behind the other on the axis."""
    table = job.ask("stragglers").frame.filter("straggler").sort("lost", "rank", descending=[True, False])
    ranks = balance["rank"].n_unique()
    steps = len(balance) / ranks
    often = [row for row in table.iter_rows(named=True) if not _is_seldom(job, row["rank"], steps)]
    place = 0.0
    for row in often:
        others = (ranks - 1) * steps
        cost, gain = row["lost"] / others, None if row["gain"] is None else row["gain"] / others
        waiting = cost * (ranks - 1) / ranks
        yield Straggler(row["rank"], row["cause"] or "unknown", cost, gain, waiting, place)
        place += waiting


def _is_seldom(job: JobView, rank: int, steps: float) -> bool:
    """Does a straggler cost much in few steps and little in the others?"""
    each = job.ask("stragglers", by="step").frame.filter(pl.col("rank") == rank)["lost"]
    worst = each.max()
    if steps < _MIN_STEPS or not isinstance(worst, int):
        return False
    return int((each > _COSTLY_SHARE * worst).sum()) <= _OCCASIONAL_SHARE * steps


def _limited(collectives: pl.DataFrame, transfer: float) -> pl.DataFrame:
    """Collectives of several groups run at the same time: together they expose no more than is exposed."""
    total = float(collectives["exposed_transfer"].sum())
    times = min(1.0, transfer / total) if total > 0 else 1.0
    return collectives.with_columns(pl.col("exposed_transfer") * times)


# --- where the traces are, and where their answers meet


def _of_trace(trace: Trace, select: Selection) -> Partial:
    """The calls of a rank, and a row for each of its steps, in `computing` the computation in it."""
    view = scope(trace, select)
    answer = for_matching(trace, select)
    windows = view.clipped(*view.steps.device)
    does = computation(trace)
    computing = covered(windows, does)
    calls = answer.frame
    start = calls["start"].to_numpy() - base_of(trace)
    place = np.searchsorted(windows.start, start, side="right") - 1
    inside = place >= 0
    before = np.full(len(calls), np.nan)
    begins = windows.start[place[inside]]
    done = covered(Intervals(begins, np.maximum(start[inside], begins)), does) if inside.any() else np.zeros(0)
    before[inside] = done / np.maximum(computing[place[inside]], 1)
    work = device_work(trace)
    has_device = len(work) > 0
    late = calls.filter((pl.col("kind") == "all_reduce") & ~pl.col("on_host") & pl.Series(before >= EARLY_WORK_SHARE))
    halved = _halved(trace, windows, np.flatnonzero(np.isin(work.rows, late["row"].to_numpy())))
    calls = calls.with_columns(
        before=pl.Series(before, nan_to_null=True),
        place=pl.Series(place, dtype=pl.Int64),
        on_host=pl.col("on_host") & has_device,
        by_host=pl.col("on_host"),
        computing=pl.lit(None, pl.Int64),
        halved=pl.lit(None, pl.Int64),
    )
    marks = pl.DataFrame({"place": np.arange(len(computing)), "computing": computing, "halved": halved}).with_columns(
        rank=pl.lit(trace.source.rank, pl.Int64), cycle=pl.lit(trace.source.cycle, pl.Int64)
    )
    return Partial(pl.concat([calls, marks], how="diagonal"), answer.notes)


def _halved(trace: Trace, steps: Intervals, reductions: Int64s) -> Int64s:
    """How much sooner the last reduction of gradients ends in each step if each takes half, ns: int64 [steps].

    A reduction waits for the one before it, for its own launch, and for all computation that was launched before it:
    that is the event that c10d records. What the computation hides in any case is no gain.

    reductions: places in `device_work`, on one stream or several that take turns.
    """
    work, does = device_work(trace), computation(trace)
    place = reductions[(work.launch[reductions] >= 0)]
    place = place[np.argsort(work.start[place], kind="stable")]
    saved = np.zeros(len(steps.start), np.int64)
    if not len(place) or not len(does.end):
        return saved
    computing = np.flatnonzero(work.of(WorkKind.COMPUTATION) & (work.launch >= 0))
    computing = computing[np.argsort(trace.start[work.launch[computing]], kind="stable")]
    until = np.concatenate([[0], np.maximum.accumulate(work.end[computing])])
    asked = trace.start[work.launch[place]]
    ready = until[np.searchsorted(trace.start[work.launch[computing]], asked)]
    ready = np.minimum(np.maximum(ready, trace.end[work.launch[place]]), work.start[place])
    half = work.duration[place] // 2
    total = np.cumsum(half)
    sooner = total + np.maximum.accumulate(ready - total + half)
    step = np.searchsorted(steps.start, work.start[place], side="right") - 1
    last = np.flatnonzero((np.diff(step, append=len(steps.start)) != 0) & (step >= 0))
    end = work.end[place[last]]
    before = np.searchsorted(does.end, end, side="right") - 1
    hidden = np.where(before >= 0, does.end[np.maximum(before, 0)], end)
    running = np.searchsorted(does.start, end) - 1 > before
    gain = np.maximum(end - np.maximum(sooner[last], hidden), 0)
    saved[step[last]] = np.where(running, 0, gain)
    return saved


def _finished(frame: pl.DataFrame) -> pl.DataFrame:
    marks = frame.filter(pl.col("computing").is_not_null())
    calls = frame.filter(pl.col("computing").is_null())
    if not len(calls) or not len(marks):
        return COLLECTIVES.empty()
    from kinetoscope.model.matching.match import match

    costs = with_costs(match(calls.drop("computing", "halved")).frame)
    factors = collectives_of(costs).drop_nulls("call").select("call", "factor", size="bytes")
    costs = costs.join(factors, left_on="match", right_on="call", how="left", maintain_order="left")
    costs = costs.with_columns(bytes=pl.coalesce("size", "bytes"))
    here = pl.struct("rank", "cycle", "place")
    hosts = costs.group_by("group").agg(hosts=pl.when(pl.col("host").null_count() == 0).then(pl.col("host").n_unique()))
    exposed = pl.min_horizontal("exposed", "transfer").fill_null(0)
    first: Any = costs.group_by(*_GROUP_KEY, "rank", "cycle", "place").agg(pl.col("before").min())
    first = first.group_by(*_GROUP_KEY).agg(pl.col("before").median())
    steps = len(marks)
    table = costs.group_by(*_GROUP_KEY).agg(
        pl.col("rank").min(),
        pl.col("group_size").drop_nulls().first(),
        pl.col("group_ranks").drop_nulls().first(),
        pl.col("factor").drop_nulls().first(),
        pl.col("link_bandwidth").min(),
        pl.col("by_host").first(),
        calls=pl.len() / here.n_unique(),
        members=here.n_unique() / steps,
        transfer=pl.col("transfer").median(),
        fastest=pl.col("transfer").quantile(0.1),
        exposed_transfer=exposed.sum() / steps,
        exposed=pl.col("exposed").sum() / steps,
    )
    table = table.join(hosts, on="group", how="left", nulls_equal=True)
    table = table.join(first, on=_GROUP_KEY, how="left", nulls_equal=True)
    table = table.with_columns(
        computation=pl.lit(mean_of(marks["computing"])),
        halved=pl.lit(marks.group_by("rank").agg(pl.col("halved").mean())["halved"].min()),
    )
    return table.sort("exposed_transfer", *_GROUP_KEY, descending=[True, *[False] * len(_GROUP_KEY)], nulls_last=True)
