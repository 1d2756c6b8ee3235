"""The plugin's blocks of memory: what took them, their size, when, and for how long."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from kinetoscope import memory_events
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.trace import arguments
from tests.golden.comparison import fewest
from tests.golden.comparisons.plugin_memory_curve import ADDRESSES, device_name
from tests.golden.comparisons.plugin_operators import plain
from tests.golden.outcome import Outcome
from tests.golden.plugin import FOLDER, Case, content

ANALYSIS = "memory_events"
SECTIONS = ("memory_events",)
RULES = (ADDRESSES,)


def compare(case: Case) -> Outcome:
    golden = {device: Counter(_label(row) for row in rows) for device, rows in case.golden["rows"].items()}
    return fewest(golden, lambda rules: _ours(case, rules), RULES)


def _label(row: list[Any]) -> tuple[Any, ...]:
    name, *numbers = row
    parts = name.removesuffix(")").split(" (")
    return " in ".join(_STEP.sub("ProfilerStep*", plain(part)) for part in reversed(parts)), *numbers


_STEP = re.compile(r"ProfilerStep#.*")


def _ours(case: Case, rules: frozenset[str]) -> Any:
    trace = case.job.trace()
    first = content(FOLDER / f"{case.name}_memory_curve.json")["metadata"]["first_ts"]
    before = origin_of_time(trace) / 1000 - first
    found: dict[str, Counter[tuple[Any, ...]]] = {}
    if ADDRESSES in rules and not arguments.has(trace, "address").any():
        return found

    def told(time: int | None, since: float = 0.0) -> float | None:
        return None if time is None else round((time / 1000 + since) / 1000, 2)

    for row in memory_events(case.job).frame.to_dicts():
        name = row["operator"] or "<unknown>"
        if name.startswith("aten::empty"):
            name += f" in {row['parent']}"
        times = told(row["allocated_at"], before), told(row["freed_at"], before), told(row["duration"])
        rows = found.setdefault(device_name(row["device"]), Counter())
        rows[name, _rounded(row["size"] / 1024), *times] += 1
    return found


def _rounded(size: float) -> float:
    """To two decimals, and to three where little would be left."""
    return round(size, 2 if size >= 0.01 else 3)
