"""HTA's annotations: their time on the host and on the device, and the kernels in each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kinetoscope import Trace
from kinetoscope.analyses.annotations import ANALYSIS as RANGES
from kinetoscope.model.execution.calls import is_repeat
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.marks import STEP
from kinetoscope.model.trace.event_kinds import EventKind
from tests.golden.comparison import fewest
from tests.golden.hta import Case
from tests.golden.outcome import Outcome

ANALYSIS = "annotations"
KERNELS = "gpu_kernels_with_user_annotations"
SECTIONS = (
    "cpu_user_annotation_breakdown",
    "gpu_user_annotation_breakdown",
    KERNELS,
    f"{KERNELS}_pandas_2_3_3",
)
STEPS = "a name for each step"
NESTED = "ranges in ranges of their name"
RULES = (STEPS, NESTED, "negative durations", "no annotation for kernels of no time")
COLUMNS = {"sum (us)": "total", "max (us)": "max", "min (us)": "min", "mean (us)": "mean"}


def compare(case: Case) -> Outcome:
    if case.section.startswith(KERNELS):
        golden = (case.golden or {}).get("by_annotation_count", {})
        return fewest(golden, lambda rules: _kernels(case, rules), RULES)
    golden = {
        (row["rank"], row["name"]): {name: row[its] for its, name in COLUMNS.items()} for row in case.golden or ()
    }

    def answer(rules: frozenset[str]) -> Any:
        """The largest of them are all that the golden values keep."""
        ranks = {rank for rank, _ in golden}
        found = {key: row for key, row in _times(case, rules).items() if key[0] in ranks or not golden}
        largest = sorted((row["total"] for row in found.values()), reverse=True)[: len(golden)]
        return {"rows": {key: row for key, row in found.items() if key in golden}, "largest": largest}

    largest = sorted((row["total"] for row in golden.values()), reverse=True)
    return fewest({"rows": golden, "largest": largest}, answer, RULES, 0.011 if case.tolerance else 0.0011)


def _times(case: Case, rules: frozenset[str]) -> dict[Any, Any]:
    job = case.job()
    device = case.section.startswith("gpu")
    if rules:
        return {
            (rank, name): row for rank in job.ranks for name, row in _formula(job.trace(rank), device, rules).items()
        }
    prefix, calls, total = ("device_span", "device_calls", "device_span") if device else ("host", "calls", "host_total")
    found = {}
    for row in RANGES(job).frame.to_dicts():
        if row[calls]:
            numbers = [row[total], row[f"{prefix}_max"], row[f"{prefix}_min"], row[f"{prefix}_mean"]]
            found[row["rank"], row["name"]] = dict(zip(COLUMNS.values(), (n / 1000 for n in numbers), strict=True))
    return found


def _formula(trace: Trace, device: bool, rules: frozenset[str]) -> dict[str, dict[str, float]]:
    rows = trace.rows(EventKind.DEVICE_ANNOTATION if device else EventKind.ANNOTATION)
    if NESTED not in rules and not device:
        rows = rows[~is_repeat(trace)[rows]]
    duration = (trace.end - trace.start)[rows] / 1000
    if "negative durations" not in rules:
        duration = np.maximum(duration, 0)
    names = [_name(label, rules) for label in trace.strings.labels(trace.name[rows].tolist())]
    found: dict[str, list[float]] = {}
    for name, time in zip(names, duration.tolist(), strict=True):
        found.setdefault(name, []).append(time)
    return {
        name: {"total": sum(times), "max": max(times), "min": min(times), "mean": sum(times) / len(times)}
        for name, times in found.items()
    }


def _name(label: str, rules: frozenset[str]) -> str:
    return f"{STEP[:-1]}*" if label.startswith(STEP) and STEPS not in rules else label


def _kernels(case: Case, rules: frozenset[str]) -> dict[str, int]:
    """How many pieces of device work are in which annotation, "" for none."""
    job = case.job()
    found: dict[str, int] = {}
    if rules:
        for rank in job.ranks:
            for name in _innermost(job.trace(rank), rules):
                found[name] = found.get(name, 0) + 1
        return found
    for row in RANGES(job, by="stream").frame.to_dicts():
        if row["work_self"]:
            found[row["name"]] = found.get(row["name"], 0) + row["work_self"]
    everything = sum(len(device_work(job.trace(rank))) for rank in job.ranks)
    return found | {"": everything - sum(found.values())} if found else {}


def _innermost(trace: Trace, rules: frozenset[str]) -> Iterator[str]:
    """HTA's own: the name of the shortest annotation on its stream in which each work starts, "" for none."""
    rows = trace.rows(EventKind.DEVICE_ANNOTATION)
    for row in device_work(trace).rows.tolist() if len(rows) else ():
        here = rows[(trace.track[rows] == trace.track[row]) & (trace.start[rows] <= trace.start[row])]
        here = here[trace.start[row] < trace.end[here]]
        if "no annotation for kernels of no time" in rules and trace.end[row] <= trace.start[row]:
            here = here[:0]
        shortest = here[np.argmin(trace.end[here] - trace.start[here])] if len(here) else -1
        yield _name(trace.strings.label(int(trace.name[shortest])), rules) if shortest >= 0 else ""
