"""HOST008: long stretches in which the host does nothing that has to do with the model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.source_location import in_source, user_source_of
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import NO_PROGRAM, RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.step_statistics import is_periodic
from kinetoscope.advisor.wording import quoted, share
from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, intersection, merge, union
from kinetoscope.model.execution.autograd import ENGINE_SPAN
from kinetoscope.model.execution.call_tree import call_tree, innermost_at, main_thread
from kinetoscope.model.execution.calls import call_name
from kinetoscope.model.execution.frames import frame_text
from kinetoscope.model.execution.marks import STEP, is_data_loading, is_mark, is_optimizer_range
from kinetoscope.model.execution.optimizers import optimizer_steps, update_times, zero_grads
from kinetoscope.model.steps.steps import step_of
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_beginning, rows_named
from kinetoscope.model.trace.recording import not_recorded, recorded_options
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import Sentence, say

_CERTAIN_SHARE: Final = 0.85
"""Certain share of the stake if the work is done beside the loop, or less often."""

_MIN_GAP_NS: Final = 300_000
"""There is always some Python between operators."""

_MIN_STEP_SHARE: Final = 0.01
"""Share of a step from which on a gap is long."""

_MIN_STEPS: Final = 3
"""Steps below which a single gap may belong to the start, such as an import, and is a guess."""

_FREQUENT_SHARE: Final = 0.75
_CHANCE_SHARE: Final = 0.05
"""What comes in fewer steps than this share of them, and is less than this share of a step, may be by chance: another
process had the core."""

_SLICE_NS: Final = 20_000_000
"""The longest time for which a scheduler lets another process have the core, but for a few."""

_MAX_CALLS_AROUND_SHARE: Final = 0.5
"""What most of the calls of a name do not do is not what they are for."""

_MAX_SPREAD: Final = 3
"""Ratio of the longest to the shortest of gaps that do the same thing."""

_RECURRING_SHARE: Final = 0.5
"""Share of gaps that other steps have at the same place, from which on the program makes them."""

_UNRECORDED: Final = "Host code"
_IN_RANGE: Final = f"{_UNRECORDED} in "
"""The name of what runs in no recorded call, and in none but a range around it."""

_BACKWARD: Final = re.compile(r"(?<![A-Za-z])backward(?![A-Za-z])")
"""In the name of a call that waits for autograd's threads."""

_RECORDERS: Final = ("kinetoscope/record/", "torch/profiler/", "torch/autograd/profiler")
_PROFILER: Final = re.compile(rf"(?:^|/)(?:{'|'.join(_RECORDERS)})")
"""Files of our recorder and of torch's profiler."""

_MAX_PLACES: Final = 4
"""Places that are named, those with the longest time."""


def unexplained_host_time(rank: RankView) -> Iterator[Finding]:
    """Does the host do other work than operators while nothing is computed?

    What it checks. Gaps of the main thread within steps, longer than 0.3 ms and a hundredth of a step, in which no
    thread runs an operator, a runtime call, a loader or an optimizer, and no device works. They are grouped by the
    Python function, the annotation, or the operators before and after them; of a call that does more besides, it is
    host code *in* it. A call named `backward` is none of them where no gradient's node of autograd was recorded: its
    threads may have worked meanwhile.

    Why it matters. Logging, checkpoints, metrics, images, `time.sleep`, waiting for a file or a lock: meanwhile the
    host launches nothing. At stake is the time that the steps gain without these gaps; 85 % of it count as likely. It
    is a guess, of which nothing counts, in fewer than three steps; where it comes seldom and not regularly; for what is
    in no recorded call, where it is uneven or comes at another place in each step, as other processes may have had the
    core; and in a program of inference that was recorded without stacks, as it may wait for requests. What comes
    seldom, or in few of the calls of a name, not regularly, and is shorter than 20 ms is not reported: a scheduler
    takes the core for so long.

    What to do. Move this work to another thread or process, do it less often, or do it after the device has been given
    work. Record with stacks if the cause is not clear.
    """
    if not rank.is_complete or not len(_calls(rank)):
        return
    gaps, track = _gaps(rank), main_thread(rank.trace)
    if not len(gaps.start) or gaps.length < _MIN_STEP_SHARE * rank.time.length:
        return
    around = _around(rank.trace, track, gaps)
    others = ~((around >= 0) & _of_a_profiler(rank.trace)[around])
    gaps, around = Intervals(gaps.start[others], gaps.end[others]), around[others]
    labels = _labels(rank, gaps, around)
    time = gaps.end - gaps.start
    totals: dict[str, int] = {}
    for label, length in zip(labels, time.tolist(), strict=True):
        totals[label] = totals.get(label, 0) + length
    for label in sorted(totals, key=lambda each: (-totals[each], each))[:_MAX_PLACES]:
        if totals[label] >= _MIN_STEP_SHARE * rank.time.length:
            here = np.array([each == label for each in labels])
            yield from _claims(rank, Intervals(gaps.start[here], gaps.end[here]), around[here], label, track)


