"""HOST007: torch.compile compiles in the middle of the training, or its graphs are broken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.source_location import in_source, user_source_of
from kinetoscope.advisor.evidence.stakes import is_worth_reporting, stake_as_recorded
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import joined
from kinetoscope.algorithms.arrays import Bools
from kinetoscope.algorithms.intervals.intervals import Intervals, union
from kinetoscope.model.execution.call_tree import main_thread
from kinetoscope.model.execution.marks import RANGE_KINDS
from kinetoscope.model.steps.steps import step_of
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_beginning, rows_named
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.numbers import shown

_TIMED: Final = " (dynamo_timed)"
_COMPILING: Final = "_compile.compile_inner" + _TIMED
_REGION: Final = "Torch-Compiled Region: "
_NUMBERS: Final = re.compile(r"Torch-Compiled Region: (\d{1,9})/(\d{1,9})")

_CERTAIN_SHARE: Final = 0.9
"""Certain share of the compilation time: code that was compiled once has still to be chosen."""

_PIECES: Final = 3
"""Compiled regions a step with different code, from which on it looks as if one graph had been broken."""

_PIECE: Final = 1.15
"""What pieces cost more than the time between them: each is looked up and called by itself."""

_PAUSE: Final = 5_000_000
"""Between two regions, ns: what lies further apart are two functions and not the pieces of one."""


def compiling_in_the_loop(rank: RankView) -> Iterator[Finding]:
    """Does torch.compile compile again and again, or only in pieces?

    What it checks. Spans of the compiler (`… (dynamo_timed)`) in the selected steps; and whether several compiled
    regions (`Torch-Compiled Region: 1/0`) of different code follow one another in a step.

    Why it matters. A compilation takes from tenths of a second to minutes, and is repeated whenever a size or a value
    that the code was compiled for changes. At stake is the compilation time in the recorded steps, of which nine tenths
    count as sure; nothing is assumed about other steps. Between the pieces of a broken graph Python runs, and nothing
    is fused across them: that time is at stake, and none of it is sure.

    What to do. Mark the sizes that change (`torch._dynamo.mark_dynamic`, `dynamic=True`), or pad to few different ones;
    `TORCH_LOGS="recompiles,graph_breaks"` says what changed, and where a graph broke.
    """
    if not rank.step_count:
        return
    yield from _compiled(rank)
    yield from _broken(rank)


def _compiled(rank: RankView) -> Iterator[Finding]:
    trace = rank.trace
    spans = rows_named(trace, lambda name: name.endswith(_TIMED), EventKind.HOST_OP, EventKind.ANNOTATION,
                       holding=(_TIMED,))  # fmt: skip
    rows = np.flatnonzero(spans & rank.scope.host_mask)
    if not len(rows):
        return
    factors = rank.factors()
    for track in np.unique(trace.track[rows]).tolist():
        factors.cut[track] = rank.spans(rows[trace.track[rows] == track])
    gains = rank.gains(factors)
    time = rank.spans(rows)
    times = rows[trace.name[rows] == trace.strings.code(_COMPILING)]
    longest = rank.longest(rows)
    where = user_source_of(trace, longest)
    stake = stake_as_recorded(rank, _CERTAIN_SHARE * gains, gains)
    if not is_worth_reporting(rank, stake):
        return
    yield Finding(
        message=f"torch.compile compiles again during the measured steps{in_source(where)}."
        f" {number_of(len(times), 'compilation')} in"
        f" {number_of(rank.step_count, 'step')} take {shown(time.length, 'ns')} in all{_versions(trace)}.",
        stake=stake,
        change="- f = torch.compile(f)\n+ f = torch.compile(f, dynamic=True)  # or pad to few different sizes",
        why="The compiler's time in the recorded steps.",
        evidence=(rank.event(longest, "the longest part of a compilation", "step_breakdown", where),),
        time=rank.exposed(time),
        key="compilation",
    )


def _versions(trace: Trace) -> str:
    """How many versions of one piece of code were run, where there are several."""
    versions: dict[str, set[str]] = {}
    for row in np.unique(trace.name[_regions(trace)]).tolist():
        if match := _NUMBERS.match(trace.strings.glance(row)):
            versions.setdefault(match[1], set()).add(match[2])
    most = max((len(each) for each in versions.values()), default=0)
    return f"; one piece of code has {most} compiled versions" if most > 1 else ""


def _regions(trace: Trace) -> Bools:
    return rows_beginning(trace, (_REGION,), *RANGE_KINDS)


def _broken(rank: RankView) -> Iterator[Finding]:
    trace, track = rank.trace, main_thread(rank.trace)
    rows = np.flatnonzero(_regions(trace) & rank.scope.host_mask & (trace.track == track)).astype(np.int32)
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    codes = np.array([_code(trace, int(code)) for code in trace.name[rows].tolist()], np.int64)
    step = step_of(rank.scope.steps.host, trace.start[rows])
    gap = trace.start[rows[1:]] - trace.end[rows[:-1]]
    broken = (step[1:] == step[:-1]) & (step[1:] >= 0) & (codes[1:] != codes[:-1]) & (gap > 0) & (gap < _PAUSE)
    if broken.sum() < (_PIECES - 1) * rank.step_count:
        return
    between = Intervals(trace.end[rows[:-1]][broken], trace.start[rows[1:]][broken])
    factors = rank.factors()
    factors.cut[track] = union(*between)
    gains = rank.gains(factors)
    stake = rank.stake(np.zeros(rank.step_count), _PIECE * np.maximum(gains, 0))
    if not is_worth_reporting(rank, stake):
        return
    longest = int(np.argmax(between.end - between.start))
    names = [str(each) for each in sorted(set(codes[1:][broken].tolist()) | set(codes[:-1][broken].tolist()))]
    where = user_source_of(trace, int(rows[:-1][broken][longest]))
    yield Finding(
        message=f"Graph breaks split the compiled code{in_source(where)}."
        f" {rank.each_step(int(broken.sum()), 'graph break')} between compiled regions {joined(names)}.",
        stake=stake,
        change="+ model = torch.compile(model, fullgraph=True)  # raises where the graph breaks",
        why="The time between the pieces is at stake; how much of it remains without graph breaks is unknown.",
        confidence="low",
        evidence=(rank.longest_of(between, "the longest time between two pieces", "step_breakdown", source=where),),
        time=rank.exposed(union(*between)),
        key="graph breaks",
        at_most="note",
    )


def _code(trace: Trace, name: int) -> int:
    match = _NUMBERS.match(trace.strings.glance(name))
    return int(match[1]) if match else -1


RULE = Rule("HOST007", "torch.compile compiles during the measured steps", of_rank=compiling_in_the_loop)
