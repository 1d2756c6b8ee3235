"""HOST003: operators in a row that one kernel could compute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.fusion import ChainsOfRank, chains_of_rank
from kinetoscope.advisor.evidence.source_location import in_source, user_source_of
from kinetoscope.advisor.evidence.stakes import bridged, leave_only, unblocked_launches
from kinetoscope.advisor.finding import Evidence, Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import quoted, share
from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, marked
from kinetoscope.algorithms.grouping import sum_by
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, intersection, merge, union
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.execution.call_tree import inside, outermost_op, outermost_ops
from kinetoscope.model.execution.device_work import launched_by
from kinetoscope.model.execution.optimizers import optimizer_steps, zero_grads
from kinetoscope.model.operators.categories import elementwise_ops, view_ops
from kinetoscope.model.roofline.calls import costed_calls
from kinetoscope.views.sentences import Sentence, measured, say

_MIN_RUN: Final = 3
"""Operators that follow one another, from which on it pays to put them into one."""

_MIN_OPERATORS: Final = 5
"""Operators a step from which on they are many."""

_LONGEST_PAUSE_NS: Final = 100_000
"""Between two of them: after more, something else was done in between."""

_TINY_KERNEL_NS: Final = 10_000
"""Length up to which a kernel is mostly launch overhead."""

_HOST_LEFT: Final = 0.2
_TINY_TIME_LEFT: Final = 0.2
"""Share of calls and of small kernels that is left at most: what is not fused is launched as before."""

_LEFT_ON_HOST: Final = 0.75
"""The same on a host, whose one operator computes what all of them did: `gelu` in the place of eight or nine operators
left half of their time in one program, and 65 and 70 % in others."""

_UNSEEN: Final = 1.1
"""On a host: what calls of operators cost before and after their spans."""

_MAX_PASSES: Final = 2.0
"""A fused kernel takes at most as long as so many of those that it stands for: it reads what all of them read."""


@dataclass(frozen=True)
class _Runs:
    """Operators in runs, by thread and time.

    Attributes:
        rows: int32 [operators].
        run: int64 [operators], number of the run.
        kept: bool [operators], the longest of each run, on a host the one in the middle: what is left of all.
    """

    rows: Int32s
    run: Int64s
    kept: Bools


def small_elementwise_operators(rank: RankView) -> Iterator[Finding]:
    """Are operators launched one by one that one kernel could compute?

    What it checks. Chains of operators bound by memory, forward or backward, each of which but the last writes what a
    later one reads (the analysis `fusion` lists them); and runs of three or more operators that compute element by
    element (add, mul, gelu, where, …) and follow one another on a thread with nothing but views between them. Those of
    optimizers belong to HOST004.

    Why it matters. Each of them is launched, reads all its elements and writes them again, though a few operations per
    element take no time. At most, one kernel in place of a chain takes what its inputs and its result need at the
    bandwidth of the device's memory, and only the longest call of each run remains. The lower end is the gain if the
    kernels of a chain of three operators or more shrink with the bytes that surely go, as compiled kernels reach the
    rate of those that they replace, and a fifth of the calls and of small kernels remains; on the host alone three
    quarters of the calls, as one operator then computes what all of them did. Where shapes were not recorded, large
    kernels take twice the longest of their run.

    What to do. Compile the model, or the function that these operators stand in.
    """
    runs, chains = _runs(rank), chains_of_rank(rank)
    has_runs = len(runs.rows) >= _MIN_OPERATORS * rank.step_count
    if not has_runs:
        runs = _Runs(runs.rows[:0], runs.run[:0], runs.kept[:0])
    if not has_runs and not len(chains.places):
        return
    trace = rank.trace
    gone = marked(len(trace), runs.rows[~runs.kept])
    gone = inside(trace, gone)
    kernels = launched_by(trace, gone) & ~_is_large_and_known(rank)
    low, best = _some_left(rank, runs, gone, kernels, chains), _none_left(rank, runs, kernels, chains)
    high = rank.gains(best) * (1.0 if rank.has_device else _UNSEEN)
    time = _time(rank, runs, kernels, chains)
    saved = saving(rank, low, high, time, took=_spent(rank, runs, gone, kernels, chains).length, factors=best)
    if saved is None:
        return
    took, is_large = rank.work.duration, rank.work.duration >= _TINY_KERNEL_NS
    is_traffic = not has_runs or 2 * took[chains.work & is_large].sum() > took[kernels | chains.work].sum()
    message, evidence = _about_chains(rank, chains) if is_traffic else _about_runs(rank, runs)
    yield saved.finding(
        message=message,
        change="+ torch.compile the functions that these operators stand in, too"
        if "compiled" in rank.uses
        else "- y = f(x)\n+ f = torch.compile(f)  # once\n+ y = f(x)",
        why=_why(rank),
        confidence="medium",
        evidence=evidence,
    )


def _why(rank: RankView) -> Sentence:
    if not rank.has_device:
        return say(
            "At most, only one call of each run remains; at least, a quarter of the time of the others goes: one"
            " operator computes what all of them did."
        )
    return say(
        "At most, one kernel for each chain moves its inputs and its result at the memory's bandwidth, and only the"
        " longest call of each run remains; at least, kernels of chains of three or more shrink as their bytes do, and"
        " a fifth of the calls and of small kernels remains."
    )


def _about_chains(rank: RankView, chains: ChainsOfRank) -> tuple[Sentence, Evidence]:
    where = user_source_of(rank.trace, chains.row)
    message = say(
        "One kernel could compute what several operators in a row do. {chains} take {took} of each step; one kernel for"
        " each would move {least} to {most} fewer bytes. Most is at stake in {name}{where}.",
        chains=rank.each_step(len(chains.places), "chain"),
        took=rank.time_per_step(chains.time),
        least=share(chains.saved_least, 1.0),
        most=share(chains.saved_most, 1.0),
        name=quoted(chains.name),
        where=in_source(where),
    )
    return message, rank.event(chains.row, "the first operator of the longest of these", "fusion", where)


def _about_runs(rank: RankView, runs: _Runs) -> tuple[Sentence, Evidence]:
    trace, longest = rank.trace, int(np.bincount(runs.run).argmax())
    rows = runs.rows[runs.run == longest]
    where = user_source_of(trace, int(rows[0]))
    took = int((trace.end[runs.rows] - trace.start[runs.rows]).sum())
    span = Intervals(trace.start[rows[:1]], trace.end[rows[-1:]])
    message = say(
        "Many small element-wise operators follow one another. {operators} form runs of up to {longest}; each takes the"
        " host {each}, {all} in all.",
        operators=rank.each_step(len(runs.rows), "operator"),
        longest=measured(len(rows)),
        each=measured(took / len(runs.rows), "ns"),
        all=rank.time_per_step(took),
    )
    return message, rank.longest_of(span, f"the longest run{in_source(where)}", "operators", int(rows[0]), where)


def _spent(rank: RankView, runs: _Runs, gone: Bools, kernels: Bools, chains: ChainsOfRank) -> Intervals:
    """The time of operators of runs and chains and of the short pauses between them, on the host and on devices."""
    changed = kernels | chains.work
    work = rank.work_time(changed)
    launches = rank.work.launch[chains.work]
    calls = np.concatenate([runs.rows, np.flatnonzero(gone), launches[launches >= 0]]).astype(np.int64)
    return merge(work, bridged(rank.spans(calls)))


def _runs(rank: RankView) -> _Runs:
    trace = rank.trace
    own = optimizer_steps(trace).inside | zero_grads(trace).inside
    rows = np.flatnonzero(outermost_ops(trace) & rank.scope.host_mask & ~view_ops(trace) & ~own).astype(np.int32)
    rows = rows[np.lexsort((rows, trace.start[rows], trace.track[rows]))]
    fits = elementwise_ops(trace)[rows]
    apart = np.ones(len(rows), np.bool_)
    apart[1:] = (trace.track[rows[1:]] != trace.track[rows[:-1]]) | (
        trace.start[rows[1:]] - trace.end[rows[:-1]] > _LONGEST_PAUSE_NS
    )
    number = np.cumsum(apart | ~fits | ~np.concatenate([[False], fits[:-1]]))
    rows, number = rows[fits], number[fits]
    _, run, counts = np.unique(number, return_inverse=True, return_counts=True)
    enough = counts[run] >= _MIN_RUN if len(run) else np.zeros(0, np.bool_)
    rows = rows[enough]
    run = np.unique(run[enough], return_inverse=True)[1]
    time = _times(rank)[rows]
    kept = np.zeros(len(rows), np.bool_)
    order = np.lexsort((-rows, time, run))
    last = np.flatnonzero(np.diff(run[order], append=-1))
    first = np.concatenate([[0], last[:-1] + 1]) if len(last) else last
    # On a host the longest was interrupted by something else: there the one in the middle tells what one takes.
    kept[order[last if rank.has_device else (first + last) // 2]] = True
    return _Runs(rows, run, kept)


def _times(rank: RankView) -> Int64s:
    """Time of each outermost operator: of its device work where there is a device, else its own: int64 [events], ns."""
    trace, work = rank.trace, rank.work
    if not rank.has_device:
        return trace.end - trace.start
    event = work.caller
    top = np.where(event >= 0, outermost_op(trace)[event], np.int32(-1))
    return sum_by(top.astype(np.int32), len(trace), work.duration)


def _is_large_and_known(rank: RankView) -> Bools:
    """Kernels that no fusion of their run shortens unless they are in a chain: what they move is known: bool [work]."""
    return np.asarray((costed_calls(rank.trace).call >= 0) & (rank.work.duration >= _TINY_KERNEL_NS))


def _none_left(rank: RankView, runs: _Runs, kernels: Bools, chains: ChainsOfRank) -> Factors:
    factors = unblocked_launches(rank)
    leave_only(factors, kernels, 0.0)
    factors.work[chains.work] = chains.left_least[chains.work]
    factors.gap[chains.work & ~chains.first] = 0.0
    factors.cut.update(_stretches(rank, runs))
    return factors


def _some_left(rank: RankView, runs: _Runs, gone: Bools, kernels: Bools, chains: ChainsOfRank) -> Factors:
    trace, work = rank.trace, rank.work
    factors = unblocked_launches(rank)
    factors.host[gone] = _HOST_LEFT if rank.has_device else _LEFT_ON_HOST
    counts = np.bincount(runs.run)[runs.run] if len(runs.run) else runs.run
    of_row = np.ones(len(trace))
    of_row[runs.rows] = np.clip((_MAX_PASSES - 1) / (counts - 1), _TINY_TIME_LEFT, 1.0)  # one of them is kept whole
    event = work.caller
    left = of_row[outermost_op(trace)[event]]
    is_tiny = work.duration < _TINY_KERNEL_NS
    left[is_tiny] = _TINY_TIME_LEFT
    leave_only(factors, kernels, left[kernels])
    others = chains.work & ~(kernels & is_tiny)
    factors.work[others] = chains.left_most[others]
    factors.gap[chains.sure & ~chains.first] = _TINY_TIME_LEFT
    return factors


def _stretches(rank: RankView, runs: _Runs) -> dict[int, Intervals]:
    """By track, the runs without what stays of them."""
    trace = rank.trace
    first = np.flatnonzero(np.diff(runs.run, prepend=-1))
    last = np.concatenate([first[1:] - 1, [len(runs.rows) - 1]])
    track = trace.track[runs.rows]
    by_track = {}
    for each in np.unique(track).tolist():
        here = track[first] == each
        whole = union(trace.start[runs.rows[first[here]]], trace.end[runs.rows[last[here]]])
        kept = runs.rows[runs.kept & (track == each)]
        by_track[each] = difference(whole, union(trace.start[kept], trace.end[kept]))
    return by_track


def _time(rank: RankView, runs: _Runs, kernels: Bools, chains: ChainsOfRank) -> Intervals:
    exposed = rank.exposed(merge(*_stretches(rank, runs).values()))
    changed = kernels | chains.work
    work = rank.work_spans(changed)
    return intersection(merge(exposed, work), rank.time)


RULE = Rule("HOST003", "Operators that one kernel could compute", small_elementwise_operators, needs="computation")
