"""HTA's breakdown by kind of kernel: time of each combination of kinds, summed over ranks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from kinetoscope import Trace, kernel_kinds
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace.event_kinds import WorkKind
from tests.golden.comparison import fewest
from tests.golden.hta import KINDS, Case, merged
from tests.golden.outcome import Outcome

ANALYSIS = "kernel_kinds"
SECTIONS = ("gpu_kernel_breakdown", "gpu_kernel_breakdown_all", "last__gpu_kernel_breakdown_all")
RULES = ("unlinked work", "kinds by pattern", "waits as work", "whole microseconds")


def compare(case: Case) -> Outcome:
    golden = {_kinds(row["kernel_type"]): row["sum"] for row in case.golden["kernel_type"]}
    whole = sum(golden.values())
    for row in case.golden["kernel_type"]:  # its percentages are those of its sums
        assert abs(row["percentage"] - 100 * row["sum"] / whole) <= 0.051
    return fewest(golden, lambda rules: _ours(case, rules), RULES, case.tolerance)


def _kinds(theirs: str) -> str:
    return "+".join(kind.lower() for kind in theirs.split(" overlapping "))


def _ours(case: Case, rules: frozenset[str]) -> dict[str, float]:
    job = case.job(rules)
    found: dict[str, float] = {}
    if rules & {"kinds by pattern", "whole microseconds"}:
        parts = [part for rank in job.ranks for part in _formula(job.trace(rank), rules)]
    else:
        parts = [(row["kinds"], row["time"] / 1000) for row in kernel_kinds(job).frame.to_dicts() if row["time"]]
    for kinds, time in parts:
        found[kinds] = found.get(kinds, 0) + time
    return found


def _formula(trace: Trace, rules: frozenset[str]) -> Iterator[tuple[str, float]]:
    """HTA's own: a sweep over the starts and ends of the unions of each kind."""
    work = device_work(trace)
    kind = np.where(work.kind == WorkKind.MEMSET, WorkKind.MEMCPY, work.kind)
    if "kinds by pattern" in rules:
        kind = work.kind
    points: list[tuple[int, int]] = []
    for bit, name in enumerate(KINDS):
        rows = work.rows[kind == name]
        for start, end in zip(*merged(trace.start[rows], trace.end[rows]), strict=True):
            points += [(int(start), 1 << bit), (int(end), -(1 << bit))]
    points.sort()
    running = 0
    for (time, change), (after, _) in pairwise(points):
        running += change
        stretch = (after - time) // 1000 if "whole microseconds" in rules else (after - time) / 1000
        if 0 < running < 1 << len(KINDS) and stretch:
            yield "+".join(name for bit, name in enumerate(KINDS.values()) if running & (1 << bit)), stretch
