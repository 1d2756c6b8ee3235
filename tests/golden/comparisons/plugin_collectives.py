"""The plugin's tables of collectives, and how much of them is waiting, by step and worker."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from kinetoscope import ALL, Selection, collectives
from kinetoscope.algorithms.intervals.intervals import Intervals, intersection, union
from kinetoscope.model.collectives.calls import for_matching
from kinetoscope.model.steps.steps import steps
from tests.golden.comparison import fewest
from tests.golden.outcome import Outcome
from tests.golden.plugin import HOST_CALLS, Case, host_calls

ANALYSIS = "collectives"
SECTIONS = ("dist_commops", "dist_waittime")
ONCE: Final = "collectives that overlap count once"
ALONE: Final = "a rank alone does not wait"
RULES = (HOST_CALLS, ONCE, ALONE)

NO_STEP: Final = "null"

Numbers = list[float | None]


def compare(case: Case) -> Outcome:
    tolerance = 0.001 if case.in_doubles else 0
    if case.section == "dist_waittime":
        golden = {step: table for step, table in case.golden["data"].items() if step != "all"}
        return fewest(golden, lambda rules: _waiting(case, set(golden), rules), RULES, tolerance)
    tables = case.golden["data"].items()
    # Our kinds have no backend before them; an average says nothing that the sum does not.
    names = {
        worker: {row[0].partition(":")[2]: [*row[1:3], row[4], row[6]] for row in t["rows"]} for worker, t in tables
    }
    return fewest(names, lambda rules: _totals(case, rules), RULES, tolerance)


def _totals(case: Case, rules: frozenset[str]) -> dict[str, dict[str, Numbers]]:
    """Of each worker and kind: calls, bytes, time and transfer in microseconds."""
    found: dict[str, dict[str, Numbers]] = {}
    frame = collectives(case.job, by="rank").frame
    for worker, rank in case.workers.items():
        of_rank = frame.filter(rank=rank)
        for kind in of_rank["kind"].unique():
            rows = of_rank.filter(kind=kind)
            time, transfer, _ = _times(case, rank, rows, None, rules)
            size = (rows["calls"] * rows["bytes"]).sum()
            found.setdefault(worker, {})[kind] = [int(rows["calls"].sum()), int(size), time, transfer]
    return found


def _waiting(case: Case, asked: set[str], rules: frozenset[str]) -> dict[str, dict[str, Numbers]]:
    """Of each step and worker: transfer and waiting in microseconds."""
    found: dict[str, dict[str, Numbers]] = {step: {} for step in asked}
    for worker, rank in case.workers.items():
        for step in sorted(asked - {NO_STEP}):
            frame = collectives(case.job, by="rank", select=Selection(steps=(int(step),))).frame
            found[step][worker] = _times(case, rank, frame.filter(rank=rank), int(step), rules)[1:]
        if NO_STEP in asked:
            whole = _times(case, rank, collectives(case.job, by="rank").frame.filter(rank=rank), None, rules)[1:]
            inside = [found[step][worker] for step in sorted(asked - {NO_STEP})]
            found[NO_STEP][worker] = [
                None if all_ is None or None in parts else all_ - sum(parts)
                for all_, *parts in zip(whole, *inside, strict=True)
            ]
    return found


def _times(case: Case, rank: int, rows: pl.DataFrame, step: int | None, rules: frozenset[str]) -> Numbers:
    """Time, transfer and waiting of collectives, in microseconds."""
    trace = case.job.trace(rank)
    time = float(rows["duration"].sum())
    if ONCE in rules:
        calls = for_matching(trace, ALL).frame
        calls = calls if step is None else calls.filter(step=step)
        time = union(*(calls[name].to_numpy().astype(np.int64) for name in ("start", "end"))).length
    transfer = None if rows["transfer"].null_count() else float(rows["transfer"].sum())
    waiting = None if rows["waiting"].null_count() else float(rows["waiting"].sum())
    if ALONE in rules and transfer is None:
        transfer, waiting = time, 0
    if HOST_CALLS in rules:
        on_host = _on_host(case, rank, step)
        time, transfer = time + on_host, None if transfer is None else transfer + on_host
    return [None if each is None else each / 1000 for each in (time, transfer, waiting)]


def _on_host(case: Case, rank: int, step: int | None) -> int:
    trace = case.job.trace(rank)
    spans = host_calls(trace)
    if step is None:
        return spans.length
    marks = steps(trace, None)
    place = marks.number.tolist().index(step)
    window = Intervals(marks.host.start[place : place + 1], marks.host.end[place : place + 1])
    return intersection(window, spans).length
