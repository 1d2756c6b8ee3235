"""HTA's idle time of each stream, by what it waited for."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetoscope import Trace, idle_breakdown
from kinetoscope.model.execution.device_work import device_work
from tests.golden.comparison import fewest
from tests.golden.hta import Case
from tests.golden.outcome import Outcome

ANALYSIS = "idle_breakdown"
SECTIONS = ("idle_time_breakdown", "last__idle_time_breakdown")
RULES = ("unlinked work", "waits as work", "gaps of no time", "gaps after the work before")
REASONS = {"host wait": "host_wait", "kernel wait": "kernel_wait", "other": "other"}

Key = tuple[int, int, str]


def compare(case: Case) -> Outcome:
    gaps = {_key(row): row for row in case.golden["interval_stats"]}
    golden = {
        _key(row): {"time": row["idle_time"], "gaps": gaps[_key(row)]["count"], "longest": gaps[_key(row)]["max"]}
        for row in case.golden["idle"]
        if gaps[_key(row)]["count"]
    }
    whole: dict[tuple[int, int], float] = {}
    for (rank, stream, _), each in golden.items():
        whole[rank, stream] = whole.get((rank, stream), 0) + each["time"]
    for row in case.golden["idle"]:  # its ratios are those of its times
        if whole.get((row["rank"], row["stream"])):
            assert abs(row["idle_time_ratio"] - row["idle_time"] / whole[row["rank"], row["stream"]]) <= 0.0051
    return fewest(golden, lambda rules: _ours(case, rules), RULES, 0.05 if case.tolerance else 0)


def _key(row: Any) -> Key:
    return row["rank"], row["stream"], row["idle_category"]


def _ours(case: Case, rules: frozenset[str]) -> dict[Key, dict[str, float]]:
    job = case.job(rules)
    if rules & {"gaps of no time", "gaps after the work before"}:
        return {(rank, *key): row for rank in job.ranks for key, row in _formula(job.trace(rank), rules).items()}
    return {
        (row["rank"], row["stream"], REASONS.get(row["reason"], row["reason"])): {
            "time": row["time"] / 1000,
            "gaps": row["gaps"],
            "longest": row["longest"] / 1000,
        }
        for row in idle_breakdown(job, by="stream").frame.to_dicts()
    }


def _formula(trace: Trace, rules: frozenset[str]) -> dict[tuple[int, str], dict[str, float]]:
    """HTA's own: between each work and the one that starts next on its stream, in which case time may be negative."""
    work = device_work(trace)
    found: dict[tuple[int, str], list[int]] = {}
    for stream in np.unique(work.stream).tolist():
        here = np.flatnonzero(work.stream == stream)
        here = here[np.argsort(work.start[here], kind="stable")]
        start, end = trace.start[work.rows[here]], trace.end[work.rows[here]]
        if "gaps after the work before" not in rules:
            end = np.maximum.accumulate(end)
        gap, launch = start[1:] - end[:-1], work.launch[here][1:]
        late = (launch >= 0) & (trace.start[launch] > end[:-1])
        reasons = np.where(late, "host_wait", np.where(gap < 30_000, "kernel_wait", "other"))
        for reason in REASONS.values():
            gaps = gap[reasons == reason]
            if "gaps of no time" not in rules:
                gaps = gaps[gaps > 0]
            if len(gaps):
                found[stream, reason] = gaps.tolist()
    return {
        key: {"time": sum(gaps) / 1000, "gaps": len(gaps), "longest": max(gaps) / 1000} for key, gaps in found.items()
    }