def _gaps(rank: RankView) -> Intervals:
    free = intersection(rank.idle, _unexplained(rank))
    least = max(_MIN_GAP_NS, _MIN_STEP_SHARE * rank.step)
    long = free.end - free.start >= least
    return Intervals(free.start[long], free.end[long])


def _is_backward(name: str) -> bool:
    return _BACKWARD.search(name) is not None


def _is_node(name: str) -> bool:
    """A span of the engine around a node that computes a gradient; to add one up may be all that the caller does."""
    return name.startswith(ENGINE_SPAN) and not name.endswith("AccumulateGrad")


@derived
def _unexplained(rank: RankView) -> Intervals:
    """The host's time in the selected steps in which nothing runs that other rules know, hidden by a device or not."""
    trace = rank.trace
    explained = np.isin(trace.kind, (EventKind.HOST_OP, EventKind.RUNTIME, EventKind.OVERHEAD))
    explained &= ~is_mark(trace) & ~is_optimizer_range(trace)
    explained |= zero_grads(trace).rows
    updates = update_times(trace, np.flatnonzero(optimizer_steps(trace).rows))
    explained |= is_data_loading(trace)
    explained |= rows_named(trace, "Python GC".__eq__, EventKind.PYTHON, EventKind.ANNOTATION, holding=("Python GC",))
    explained |= rows_beginning(trace, ("gloo:", "nccl:"), EventKind.ANNOTATION)
    if not rows_named(trace, _is_node, EventKind.HOST_OP, holding=(ENGINE_SPAN,)).any():
        explained |= rows_named(trace, _is_backward, EventKind.PYTHON, EventKind.ANNOTATION, holding=("backward",))
    hosts = union(*rank.scope.clipped(*rank.scope.steps.host))
    return difference(hosts, merge(rank.spans(explained), union(*updates)))


@derived
def _of_a_profiler(trace: Trace) -> Bools:
    """Python calls of our recorder or of torch's profiler: no program has them without a recording: bool [events]."""
    return rows_named(trace, lambda name: _PROFILER.search(name) is not None, EventKind.PYTHON, holding=_RECORDERS)


def _around(trace: Trace, track: int, gaps: Intervals) -> Int32s:
    """The call that most of each gap lies in: the outermost of those that fit into it, else the innermost around it."""
    calls = call_tree(trace)
    middle = (gaps.start + gaps.end) // 2
    row = innermost_at(trace, np.full(len(middle), track, np.int32), middle)
    for place in range(len(row)):
        row[place] = _widest(trace, calls.parent, int(row[place]), int(gaps.start[place]), int(gaps.end[place]))
    return row


def _widest(trace: Trace, parent: Int32s, row: int, start: int, end: int) -> int:
    """Up from the call in the middle of a gap, as long as the calls lie in it but for a tenth."""
    slack = (end - start) // 10
    best = row
    while row >= 0 and trace.start[row] >= start - slack and trace.end[row] <= end + slack:
        best, row = row, int(parent[row])
    return best


