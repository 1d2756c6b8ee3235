"""HOST007: torch.compile compiles in the middle of the training, or its graphs are broken."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.source_location import in_source, user_source_of
from kinetoscope.advisor.evidence.stakes import is_worth_reporting
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import counted, joined, place, quoted
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, union
from kinetoscope.model.compile.breaks import BreakSite, broken_calls
from kinetoscope.model.compile.compilations import Compilation, compilations
from kinetoscope.model.compile.regions import compiled_regions, compiler_spans
from kinetoscope.model.execution.frames import CodeLocation
from kinetoscope.model.execution.program import ProgramKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import Sentence, measured, say

_CERTAIN_SHARE: Final = 0.9
"""Certain share of the compilation time: code that was compiled once has still to be chosen."""

_PIECE: Final = 1.15
"""What pieces cost more than the time between them: each is looked up and called by itself."""

_MAX_SITES: Final = 3
"""Places of graph breaks that a message names."""

_GUARD_CELLS: Final = 100
_VALUE: Final = re.compile(r"([A-Za-z_][\w.]{0,80}) == (-?\d[\d.e+-]{0,20})\Z")
_SIZE: Final = re.compile(r"tensor '(\w{1,80})' size mismatch at index (\d{1,3})")


def compiling_in_the_loop(rank: RankView) -> Iterator[Finding]:
    """Does torch.compile compile again and again, or only in pieces?

    What it checks. Spans of the compiler (`… (dynamo_timed)`) in the selected steps; and compiled regions that lie in
    one another (`Torch-Compiled Region: 1/0` in `0/0`): the inner one goes on behind a graph break. Torch's structured
    log, which the recorder keeps, says which function was compiled again and why, and where a graph breaks.

    Why it matters. A compilation takes from tenths of a second to minutes, and is repeated whenever a size or a value
    that the code was compiled for changes. At stake is the compilation time in the recorded steps, of which nine tenths
    are the lower end; nothing is assumed about other steps. Between the pieces of a broken graph Python runs, and
    nothing is fused across them: that time is at stake, and none of it is sure.

    What to do. Mark the sizes that change (`torch._dynamo.mark_dynamic`, `dynamic=True`), or pad to few different ones;
    make values that change tensors. `kinetoscope show compilations` and `graph_breaks` have all reasons and lines.
    """
    yield from _compiled(rank)
    yield from _broken(rank)


def _compiled(rank: RankView) -> Iterator[Finding]:
    trace, spans = rank.trace, compiler_spans(rank.trace)
    within = rank.scope.host_mask[spans.rows]
    rows, count = spans.rows[within], int((spans.phase[spans.rows[within]] == 0).sum())
    if not count:  # the compiler records a graph of what is compiled already
        return
    without, time = rank.without_time(rows), rank.spans(rows)
    saved = saving(rank, _CERTAIN_SHARE, without, rank.exposed(time), took=time.length, as_recorded=True)
    if saved is None:
        return
    ids = {spans.compile_ids[place] for place in spans.compile_id[within].tolist() if place >= 0}
    logged = [each for each in compilations(trace) if each.compile_id in ids]
    slowest = max(logged, key=lambda each: sum(each.phases), default=None)
    again = max((each for each in logged if each.reasons), key=lambda each: sum(each.phases), default=slowest)
    longest = rank.longest(rows)
    where = user_source_of(trace, longest)
    if again is not None and again.file:
        where = CodeLocation(again.file, again.line, again.function)
    yield saved.finding(
        message=say(
            "torch.compile compiles again during the measured steps{where}. {compilations} in {steps} take {all} in"
            " all, {each} of each step{versions}.{reason}",
            where=in_source(where),
            compilations=counted(count, "compilation"),
            steps=counted(rank.step_count, "step"),
            all=measured(time.length, "ns"),
            each=rank.time_per_step(time.length),
            versions=_versions(trace),
            reason=_reason(again),
        ),
        change=_remedy(again, rank.program),
        why=say("The compiler's time in the recorded steps."),
        evidence=rank.event(longest, "the longest part of a compilation", "compilations", where),
        key="compilation",
    )


def _reason(again: Compilation | None) -> Sentence | str:
    """A sentence on the compilation that took longest: the guard of the one before it that failed."""
    if again is None or not again.reasons:
        return ""
    compile_id, _, guard = again.reasons[0].partition(": ")
    unfit = f"{quoted(compile_id)} did not fit: {quoted(guard, _GUARD_CELLS)}"
    return say(
        " {function} was compiled as {id}, because {unfit}.",
        function=quoted(again.function),
        id=quoted(again.compile_id),
        unfit=unfit,
    )


def _remedy(again: Compilation | None, program: ProgramKind) -> str:
    guard = again.reasons[0].partition(": ")[2] if again is not None and again.reasons else ""
    if match := _VALUE.match(guard):
        name, value = match.groups()
        return f"- {name} = {value}\n+ {name} = torch.tensor({value})  # numbers are compiled in, tensors are not"
    if match := _SIZE.search(guard):
        return f"+ torch._dynamo.mark_dynamic({match[1]}, {match[2]})  # or pad to few different sizes"
    if program == "serving":
        return "+ serve each batch size once before requests come, or pad batches to the sizes that are compiled"
    return "- f = torch.compile(f)\n+ f = torch.compile(f, dynamic=True)  # or pad to few different sizes"


def _versions(trace: Trace) -> Sentence | str:
    """How many versions of one piece of code were run, where there are several."""
    frames = Counter(compile_id.rpartition("/")[0] for compile_id in compiled_regions(trace).compile_ids)
    most = max(frames.values(), default=0)
    return say("; one piece of code has {most} compiled versions", most=measured(most)) if most > 1 else ""


def _broken(rank: RankView) -> Iterator[Finding]:
    trace, breaks, regions = rank.trace, broken_calls(rank.trace), compiled_regions(rank.trace)
    chosen = rank.scope.host_mask[regions.rows[breaks.between.region]] & (breaks.time > 0)
    if not chosen.any():
        return
    between = Intervals(breaks.between.start[chosen], breaks.between.end[chosen])
    rows, compiling = regions.rows[breaks.call[chosen]], rank.spans(compiler_spans(trace).rows)
    factors = rank.factors()
    for track in np.unique(trace.track[rows]).tolist():
        here = trace.track[rows] == track
        factors.cut[track] = difference(union(between.start[here], between.end[here]), compiling)
    gains = rank.gains(factors)
    stake = rank.stake(np.zeros(rank.step_count), _PIECE * np.maximum(gains, 0))
    if not is_worth_reporting(rank, stake):
        return
    site = breaks.site[chosen]
    costs = np.bincount(site, breaks.time[chosen], len(breaks.sites))
    sites = [breaks.sites[place] for place in np.argsort(-costs, kind="stable")[:_MAX_SITES].tolist() if costs[place]]
    longest = int(np.argmax(between.end - between.start))
    at = breaks.sites[site[longest]]
    where = CodeLocation(at.file, at.line, at.function) if at.file else user_source_of(trace, int(rows[longest]))
    count = len(np.unique(breaks.call[chosen]))
    verb = "goes" if count == rank.step_count else "go"
    pauses = difference(union(*between), compiling)
    yield Finding(
        message=say(
            "Graph breaks split the compiled code{where}. {calls} of compiled code {verb} on in another piece{sites};"
            " between the pieces are {pauses} of each step.",
            where=in_source(where),
            calls=rank.each_step(count, "call"),
            verb=verb,
            sites=_named_sites(sites),
            pauses=rank.time_per_step(pauses.length),
        ),
        stake=stake,
        takes=rank.per_step(pauses.length),
        change="+ model = torch.compile(model, fullgraph=True)  # raises where the graph breaks",
        why=say("The time between the pieces is at stake; how much of it remains without graph breaks is unknown."),
        confidence="low",
        evidence=(rank.longest_of(between, "the longest time between two pieces", "graph_breaks", source=where),),
        time=rank.exposed(pauses),
        factors=factors,
        key="graph breaks",
    )


def _named_sites(sites: Sequence[BreakSite]) -> Sentence | str:
    """Places and reasons of graph breaks, those that cost most first."""
    named = [
        f"{place(each.file, each.line or 0)} ({quoted(each.reason or each.function)})" for each in sites if each.file
    ]
    return say(": {named}", named=joined(named)) if named else ""


RULE = Rule("HOST007", "torch.compile compiles during the measured steps", compiling_in_the_loop, needs="steps")
