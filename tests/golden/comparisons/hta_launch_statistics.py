"""HTA's launch statistics: how many kernels are short, calls slow, and delays long."""

from __future__ import annotations

from typing import Any

import polars as pl

from kinetoscope import launch_statistics
from kinetoscope.analyses.launch_statistics import ALL_CALLS
from tests.golden.comparison import fewest
from tests.golden.comparisons import hta_launches
from tests.golden.hta import Case
from tests.golden.outcome import Outcome

ANALYSIS = "launch_statistics"
SECTIONS = hta_launches.SECTIONS
RULES = (*hta_launches.RULES, "short kernels of fast calls")
COUNTS = {
    "n": "calls",
    "short_kernels": "short_kernels",
    "runtime_outliers_gt50us": "slow_calls",
    "launch_delay_outliers_gt100us": "long_delays",
}


def compare(case: Case) -> Outcome:
    golden = {int(rank): {ours: found[its] for its, ours in COUNTS.items()} for rank, found in _with_copies(case)}
    return fewest(golden, lambda rules: _ours(case, rules), RULES)


def _with_copies(case: Case) -> Any:
    return case.golden["include_memory_events=True"].items()


def _ours(case: Case, rules: frozenset[str]) -> dict[int, dict[str, int]]:
    """Of all calls, of those by the names that HTA knows, or counted from the single launches."""
    job = case.job()
    found = {rank: dict.fromkeys(COUNTS.values(), 0) for rank in job.ranks}
    if rules <= {"fixed list of launches"}:
        names = [*hta_launches.LAUNCHES, *hta_launches.COPIES] if rules else [ALL_CALLS]
        parts = launch_statistics(job).frame.filter(pl.col("name").is_in(names))
    else:
        short = pl.col("work_duration") < pl.col("duration")
        fast = pl.col("duration") <= 50_000 if "short kernels of fast calls" in rules else True
        parts = (
            hta_launches.launched(job, rules)
            .group_by("rank")
            .agg(
                calls=pl.len(),
                short_kernels=(short & fast).sum(),
                slow_calls=(pl.col("duration") > 50_000).sum(),
                long_delays=(pl.col("delay") > 100_000).sum(),
            )
        )
    for row in parts.to_dicts():
        found[row["rank"]] = {name: found[row["rank"]][name] + (row[name] or 0) for name in found[row["rank"]]}
    return found
