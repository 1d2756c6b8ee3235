"""The plugin's memory statistics of operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kinetoscope import Trace, memory_by_operator
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from tests.golden.comparison import fewest
from tests.golden.comparisons.plugin_memory_curve import device_name
from tests.golden.comparisons.plugin_operators import MODULES, NO_OPERATORS, OVERLOADS, plain, summed, tree
from tests.golden.outcome import Outcome
from tests.golden.plugin import Case
from tests.golden.plugin_tree import Node

ANALYSIS = "memory_by_operator"
SECTIONS = ("memory_stats",)
COLUMNS = (
    "calls",
    "size_increase",
    "self_size_increase",
    "allocations",
    "self_allocations",
    "allocation_size",
    "self_allocation_size",
)
SIZES = tuple(name for name in COLUMNS if "size" in name)
CALLS = "calls in calls with memory only"
RULES = (OVERLOADS, MODULES, CALLS)


def compare(case: Case) -> Outcome:
    golden = {
        device: summed(((plain(name),), dict(zip(COLUMNS, numbers, strict=True))) for name, *numbers in rows)
        for device, rows in case.golden["rows"].items()
    }
    return fewest(golden, lambda rules: _ours(case, rules), RULES, 0.0101)


def _ours(case: Case, rules: frozenset[str]) -> Any:
    if rules:
        return _formula(case.job.trace(), rules)
    found: dict[str, Any] = {}
    for row in memory_by_operator(case.job).frame.to_dicts():
        if row["kind"] == "operator" and not row["name"].startswith(NO_OPERATORS):
            numbers = {name: row[name] / 1024 if name in SIZES else row[name] for name in COLUMNS}
            found.setdefault(device_name(row["device"]), {})[(row["name"],)] = numbers
    return found


def _formula(trace: Trace, rules: frozenset[str]) -> Any:
    """The plugin's own, of the host's memory: a record belongs to the innermost call that has begun and not ended."""
    calls = tree(trace, rules)
    by_track: dict[int, list[int]] = {}
    for row in calls:
        by_track.setdefault(int(trace.track[row]), []).append(row)
    begins = {track: trace.start[rows] for track, rows in by_track.items()}
    costs = {row: dict.fromkeys(COLUMNS[1:], 0.0) for row in calls}
    touched: set[Node | None] = {None}
    records = trace.rows(EventKind.MEMORY)
    sizes = arguments.integers(trace, "memory_bytes", records) / 1024
    for record, size in zip(records.tolist(), sizes.tolist(), strict=True):
        track, time = int(trace.track[record]), trace.start[record]
        place = int(np.searchsorted(begins[track], time, side="right")) - 1 if track in begins else -1
        node = calls[by_track[track][place]] if place >= 0 else None
        while node and trace.end[node.row] <= time:
            node = node.parent
        touched.update(_around(node))
        if node and node.operator:
            _charge(costs, node, size)
    rows = []
    for row, node in calls.items():
        if node.operator and not node.repeats and not node.name.startswith(NO_OPERATORS):
            counts = node.parent in touched or CALLS not in rules
            rows.append(((node.name,), {"calls": int(counts)} | costs[row]))
    shown = [(key, row) for key, row in summed(rows).items() if any(row[name] for name in COLUMNS[1:])]
    return {"CPU": summed(((plain(key[0]),), row) for key, row in shown)}


def _around(node: Node | None) -> Iterator[Node]:
    while node:
        yield node
        node = node.repeats or node.parent


def _charge(costs: dict[int, dict[str, float]], node: Node, size: float) -> None:
    values = {"size_increase": size, "allocations": int(size > 0), "allocation_size": max(size, 0)}
    prefixes: tuple[str, ...] = ("", "self_")
    for each in _around(node):
        if each.repeats is None:
            for name, value in values.items():
                for prefix in prefixes:
                    costs[each.row][prefix + name] += value
            prefixes = ("",)
