"""Waits of the host for the device, what the steps gain without them, and which of them fetch tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.host_islands import host_islands
from kinetoscope.advisor.evidence.source_location import user_frame_of
from kinetoscope.advisor.evidence.stakes import is_worth_reporting, stake_by_time
from kinetoscope.advisor.finding import Stake
from kinetoscope.advisor.rule import RankView
from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.algorithms.intervals.intervals import Intervals, intersection, merge, union
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.device.copies import copy_direction
from kinetoscope.model.execution.call_tree import enclosing_op, inside, outermost_op
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import RANGE_KINDS, is_data_loading
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.execution.streams import launch_times
from kinetoscope.model.execution.synchronization import SHORTEST_WAIT_NS, host_waits, idle_after
from kinetoscope.model.steps.steps import step_of
from kinetoscope.model.steps.steps import steps as find_steps
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import COMMUNICATION_RECORD, EventKind, WorkKind
from kinetoscope.model.trace.names import rows_beginning, rows_named
from kinetoscope.model.trace.trace import Trace

CERTAIN_SHARE: Final = 0.8
"""Certain share of the stake: the value has still to be fetched, if only now and then."""

_COPY_LEFT: Final = 0.5
"""What is left at most of copies to the host: into pinned memory they are several times as fast, and can overlap."""

_MIN_IDLE_SHARE: Final = 0.002
"""Share of the time in which a device must be idle after the calls of a site."""

_MOST_SITES: Final = 5
"""Sites that are looked at one by one, those with most idle time after them."""

_NEVER_NS: Final = np.iinfo(np.int64).max

_MOSTLY: Final = 0.9
"""Share of the calls of a site that must end their steps' waits if the site fetches tokens."""


@dataclass(frozen=True)
class WaitSite:
    """A place at which the host waits.

    Attributes:
        calls: int32 [calls], rows of the calls that wait.
        top: int32 [calls], outermost operator around each, else the call itself.
        after: int64 [calls], time of a device that is idle after each, ns.
    """

    calls: Int32s
    top: Int32s
    after: Int64s

    @property
    def idle(self) -> int:
        """Idle time after all of them, ns."""
        return int(self.after.sum())


def wait_sites(rank: RankView) -> list[WaitSite]:
    """The sites with most idle time after them, by outermost operator and source line; those of other rules are not.

    Of a server the time between its steps counts, too.
    """
    trace, waits = rank.trace, host_waits(rank.trace)
    chosen = np.flatnonzero(_selected(rank, waits.call) & ~_others(trace)[waits.call])
    calls = waits.call[chosen]
    if not len(calls):
        return []
    top = outermost_op(trace)[calls]
    top = np.where(top >= 0, top, calls).astype(np.int32)
    frame = user_frame_of(trace, calls)
    codes, first = group(
        trace.name[top].astype(np.int64), np.where(frame >= 0, trace.name[frame], np.int32(-1)).astype(np.int64)
    )
    after = idle_after(trace)[chosen]
    idle = sum_by(codes, len(first), after)
    least = _MIN_IDLE_SHARE * rank.time.length
    order = [place for place in np.argsort(-idle, kind="stable").tolist() if idle[place] >= least]
    return [
        WaitSite(calls[codes == place], top[codes == place], after[codes == place]) for place in order[:_MOST_SITES]
    ]


def _selected(rank: RankView, calls: Int32s) -> Bools:
    selected = rank.scope.host_mask[calls]
    if rank.program == "serving":
        selected |= step_of(rank.windows, rank.trace.start[calls]) >= 0
    return selected


def fetches_tokens(rank: RankView, site: WaitSite) -> bool:
    """Is this where an engine waits for the tokens of a step: for the last time before the next step begins?"""
    return bool(np.isin(site.calls, _last_of_steps(rank)).mean() >= _MOSTLY)


@derived
def _last_of_steps(rank: RankView) -> Int32s:
    """The last call of each step that waits, or would."""
    trace, begins = rank.trace, find_steps(rank.trace, rank.select.steps_by).host.start
    calls = host_waits(trace).call
    calls = calls[~_others(trace)[calls] & (trace.start[calls] >= begins.min(initial=_NEVER_NS))]
    calls = calls[np.argsort(trace.start[calls], kind="stable")]
    step = np.searchsorted(begins, trace.start[calls], side="right")
    return np.asarray(calls[np.append(step[1:] != step[:-1], True)[: len(calls)]], np.int32)


