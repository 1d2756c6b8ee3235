"""HOST003: many small operators that each compute element by element."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.elementwise import changes_nothing, elementwise_ops
from kinetoscope.advisor.evidence.optimizers import optimizer_steps, zero_grads
from kinetoscope.advisor.evidence.source_location import in_source, inside, launched_in, user_source_of
from kinetoscope.advisor.evidence.stakes import (
    is_worth_reporting,
    leave_only,
    shows_computation,
    stake_by_time,
    unblocked_launches,
)
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.grouping import sum_by
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, intersection, merge, union
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.execution.call_tree import outermost_op, outermost_ops
from kinetoscope.views.numbers import shown

_RUN: Final = 3
"""Operators that follow one another, from which on it pays to put them into one."""

_MIN_OPERATORS: Final = 5
"""Operators a step from which on they are many."""

_PAUSE: Final = 100_000
"""Between two of them, ns: after more, something else was done in between."""

_TINY_KERNEL_NS: Final = 10_000
"""Length up to which a kernel is mostly launch overhead."""

_HOST_LEFT: Final = 0.2
_TINY_TIME_LEFT: Final = 0.2
"""Share of calls and of small kernels that is left at most: what is not fused is launched as before."""

_UNSEEN: Final = 1.1
"""On a host: what calls of operators cost before and after their spans."""

_PASSES: Final = 2.0
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
    """Are many small element-wise operators launched that one kernel could compute?

    What it checks. Runs of three or more operators, forward or backward, that compute element by element (add, mul,
    gelu, where, …) and follow one another on a thread with nothing but views between them. Those of optimizers belong
    to HOST004.

    Why it matters. Each of them is launched, and reads and writes all its elements, though a few operations per element
    take no time. Compiled into one kernel they cost about as much as the longest of them. At most, only the longest of
    each run remains. Sure is the gain if a fifth of the other calls and of their small kernels remains, and large
    kernels take twice as long as the longest of them.

    What to do. Compile the model, or the function that these operators stand in.
    """
    if not shows_computation(rank):
        return
    runs = _runs(rank)
    if len(runs.rows) < _MIN_OPERATORS * rank.step_count:
        return
    trace = rank.trace
    gone = np.zeros(len(trace), np.bool_)
    gone[runs.rows[~runs.kept]] = True
    gone = inside(trace, gone)
    kernels = launched_in(trace, gone)
    high = rank.gains(_none_left(rank, runs, kernels)) * (1.0 if rank.has_device else _UNSEEN)
    low = rank.gains(_some_left(rank, runs, gone, kernels))
    stake = stake_by_time(rank, low, high, _time(rank, runs, kernels))
    if not is_worth_reporting(rank, stake):
        return
    counts = np.bincount(runs.run)
    longest = int(counts.argmax())
    rows = runs.rows[runs.run == longest]
    first = int(rows[0])
    run = Intervals(trace.start[rows[:1]], trace.end[rows[-1:]])
    where = user_source_of(trace, first)
    took = int((trace.end[runs.rows] - trace.start[runs.rows]).sum())
    yield Finding(
        message="Many small element-wise operators follow one another."
        f" {rank.each_step(len(runs.rows), 'operator')} form runs of up to {len(rows)}; each takes the host"
        f" {shown(took / len(runs.rows), 'ns')}.",
        stake=stake,
        change="+ torch.compile the functions that these operators stand in, too"
        if "compiled" in rank.uses
        else "- y = f(x)\n+ f = torch.compile(f)  # once\n+ y = f(x)",
        why="At most, only the longest operator of each run remains; sure is the gain if a fifth of the other calls and"
        " of their small kernels remains, and large kernels take twice the longest.",
        confidence="medium",
        evidence=(rank.longest_of(run, f"the longest run{in_source(where)}", "operators", first, where),),
        time=_time(rank, runs, kernels),
    )  # fmt: skip


def _runs(rank: RankView) -> _Runs:
    trace = rank.trace
    own = optimizer_steps(trace).inside | zero_grads(trace).inside
    rows = np.flatnonzero(outermost_ops(trace) & rank.scope.host_mask & ~changes_nothing(trace) & ~own).astype(np.int32)
    rows = rows[np.lexsort((rows, trace.start[rows], trace.track[rows]))]
    fits = elementwise_ops(trace)[rows]
    apart = np.ones(len(rows), np.bool_)
    apart[1:] = (trace.track[rows[1:]] != trace.track[rows[:-1]]) | (
        trace.start[rows[1:]] - trace.end[rows[:-1]] > _PAUSE
    )
    number = np.cumsum(apart | ~fits | ~np.concatenate([[False], fits[:-1]]))
    rows, number = rows[fits], number[fits]
    _, run, counts = np.unique(number, return_inverse=True, return_counts=True)
    enough = counts[run] >= _RUN if len(run) else np.zeros(0, np.bool_)
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
    """What each outermost operator computes: device time where there is a device, else its own: int64 [events]."""
    trace, work = rank.trace, rank.work
    if not rank.has_device:
        return trace.end - trace.start
    event = work.caller
    top = np.where(event >= 0, outermost_op(trace)[event], np.int32(-1))
    return sum_by(top.astype(np.int32), len(trace), work.duration)


def _none_left(rank: RankView, runs: _Runs, kernels: Bools) -> Factors:
    factors = unblocked_launches(rank)
    leave_only(factors, kernels, 0.0)
    factors.cut.update(_stretches(rank, runs))
    return factors


def _some_left(rank: RankView, runs: _Runs, gone: Bools, kernels: Bools) -> Factors:
    trace, work = rank.trace, rank.work
    factors = unblocked_launches(rank)
    factors.host[gone] = _HOST_LEFT if rank.has_device else _TINY_TIME_LEFT
    counts = np.bincount(runs.run)[runs.run]
    of_row = np.ones(len(trace))
    of_row[runs.rows] = np.clip((_PASSES - 1) / (counts - 1), _TINY_TIME_LEFT, 1.0)  # one of them is kept whole
    event = work.caller
    left = of_row[outermost_op(trace)[event]]
    left[work.duration < _TINY_KERNEL_NS] = _TINY_TIME_LEFT
    leave_only(factors, kernels, left[kernels])
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


def _time(rank: RankView, runs: _Runs, kernels: Bools) -> Intervals:
    exposed = rank.exposed(merge(*_stretches(rank, runs).values()))
    work = union(rank.work.start[kernels], rank.work.end[kernels])
    return intersection(merge(exposed, work), rank.time)


RULE = Rule("HOST003", "Many small element-wise operators", of_rank=small_elementwise_operators)