def _is_around(trace: Trace, row: int, start: int, end: int) -> bool:
    """Is the gap but a part of the call? It says where the gap is then, not what runs in it."""
    slack = (end - start) // 10
    return not (trace.start[row] >= start - slack and trace.end[row] <= end + slack)


def _labels(rank: RankView, gaps: Intervals, around: Int32s) -> list[str]:
    """The name of each gap; one text for those that are the same."""
    trace = rank.trace
    before, after = _neighbours(rank, gaps)
    names = []
    for place, row in enumerate(around.tolist()):
        name = frame_text(trace.strings.glance(int(trace.name[row]))) if row >= 0 else ""  # without addresses
        known = row >= 0 and not name.startswith(STEP)
        if known:
            where = in_source(user_source_of(trace, row))
            part = _IN_RANGE if _is_around(trace, row, int(gaps.start[place]), int(gaps.end[place])) else ""
            names.append(f"{part}{quoted(name)}{where if where not in name else ''}")
        else:
            names.append(_between(before[place], after[place]))
    return names


def _between(before: str, after: str) -> str:
    """The label of what is not recorded, by what is recorded around it."""
    if not before and not after:
        return _UNRECORDED
    return f"{_UNRECORDED} after {quoted(before)}" if before else f"{_UNRECORDED} before {quoted(after)}"


def _neighbours(rank: RankView, gaps: Intervals) -> tuple[list[str], list[str]]:
    """The operators of the main thread that end before each gap and begin after it; "" for none in the same step."""
    trace, rows, hosts = rank.trace, _calls(rank), rank.scope.steps.host
    by_end, by_start = (
        rows[np.argsort(trace.end[rows], kind="stable")],
        rows[np.argsort(trace.start[rows], kind="stable")],
    )
    last = np.searchsorted(trace.end[by_end], gaps.start, side="right") - 1
    first = np.searchsorted(trace.start[by_start], gaps.end)
    step = step_of(hosts, gaps.start)
    before, after = [], []
    for place in range(len(gaps.start)):
        one = int(by_end[last[place]]) if last[place] >= 0 else -1
        two = int(by_start[first[place]]) if first[place] < len(by_start) else -1
        same = one >= 0 and step_of(hosts, trace.start[[one]])[0] == step[place]
        before.append(_name(trace, one) if same else "")
        after.append(_name(trace, two) if two >= 0 else "")
    return before, after


@derived
def _calls(rank: RankView) -> Int64s:
    """Operators and calls of the runtime on the main thread in the selected steps: rows."""
    trace = rank.trace
    return np.flatnonzero(
        np.isin(trace.kind, (EventKind.HOST_OP, EventKind.RUNTIME))
        & (call_tree(trace).depth >= 0)
        & (trace.track == main_thread(trace))
        & rank.scope.host_mask
    )


def _recurs(rank: RankView, gaps: Intervals) -> Bools:
    """Gaps that another step has too, after as many calls of the step or before as many: bool [gaps].

    What a program does comes at its place; a process that wants the core comes at any.
    """
    hosts, begun = rank.scope.steps.host, np.sort(rank.trace.start[_calls(rank)])
    step, done = step_of(hosts, gaps.start), np.searchsorted(begun, gaps.start)
    result = np.zeros(len(step), np.bool_)
    for ordinal in (done - np.searchsorted(begun, hosts.start)[step], np.searchsorted(begun, hosts.end)[step] - done):
        of_steps = np.unique(np.stack([ordinal, step]), axis=1)[0]
        values, steps = np.unique(of_steps, return_counts=True)
        result |= steps[np.searchsorted(values, ordinal)] > 1
    return result


def _name(trace: Trace, row: int) -> str:
    return call_name(trace.strings.glance(int(trace.name[row])), EventKind.HOST_OP).strip()


