"""HTA's series of memory bandwidth: how many points, and the extremes, of each direction."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from kinetoscope import Job, Trace, memory_bandwidth_series
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace import arguments
from tests.golden.comparison import fewest
from tests.golden.hta import Case
from tests.golden.outcome import Outcome

ANALYSIS = "memory_bandwidth_series"
SECTIONS = ("memory_bw", "last__memory_bw")
CHANGES = "a point for each change"
STATED = "stated bandwidths only"
RULES = ("unlinked work", "kinds by pattern", STATED, CHANGES)

Series = dict[tuple[int, str], list[float]]
"""GB/s, by rank and direction as HTA calls it."""


def compare(case: Case) -> Outcome:
    golden = {
        (int(rank), direction): found
        for rank, directions in case.golden["series"].items()
        for direction, found in directions.items()
    }
    return fewest(golden, lambda rules: _ours(case, rules, golden), RULES, EXACT)


def _ours(case: Case, rules: frozenset[str], golden: dict[Any, Any]) -> dict[Any, Any]:
    found = _told(series(case.job(rules), rules))
    if CHANGES in rules:
        low = _told(series(case.job(rules), rules, ends_first=True))
        for key in found.keys() & golden.keys():  # HTA's sort leaves the order of changes of one time to chance
            if low[key]["max"] - EXACT <= golden[key]["max"] <= found[key]["max"] + EXACT:
                found[key]["max"] = golden[key]["max"]
    return found


def _told(found: Series) -> dict[Any, dict[str, float]]:
    return {
        key: {"points": len(points), "max": max(points), "min": max(min(points), 0)} for key, points in found.items()
    }


def series(job: Job, rules: frozenset[str], *, ends_first: bool = False) -> Series:
    """Ours, or HTA's own."""
    if CHANGES in rules:
        parts = {rank: _formula(job.trace(rank), rules, ends_first) for rank in job.ranks}
        found = {(rank, name): points for rank, part in parts.items() for name, points in part.items()}
        return {key: points for key, points in found.items() if points}
    found = {}
    for row in memory_bandwidth_series(job).frame.to_dicts():
        name = row["direction"].title() if row["direction"] == "memset" else f"Memcpy {row['direction']}"
        found.setdefault((row["rank"], name), []).append(row["bandwidth"] / 1e9)
    return found


def _formula(trace: Trace, rules: frozenset[str], ends_first: bool) -> dict[str, list[float]]:
    """HTA's own: a point for each change; a copy lasts 1 us at least, and has the bandwidth that the file states."""
    work = device_work(trace)
    names = trace.strings.labels(trace.name[work.rows].tolist())
    if "kinds by pattern" in rules:
        names = [_DMA.sub("Memcpy Unknown", name) for name in names]
    classes = np.array([match[0] if (match := _CLASS.match(name)) else "" for name in names])
    bandwidth = arguments.floats(trace, "bandwidth", work.rows)
    if STATED in rules:
        bandwidth = np.nan_to_num(bandwidth)
    start, end = trace.start[work.rows], trace.end[work.rows]
    end = np.maximum(end, start + 1000 * (end == start))
    found = {}
    for name in sorted(set(classes.tolist()) - {""}):
        here = np.flatnonzero((classes == name) & ~np.isnan(bandwidth))
        time = np.concatenate([start[here], end[here]])
        change = np.concatenate([bandwidth[here], -bandwidth[here]])
        order = np.lexsort((np.repeat([1, 0] if ends_first else [0, 1], len(here)), time))
        found[name] = np.cumsum(change[order]).tolist()
    return found


_CLASS = re.compile(r"Memset|Memcpy (?:Unknown|.{4})")
_DMA = re.compile(r"^dma.*")
EXACT = 1e-6
