"""HTA's temporal breakdown."""

from __future__ import annotations

from typing import Any

from kinetoscope import Trace, temporal_breakdown
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace.event_kinds import WorkKind
from tests.golden.comparison import fewest
from tests.golden.hta import Case, merged
from tests.golden.outcome import Outcome

ANALYSIS = "temporal_breakdown"
SECTIONS = ("temporal_breakdown", "last__temporal_breakdown")
COLUMNS = {
    "kernel_time(us)": "window",
    "compute_time(us)": "computation",
    "non_compute_time(us)": "non_computation",
    "idle_time(us)": "idle",
}


def compare(case: Case) -> Outcome:
    golden = {row["rank"]: {ours: row[its] for its, ours in COLUMNS.items()} for row in case.golden}
    return fewest(golden, lambda rules: _ours(case, rules), RULES, case.tolerance)


def _ours(case: Case, rules: frozenset[str]) -> dict[int, Any]:
    job = case.job(rules)
    if not rules.isdisjoint(("negative durations", "unlinked work")):  # without it others seem to be held by it
        shortens = "negative durations" in rules
        return {rank: _formula(job.trace(rank), shortens) for rank in job.ranks}
    frame = temporal_breakdown(job).frame
    return {row["rank"]: {name: row[name] / 1000 for name in COLUMNS.values()} for row in frame.to_dicts()}


def _formula(trace: Trace, shortens: bool) -> dict[str, float]:
    """HTA's own; in it a work that ends before it starts shortens what it is added to."""
    work = device_work(trace)
    start, end, computes = work.start, work.end, work.of(WorkKind.COMPUTATION)
    if shortens:
        end = trace.end[work.rows]
    everything, computation = merged(start, end), merged(start[computes], end[computes])
    window = int(everything.end[-1] - everything.start[0])
    rest = {"non_computation": everything.length - computation.length, "idle": window - everything.length}
    answer = {"window": window, "computation": computation.length, **rest}
    return {name: value / 1000 for name, value in answer.items()}


RULES = ("unlinked work", "waits as work", "kinds by pattern", "negative durations")
