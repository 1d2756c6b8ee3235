"""HTA's overlap of communication with computation."""

from __future__ import annotations

from kinetoscope import overlap
from tests.golden.comparison import fewest
from tests.golden.hta import Case
from tests.golden.outcome import Outcome

ANALYSIS = "overlap"
SECTIONS = ("comm_comp_overlap", "last__comm_comp_overlap")
RULES = ("unlinked work", "kinds by pattern")


def compare(case: Case) -> Outcome:
    golden = {row["rank"]: row["comp_comm_overlap_pctg"] for row in case.golden}
    return fewest(golden, lambda rules: _ours(case, rules), RULES)


def _ours(case: Case, rules: frozenset[str]) -> dict[int, float | None]:
    """In percent with two decimals, as HTA rounds; it has a row without a number where there is no communication."""
    job = case.job(rules)
    found: dict[int, float | None] = dict.fromkeys(job.ranks)
    for row in overlap(job).frame.to_dicts():
        found[row["rank"]] = None if row["overlap_share"] is None else round(100 * row["overlap_share"], 2)
    return found
