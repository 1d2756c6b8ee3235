"""HTA's series of queue lengths: how many points, their sum and extremes, and the first five."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinetoscope import Job, Trace, queue_length_series
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.steps.scope import origin_of_time
from tests.golden.comparison import fewest
from tests.golden.hta import Case, results
from tests.golden.outcome import Outcome

ANALYSIS = "queue_length_series"
SECTIONS = ("queue_length", "last__queue_length")
CHANGES = "a point for each change"
RULES = ("listed calls only", CHANGES)

Series = dict[tuple[int, int], list[tuple[int, int]]]
"""Time and length, by rank and stream."""


def compare(case: Case) -> Outcome:
    golden = {
        (int(rank), int(stream)): {
            **{name: found[name] for name in ("points", "sum", "max", "min")},
            "first": [[point["ts"], point["queue_length"]] for point in found["first5"]],
        }
        for rank, streams in case.golden["series"].items()
        for stream, found in streams.items()
    }
    start = results(case.name)[case.section.removesuffix("queue_length") + "load"]["result"]["min_ts_subtracted"]
    return fewest(golden, lambda rules: _ours(case, rules, start, golden), RULES, case.tolerance)


def _ours(case: Case, rules: frozenset[str], start: float, golden: dict[tuple[int, int], Any]) -> Any:
    found = _told(series(case.job(rules), rules), start)
    if CHANGES in rules:
        low = _told(series(case.job(rules), rules, starts_first=True), start)
        for key in found.keys() & golden.keys():
            found[key] |= _between(low[key], found[key], golden[key])
    return found


def _told(found: Series, start: float) -> dict[tuple[int, int], dict[str, Any]]:
    return {
        key: {
            "points": len(points),
            "sum": sum(length for _, length in points),
            "max": max(length for _, length in points),
            "min": min(length for _, length in points),
            "first": [[round(time / 1000 - start, 3), length] for time, length in points[:5]],
        }
        for key, points in found.items()
    }


def _between(low: dict[str, Any], high: dict[str, Any], golden: dict[str, Any]) -> dict[str, Any]:
    """What of HTA's numbers its order of the changes of one time can give, which its sort leaves to chance."""
    numbers = {name: golden[name] for name in ("sum", "max", "min") if low[name] <= golden[name] <= high[name]}
    times = [time for time, _ in golden["first"]] == [time for time, _ in high["first"]]
    return numbers | ({"first": golden["first"]} if times else {})


def series(job: Job, rules: frozenset[str], *, starts_first: bool = False) -> Series:
    """Ours, or HTA's own."""
    found: Series = {}
    if CHANGES in rules:
        for rank in job.ranks:
            for stream, points in _formula(job.trace(rank), starts_first).items():
                found[rank, stream] = points
        return found
    for row in queue_length_series(job).frame.to_dicts():
        time = row["time"] + origin_of_time(job.trace(row["rank"]))
        found.setdefault((row["rank"], row["stream"]), []).append((time, row["length"]))
    return found


def _formula(trace: Trace, starts_first: bool) -> dict[int, list[tuple[int, int]]]:
    """HTA's own: also where several changes come at one time, and where a work starts before its launch."""
    work = device_work(trace)
    found: dict[int, list[tuple[int, int]]] = {}
    for stream in np.unique(work.stream[work.launch >= 0]).tolist():
        here = np.flatnonzero((work.stream == stream) & (work.launch >= 0))
        time = np.concatenate([trace.start[work.launch[here]], work.start[here]])
        change = np.repeat([1, -1], len(here))
        order = np.lexsort((change if starts_first else -change, time))
        length = np.cumsum(change[order])
        found[stream] = list(zip(time[order].tolist(), length.tolist(), strict=True))
    return found