def _claims(rank: RankView, gaps: Intervals, around: Int32s, label: str, track: int) -> Iterator[Finding]:
    trace = rank.trace
    factors = rank.factors()
    factors.cut[track] = gaps
    gains = rank.gains(factors)
    recurs = bool(np.mean(_recurs(rank, gaps)) >= _RECURRING_SHARE)
    rare = _is_rare_among_its_calls(rank, around, label)
    seldom = rare or len(gaps.start) < _FREQUENT_SHARE * rank.step_count
    regular = _is_periodic(rank, gaps) and (recurs or not rare)
    has_stacks = "with_stack" in recorded_options(trace)
    is_unrecorded, is_inside = label.startswith(_UNRECORDED), label.startswith(_IN_RANGE)
    may_wait = rank.program == "inference" and is_unrecorded and not is_inside and not has_stacks
    certain = 0.0 if may_wait else _CERTAIN_SHARE
    took = gaps.end - gaps.start
    if seldom and (np.mean(gains) < _CHANCE_SHARE * rank.step or (took.max() < _SLICE_NS and not regular)):
        return
    free = _unexplained(rank)
    places = np.unique(step_of(free, gaps.start))
    whole = Intervals(free.start[places], free.end[places])
    # What comes regularly will go on, however uneven the steps are.
    as_recorded = seldom and regular
    saved = saving(rank, certain, gains, gaps, took=whole.length, factors=factors, as_recorded=as_recorded)
    if saved is None:
        return
    short, long = np.quantile(took, [0.25, 0.75])
    even = not is_unrecorded or bool(long <= _MAX_SPREAD * short and recurs)
    is_likely = rank.step_count >= _MIN_STEPS and (not seldom or regular) and even and not may_wait
    row = int(around[np.argmax(gaps.end - gaps.start)])
    where = user_source_of(trace, row)
    yield saved.finding(
        message=say(
            "{label} runs while nothing is computed. It takes {took} of each step ({times}){idle}.",
            label=label,
            took=saved.per_step,
            times=rank.each_step(len(gaps.start), "time"),
            idle=say(", in {idle} of which no device works", idle=rank.time_per_step(gaps.length))
            if rank.has_device
            else "",
        ),
        change="",
        why=say(
            "The gain assumes that this runs beside the loop, or less often; {certain}.{unknown}",
            certain=_certainty(certain, is_likely=is_likely, may_wait=may_wait),
            unknown="" if has_stacks else f" {not_recorded('Python calls')}",
        ),
        confidence="medium" if is_likely else "low",
        evidence=rank.longest_of(gaps, "the longest of them", "step_breakdown", row, where),
        key=label,
        overlap_priority=1,
    )  # fmt: skip


def _is_rare_among_its_calls(rank: RankView, around: Int32s, label: str) -> bool:
    """Do most calls of that name compute as they should?"""
    if label.startswith(_UNRECORDED):
        return False
    trace = rank.trace
    calls = (trace.name == trace.name[around[0]]) & (trace.kind == trace.kind[around[0]]) & rank.scope.host_mask
    return len(around) < _MAX_CALLS_AROUND_SHARE * int(calls.sum())


def _certainty(certain: float, *, is_likely: bool, may_wait: bool) -> Sentence:
    if may_wait:
        return say("a server that waits for requests looks the same")
    if not is_likely:
        return say("whether each step does it is a guess")
    return say("{certain} of it is likely", certain=share(certain, 1.0))


def _is_periodic(rank: RankView, gaps: Intervals) -> bool:
    """Do stretches come as regularly as what a loop does on purpose, and take alike?"""
    took = gaps.end - gaps.start
    return (
        is_periodic(step_of(rank.scope.steps.host, gaps.start), rank.step_count)
        and took.max() <= _MAX_SPREAD * took.min()
    )


RULE = Rule(
    "HOST008",
    "The host works while nothing is computed",
    unexplained_host_time,
    unfit=NO_PROGRAM | {"no operators"},
    needs="computation",
)
