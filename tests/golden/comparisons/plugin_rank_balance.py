"""The plugin's overview of computation and communication, by step and worker."""

from __future__ import annotations

from kinetoscope import rank_balance
from kinetoscope.algorithms.intervals.intervals import Intervals, intersection, union
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.steps.steps import steps
from kinetoscope.model.trace.event_kinds import WorkKind
from tests.golden.comparison import fewest
from tests.golden.outcome import Outcome
from tests.golden.plugin import HOST_CALLS, Case, host_calls

ANALYSIS = "rank_balance"
SECTIONS = ("dist_overlap",)
RULES = (HOST_CALLS,)
COLUMNS = ("computation", "overlap", "exposed_communication", "other")

Table = dict[str, dict[str, list[float]]]


def compare(case: Case) -> Outcome:
    golden = {step: table for step, table in case.golden["data"].items() if step != "all"}
    return fewest(golden, lambda rules: _ours(case, rules), RULES, 0.001 if case.in_doubles else 0)


def _ours(case: Case, rules: frozenset[str]) -> Table:
    """In microseconds, by step and worker. What the plugin calls computation is what nothing overlaps."""
    found: Table = {}
    frame = rank_balance(case.job).frame
    for worker, rank in case.workers.items():
        for row in frame.filter(rank=rank).to_dicts():
            moved = _under_calls(case, rank, row["step"]) if HOST_CALLS in rules else 0
            numbers = [row[name] for name in COLUMNS]
            numbers = [numbers[0] - moved, numbers[1] + moved, *numbers[2:]]
            found.setdefault(str(row["step"]), {})[worker] = [number / 1000 for number in numbers]
    return found


def _under_calls(case: Case, rank: int, step: int) -> int:
    """Computation in a step while the host is in a call that starts communication."""
    trace = case.job.trace(rank)
    marks, work = steps(trace, None), device_work(trace)
    place = marks.number.tolist().index(step)
    window = Intervals(marks.host.start[place : place + 1], marks.host.end[place : place + 1])
    computes = work.kind == WorkKind.COMPUTATION
    busy = union(work.start[computes], work.end[computes])
    return intersection(window, intersection(busy, host_calls(trace))).length
