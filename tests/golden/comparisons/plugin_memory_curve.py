"""The plugin's curve of memory, and its peaks."""

from __future__ import annotations

from typing import Any

from kinetoscope import memory_curve
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.trace import arguments
from tests.golden.comparison import fewest
from tests.golden.outcome import Outcome
from tests.golden.plugin import Case

ANALYSIS = "memory_curve"
SECTIONS = ("memory_curve",)
ADDRESSES = "records with an address only"
RULES = (ADDRESSES,)
MEGABYTE = 1 << 20


def compare(case: Case) -> Outcome:
    """Its curve has two points for each change, of which the second is what comes after it."""
    golden: Any = {}
    for device, points in case.golden["rows"].items():
        peak = case.golden["metadata"]["peaks"][device].removeprefix("Peak Memory Usage: ").removesuffix("MB")
        golden[device] = {"peak": float(peak), "curve": points[::2]}
    return fewest(golden, lambda rules: _ours(case, rules), RULES, 1e-6)


def _ours(case: Case, rules: frozenset[str]) -> Any:
    trace = case.job.trace()
    before = origin_of_time(trace) / 1000 - case.golden["metadata"]["first_ts"]
    found: dict[str, list[list[float]]] = {}
    if ADDRESSES in rules and not arguments.has(trace, "address").any():
        return found
    for row in memory_curve(case.job).frame.to_dicts():
        time = (row["time"] / 1000 + before) / 1000
        sizes = [row["allocated"] / MEGABYTE, (row["reserved"] or 0) / MEGABYTE]
        found.setdefault(device_name(row["device"]), []).append([time, *sizes])
    return {name: {"peak": round(max(row[1] for row in rows), 1), "curve": rows} for name, rows in found.items()}


def device_name(ours: str) -> str:
    """`cuda:0` is GPU0 there."""
    return ours.replace("cuda:", "GPU") if ours != "cpu" else "CPU"
