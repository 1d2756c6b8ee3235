"""HTA's summary of queue lengths, and the time that a queue is full."""

from __future__ import annotations

from typing import Any

from kinetoscope import Job, queue_length
from tests.golden.comparison import fewest
from tests.golden.comparisons import hta_queue_length_series
from tests.golden.hta import Case, described
from tests.golden.outcome import Outcome

ANALYSIS = "queue_length"
SECTIONS = hta_queue_length_series.SECTIONS
RULES = ("listed calls only", "statistics of points", "one stream of a rank")
FULL = 5
"""Entries that the golden values call full."""

EXACT = 1e-6
"""HTA's means are printed to nine digits."""

STATISTICS = {"queue_length_mean": "mean", "queue_length_max": "max"}


def compare(case: Case) -> Outcome:
    full = {_key(row): row["duration_at_max_queue_length"] for row in case.golden.get("blocked_at_5") or ()}
    lengths = {_key(row): {ours: row[its] for its, ours in STATISTICS.items()} for row in case.golden["summary"] or ()}
    golden = {"lengths": lengths, "full": full}
    return fewest(golden, lambda rules: _ours(case, rules, golden), RULES, max(10 * case.tolerance, EXACT))


def _key(row: Any) -> tuple[int, int]:
    return row["rank"], row["stream"]


def _ours(case: Case, rules: frozenset[str], golden: dict[str, Any]) -> dict[str, Any]:
    job = case.job(rules)
    rows = {_key(row): row for row in queue_length(job, full_at=FULL).frame.to_dicts()}
    lengths = {key: {name: row[name] for name in STATISTICS.values()} for key, row in rows.items()}
    if "statistics of points" in rules:
        lengths = _of_points(job, golden["lengths"])
    full = {key: row["full"] / 1000 for key, row in rows.items() if row["full"]}
    if "one stream of a rank" in rules:
        full = {key: time for key, time in full.items() if key in golden["full"]}
    return {"lengths": lengths, "full": full}


def _of_points(job: Job, golden: dict[Any, Any]) -> dict[Any, Any]:
    """As HTA counts, with the order of the changes of one time as its sort leaves it: between these two."""
    found = {}
    rules = frozenset({hta_queue_length_series.CHANGES})
    lows = hta_queue_length_series.series(job, rules, starts_first=True)
    for key, points in hta_queue_length_series.series(job, rules).items():
        high = described(length for _, length in points)
        low = described(length for _, length in lows[key])
        found[key] = {name: high[name] for name in STATISTICS.values()}
        for name, its in golden.get(key, {}).items():
            if low[name] <= its + EXACT and its <= high[name] + EXACT:  # type: ignore[operator]
                found[key][name] = its
    return found