def tokens_there(rank: RankView) -> Int32s:
    """Calls for the tokens of a step that found them there: of an engine that works ahead, those of the step before."""
    calls = _last_of_steps(rank)
    return np.asarray(calls[rank.trace.end[calls] - rank.trace.start[calls] < SHORTEST_WAIT_NS], np.int32)


def _others(trace: Trace) -> Bools:
    """Calls of other rules: copies to the device and for operators on the host, loaders, collectives, frees."""
    work, waits, op = device_work(trace), host_waits(trace), enclosing_op(trace)
    copies = rows_named(trace, lambda name: copy_direction(name) == "HtoD", EventKind.MEMCPY)[work.rows]
    launch = work.launch[copies & (work.kind == WorkKind.MEMCPY) & (work.launch >= 0)]
    copying = np.zeros(len(trace) + 1, np.bool_)
    fetched = host_islands(trace).fetch
    copying[op[launch]] = copying[op[fetched[fetched >= 0]]] = True
    copying[-1] = False
    skipped_calls = copying[op]
    skipped_calls[launch] = True
    skipped_calls |= runtime_call_kinds(trace) == RuntimeCallKind.FREE
    skipped = is_data_loading(trace) | rows_beginning(trace, ("c10d::", "nccl:", COMMUNICATION_RECORD), *RANGE_KINDS)
    skipped_calls |= inside(trace, skipped)
    result = np.zeros(len(trace), np.bool_)
    result[waits.call] = skipped_calls[waits.call]
    return result


def stakes_of_sites(
    rank: RankView, sites: Sequence[WaitSite], over: Int32s | None = None
) -> Iterator[tuple[WaitSite, Stake]]:
    """The gain of the steps without the waits of each site, where that is worth a report.

    over: calls that found what they ask for there; at most, it is there without the waits, too.

    Where the host waits at several places, removing only one may bring little: the interval reaches from that gain to
    the place's share of the gain from removing all.
    """
    if not sites:
        return
    everywhere = rank.gains(without_waits(rank, sites, 0.0))
    least = rank.gains(without_waits(rank, sites, _COPY_LEFT))
    most = everywhere
    if over is not None and len(over):
        factors = without_waits(rank, sites, 0.0)
        factors.free[over] = True
        most = rank.gains(factors)
    total = max(sum(site.idle for site in sites), 1)
    for site in sites:
        part = everywhere * (site.idle / total)
        alone = part if len(sites) == 1 else rank.gains(without_waits(rank, [site], 0.0))
        less, more = sorted((part, alone), key=lambda gains: float(gains.sum()))
        more = max(more, most * (site.idle / total), key=lambda gains: float(gains.sum()))
        fewer = float(least.sum()) / max(float(everywhere.sum()), 1.0)
        stake = stake_by_time(rank, CERTAIN_SHARE * min(max(fewer, 0.0), 1.0) * less, more, rank.spans(site.calls))
        if is_worth_reporting(rank, stake):
            yield site, stake


def without_waits(rank: RankView, sites: Sequence[WaitSite], left: float) -> Factors:
    """No such calls, and a part of the copies that they wait for."""
    factors = rank.factors()
    waits = host_waits(rank.trace)
    calls = np.zeros(len(rank.trace), np.bool_)
    for site in sites:
        calls[site.top] = True
        factors.free[site.calls] = True
        copies = waits.own[np.isin(waits.call, site.calls) & (waits.own >= 0)]
        factors.work[copies] = left
    factors.host[inside(rank.trace, calls)] = 0.0
    return factors


def time_of_site(rank: RankView, site: WaitSite) -> Intervals:
    """The idle time that follows from each call, until what is launched next starts at the latest; and its copies."""
    launched = launch_times(rank.trace)
    work = rank.work
    order = np.flatnonzero(work.launch >= 0)
    order = order[np.argsort(launched[order], kind="stable")]
    following = np.searchsorted(launched[order], rank.trace.end[site.calls])
    known = following < len(order)
    calls = site.calls[known]
    until = np.minimum(work.start[order[following[known]]], rank.trace.end[calls] + site.after[known])
    idle = intersection(union(rank.trace.start[calls], until), rank.idle)
    return merge(idle, intersection(copies_of_site(rank, site), rank.time))


def copies_of_site(rank: RankView, site: WaitSite) -> Intervals:
    """When the copies run that its calls wait for."""
    waits, work = host_waits(rank.trace), rank.work
    copies = waits.own[np.isin(waits.call, site.calls) & (waits.own >= 0)]
    return union(work.start[copies], work.end[copies])
