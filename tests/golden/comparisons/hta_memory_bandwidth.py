"""HTA's summary of memory bandwidth."""

from __future__ import annotations

from typing import Any

from kinetoscope import memory_bandwidth
from kinetoscope.model.trace import arguments
from tests.golden.comparison import fewest
from tests.golden.comparisons import hta_memory_bandwidth_series
from tests.golden.comparisons.hta_memory_bandwidth_series import CHANGES, STATED
from tests.golden.hta import Case, described
from tests.golden.outcome import Outcome

ANALYSIS = "memory_bandwidth"
SECTIONS = hta_memory_bandwidth_series.SECTIONS
POINTS = "statistics of points"
RULES = ("unlinked work", STATED, POINTS)
NEAR = 0.02
EXACT = hta_memory_bandwidth_series.EXACT


def compare(case: Case) -> Outcome:
    golden = {
        (row["rank"], row["name"]): {"mean": row["memory_bw_gbps_mean"], "max": row["memory_bw_gbps_max"]}
        for row in case.golden["summary"] or ()
    }
    return fewest(golden, lambda rules: _ours(case, rules, golden), RULES, EXACT)


def _ours(case: Case, rules: frozenset[str], golden: dict[Any, Any]) -> dict[Any, Any]:
    job = case.job(rules)
    if POINTS in rules:
        return _of_points(case, rules, golden)
    found: dict[Any, Any] = {}
    if STATED in rules and not any(arguments.has(job.trace(rank), "bandwidth").any() for rank in job.ranks):
        return found
    for row in memory_bandwidth(job).frame.to_dicts():
        name = row["direction"].title() if row["direction"] == "memset" else f"Memcpy {row['direction']}"
        if row["bandwidth"] is not None:
            found[row["rank"], name] = {"mean": row["bandwidth"] / 1e9, "max": row["max_bandwidth"] / 1e9}
    return found


def _of_points(case: Case, rules: frozenset[str], golden: dict[Any, Any]) -> dict[Any, Any]:
    """HTA's statistics of the positive points, also of those that only its rounding makes positive.

    How many those are depends on the order of changes of one time, which its sort leaves to chance: the mean of two
    orders is near to its own.
    """
    found = {}
    ends_first = hta_memory_bandwidth_series.series(case.job(rules), rules | {CHANGES}, ends_first=True)
    for key, points in hta_memory_bandwidth_series.series(case.job(rules), rules | {CHANGES}).items():
        answers = [described(value for value in each if value > 0) for each in (points, ends_first[key])]
        if answers[0]["count"]:
            found[key] = {name: answers[0][name] for name in ("mean", "max")}
            for name, its in golden.get(key, {}).items():
                low, high = sorted(float(answer[name] or 0) for answer in answers)
                if low * (1 - NEAR) <= its <= high * (1 + NEAR):
                    found[key][name] = its
    return found
