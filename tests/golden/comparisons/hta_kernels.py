"""HTA's kernels: sums and statistics of each name, the ten with the largest sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetoscope import Trace, kernels
from kinetoscope.model.execution.device_work import device_work
from tests.golden.comparison import fewest
from tests.golden.hta import KINDS, Case, work_kind
from tests.golden.outcome import Outcome

ANALYSIS = "kernels"
SECTIONS = ("gpu_kernel_breakdown", "gpu_kernel_breakdown_all", "last__gpu_kernel_breakdown_all")
RULES = ("unlinked work", "kinds by pattern", "waits as work", "statistics of sums")
COLUMNS = {"sum (us)": "total", "max (us)": "max", "min (us)": "min", "mean (us)": "mean"}

NAMES, SHARE = 10, 0.8
"""HTA's defaults."""

Rows = dict[tuple[int, str, str], dict[str, float]]


def compare(case: Case) -> Outcome:
    theirs = [row for rows in case.golden["kernels_top10_by_sum"].values() for row in rows]
    golden: Rows = {
        (row["rank"], row["kernel_type"].lower(), row["name"]): {name: row[its] for its, name in COLUMNS.items()}
        for row in theirs
    }

    def answer(rules: frozenset[str]) -> Any:
        found = _ours(case, rules)
        if "statistics of sums" in rules:
            found = _others(found)
        largest = sorted((row["total"] for row in found.values()), reverse=True)[:10]
        return {"rows": {key: found.get(key) for key in golden}, "number": len(found), "largest": largest}

    largest = sorted((row["total"] for row in golden.values()), reverse=True)[:10]
    return fewest(
        {"rows": golden, "number": case.golden["n_rows"], "largest": largest}, answer, RULES, case.tolerance + 0.001
    )


def _ours(case: Case, rules: frozenset[str]) -> Rows:
    job = case.job(rules)
    if "negative durations" in rules or "kinds by pattern" in rules:
        return {key: row for rank in job.ranks for key, row in _formula(job.trace(rank), rank).items()}
    found: Rows = {}
    for row in kernels(job, copies=True).frame.to_dicts():
        kind = "memory" if row["kind"] in ("memcpy", "memset") else row["kind"]
        found[row["rank"], kind, row["name"]] = {name: row[name] / 1000 for name in COLUMNS.values()}
    return found


def _formula(trace: Trace, rank: int) -> Rows:
    """HTA's own: the name alone decides on the kind, and work may end before it starts."""
    work = device_work(trace)
    duration = (trace.end - trace.start)[work.rows] / 1000
    found: dict[tuple[int, str, str], list[float]] = {}
    for code in np.unique(trace.name[work.rows]).tolist():
        name = trace.strings.label(code)
        if (kind := work_kind(name)) in KINDS:
            found[rank, KINDS[kind], name] = duration[trace.name[work.rows] == code].tolist()
    return {key: _row(values) for key, values in found.items()}


def _row(values: list[float]) -> dict[str, float]:
    total = sum(values)
    return {"total": total, "max": max(values), "min": min(values), "mean": total / len(values)}


def _others(found: Rows) -> Rows:
    """HTA's table: of more than ten names of a kind the smaller ones are one row, and all statistics are those of sums.

    "Smaller" are those beyond the tenth, and those where the cumulated sum exceeds the 80th percentile of such sums.
    """
    table: Rows = {}
    for rank, kind in dict.fromkeys(key[:2] for key in found):
        rows = sorted(
            (item for item in found.items() if item[0][:2] == (rank, kind)), key=lambda item: -item[1]["total"]
        )
        if len(rows) <= NAMES:
            table.update(rows)
            continue
        cumulated = np.cumsum([row["total"] for _, row in rows])
        sums: dict[tuple[int, str, str], list[float]] = {}
        for place, (key, row) in enumerate(rows):
            small = place >= NAMES or cumulated[place] > np.quantile(cumulated, SHARE)
            sums.setdefault((rank, kind, "others") if small else key, []).append(row["total"])
        for key, totals in sums.items():
            table[key] = _row(totals)
    return table
