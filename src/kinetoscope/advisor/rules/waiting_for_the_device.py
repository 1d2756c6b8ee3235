"""HOST002: calls that make the host wait for the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.host_islands import host_islands
from kinetoscope.advisor.evidence.source_location import in_source, user_frame_of, user_source_of
from kinetoscope.advisor.evidence.stakes import is_worth_reporting, stake_by_time
from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import quoted
from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.grouping import group, sum_by
from kinetoscope.algorithms.intervals.intervals import Intervals, intersection, union
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.device.copies import copy_direction
from kinetoscope.model.execution.call_tree import enclosing_op, inside, outermost_op
from kinetoscope.model.execution.calls import call_name
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import RANGE_KINDS, is_data_loading
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.execution.streams import launch_times
from kinetoscope.model.execution.synchronization import host_waits, idle_after
from kinetoscope.model.trace.event_kinds import COMMUNICATION_RECORD, EventKind, WorkKind
from kinetoscope.model.trace.names import rows_beginning, rows_named
from kinetoscope.model.trace.trace import Trace

_CERTAIN_SHARE: Final = 0.8
"""Certain share of the stake: the value has still to be fetched, if only now and then."""

_COPY_LEFT: Final = 0.5
"""What is left at most of copies to the host: into pinned memory they are several times as fast, and can overlap."""

_MIN_IDLE_SHARE: Final = 0.002
"""Share of the time in which a device must be idle after the calls of a site."""

_MOST_SITES: Final = 5
"""Sites that are looked at one by one, those with most idle time after them."""

_CHANGES: Final = (
    (("item", "_local_scalar_dense", "is_nonzero"),
     "- total += value.item()\n+ total += value.detach()  # and .item() once every so many steps"),
    (("nonzero", "masked_select", "unique", "index", "index_put_", "argwhere", "repeat_interleave", "bincount"),
     "- x = x[mask]\n+ x = torch.where(mask, x, 0)  # a shape that does not depend on values"),
    (("to", "_to_copy", "copy_", "cpu"),
     '- y = x.cpu()\n+ y = x.to("cpu", non_blocking=True)  # and read it when the step is over'),
    (("cudaDeviceSynchronize", "hipDeviceSynchronize", "cudaEventSynchronize", "cudaStreamSynchronize"),
     "- torch.cuda.synchronize()"),
)  # fmt: skip
"""What helps, by the operator's name without its namespace, or by that of the call."""


@dataclass(frozen=True)
class _Site:
    """Where the host waits.

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


def waiting_for_the_device(rank: RankView) -> Iterator[Finding]:
    """Which calls make the host wait for the device, so that the device then waits for the host?

    What it checks. Calls that wait for a stream, an event or the device, by outermost operator and source line: those
    of `.item()`, `.cpu()`, `nonzero` and `torch.cuda.synchronize()`. Copies to the device, calls that free memory, and
    copies for operators on the host belong to other rules.

    Why it matters. The host usually runs ahead of the device. A call that waits lets the queue run empty, and the
    device is idle until the host has launched something again. The waiting itself costs nothing where the device is the
    bottleneck. At stake is the time that the steps gain without these calls and the operators around them; eight tenths
    of it count as sure, as the value has still to be fetched at some time. Where the host waits at several places,
    removing only one may bring little: the interval reaches from that gain to the place's share of the gain from
    removing all.

    What to do. Keep values on the device, fetch them once every n steps, and avoid code that depends on how many
    elements meet a condition.
    """
    if not rank.has_device or not rank.step_count:
        return
    sites = _sites(rank)
    if not sites:
        return
    everywhere = rank.gains(_without(rank, sites, 0.0))
    least = rank.gains(_without(rank, sites, _COPY_LEFT))
    total = sum(site.idle for site in sites)
    for site in sites:
        part = everywhere * (site.idle / total)
        alone = part if len(sites) == 1 else rank.gains(_without(rank, [site], 0.0))
        less, more = sorted((part, alone), key=lambda gains: float(gains.sum()))
        fewer = float(least.sum()) / max(float(everywhere.sum()), 1.0)
        stake = stake_by_time(rank, _CERTAIN_SHARE * min(max(fewer, 0.0), 1.0) * less, more, rank.spans(site.calls))
        if is_worth_reporting(rank, stake):
            yield _claim(rank, site, stake)


def _sites(rank: RankView) -> list[_Site]:
    trace, waits = rank.trace, host_waits(rank.trace)
    chosen = np.flatnonzero(rank.scope.host_mask[waits.call] & ~_others(trace)[waits.call])
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
    return [_Site(calls[codes == place], top[codes == place], after[codes == place]) for place in order[:_MOST_SITES]]


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


def _without(rank: RankView, sites: list[_Site], left: float) -> Factors:
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


def _claim(rank: RankView, site: _Site, stake: Stake) -> Finding:
    trace = rank.trace
    took = trace.end[site.calls] - trace.start[site.calls]
    longest = int(np.argmax(took))
    row, top = int(site.calls[longest]), int(site.top[longest])
    name = call_name(trace.strings.glance(int(trace.name[top])), EventKind.HOST_OP)
    where = user_source_of(trace, row)
    return Finding(
        message=f"{quoted(name)}{in_source(where)} makes the host wait for the device. It waits"
        f" {rank.time_per_step(intersection(rank.spans(site.calls), rank.time).length)} of each step"
        f" ({rank.each_step(len(took), 'time')}), and the device then idles {rank.time_per_step(site.idle)}.",
        stake=stake,
        change=_change(name),
        why="The value has to be fetched some time: eight tenths of the gain count as sure.",
        evidence=(rank.event(row, "the longest of these calls", "synchronizations", where),),
        time=_time(rank, site),
        key=f"{name}{in_source(where)}",
    )  # fmt: skip


def _time(rank: RankView, site: _Site) -> Intervals:
    """The idle time that follows from each call, until what is launched next starts at the latest."""
    launched = launch_times(rank.trace)
    work = rank.work
    order = np.flatnonzero(work.launch >= 0)
    order = order[np.argsort(launched[order], kind="stable")]
    following = np.searchsorted(launched[order], rank.trace.end[site.calls])
    known = following < len(order)
    calls = site.calls[known]
    until = np.minimum(work.start[order[following[known]]], rank.trace.end[calls] + site.after[known])
    return intersection(union(rank.trace.start[calls], until), rank.idle)


def _change(name: str) -> str:
    last = name.rpartition("::")[2]
    return next((change for names, change in _CHANGES if last in names), "")


RULE = Rule("HOST002", "The host waits for the device", of_rank=waiting_for_the_device)
