"""HTA's breakdown by kind of kernel: time of each combination of kinds, summed over ranks."""

from __future__ import annotations

from typing import Any

from kinetoscope.analyses.kernel_kinds import kernel_kinds
from tests.golden.comparison import fewest
from tests.golden.hta import Case
from tests.golden.outcome import Outcome

ANALYSIS = "kernel_kinds"
SECTIONS = ("gpu_kernel_breakdown", "gpu_kernel_breakdown_all", "last__gpu_kernel_breakdown_all")
RULES = ("unlinked work", "kinds by pattern", "waits as work")


def compare(case: Case) -> Outcome:
    golden = {_kinds(row["kernel_type"]): row["sum"] for row in case.golden["kernel_type"]}
    whole = sum(golden.values())
    for row in case.golden["kernel_type"]:  # its percentages are those of its sums
        assert abs(row["percentage"] - 100 * row["sum"] / whole) <= 0.051
    return fewest(golden, lambda rules: _ours(case, rules), RULES, case.tolerance)


def _kinds(theirs: str) -> str:
    return "+".join(kind.lower() for kind in theirs.split(" overlapping "))


def _ours(case: Case, rules: frozenset[str]) -> dict[str, float]:
    found: dict[str, Any] = {}
    for row in kernel_kinds(case.job(rules)).frame.to_dicts():
        if row["time"]:
            found[row["kinds"]] = found.get(row["kinds"], 0) + row["time"] / 1000
    return found
