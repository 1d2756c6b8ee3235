"""HTA's list of profiler steps."""

from __future__ import annotations

from kinetoscope import step_breakdown
from tests.golden.comparison import fewest
from tests.golden.hta import Case, step_names
from tests.golden.outcome import Outcome

ANALYSIS = "step_breakdown"
SECTIONS = ("profiler_steps",)


def compare(case: Case) -> Outcome:
    """Where the profiler marked no steps, HTA lists none, and we propose some, or take the window for one."""
    return fewest(sorted(case.golden), lambda rules: _ours(case, rules), ("marked steps only",))


def _ours(case: Case, rules: frozenset[str]) -> list[int]:
    job = case.job()
    found: set[int] = set()
    for row in step_breakdown(job).frame.to_dicts():
        if step_names(job.trace(row["rank"])) or "marked steps only" not in rules:
            found.add(row["step"])
    return sorted(found)
