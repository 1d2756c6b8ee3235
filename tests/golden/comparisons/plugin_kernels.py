"""The plugin's tables of kernels, by name and by launch, and its pies."""

from __future__ import annotations

from typing import Any

from kinetoscope import kernels
from kinetoscope.analyses.kernels import GroupBy
from tests.golden.comparison import fewest
from tests.golden.outcome import Outcome
from tests.golden.plugin import Case

ANALYSIS = "kernels"
SECTIONS = ("kernel_table_Kernel", "kernel_table_KernelNameAndOpName", "kernel_pie", "kernel_tc_pie")
KEYS = ("name", "operator", "grid", "block", "registers", "shared_memory")

Rows = dict[tuple[str, ...], list[Any]]


def compare(case: Case) -> Outcome:
    match case.section:
        case "kernel_table_Kernel":
            golden = {(name,): numbers for name, *numbers in case.golden["data"]["rows"]}
            return fewest(golden, lambda rules: _rows(case, "name", rules), RULES, HUNDREDTH)
        case "kernel_table_KernelNameAndOpName":
            golden = {}
            for name, *parts, matrix, _eligible, calls, total, mean, most, least, blocks, filled in case.golden["data"][
                "rows"
            ]:
                golden[name, *map(str, parts)] = [matrix, calls, total, mean, most, least, blocks, filled]
            return fewest(golden, lambda rules: _rows(case, "launch", rules), RULES, HUNDREDTH)
        case "kernel_pie":
            pie = {(name,): total for name, total in case.golden["total"]["rows"]}
            ours = {key: row[2] for key, row in _rows(case, "name", frozenset()).items()}
            return fewest(pie, lambda _: ours, ())
        case _:
            shares = dict(case.golden["total"]["rows"])
            return fewest(shares, lambda rules: _shares(case, rules), RULES, 1e-4)


HUNDREDTH = 0.011
UNKNOWN, MISSING = "unknown matrix units are none", "means over no time are 0"
RULES = (UNKNOWN, MISSING)


def _rows(case: Case, group_by: GroupBy, rules: frozenset[str]) -> Rows:
    """As the plugin shows them: whole microseconds, two decimals, percent."""
    keys = KEYS[:1] if group_by == "name" else KEYS
    frame = kernels(case.job, group_by=group_by).frame
    return {tuple(str(row[key]) for key in keys): _numbers(row, rules) for row in frame.to_dicts()}


def _numbers(row: dict[str, Any], rules: frozenset[str]) -> list[Any]:
    times = [row["total"] / 1000, round(row["mean"] / 1000), row["max"] / 1000, row["min"] / 1000]
    matrix = "no" if UNKNOWN in rules and row["matrix_unit"] == "unknown" else row["matrix_unit"]
    nothing = MISSING in rules and not row["total"]  # a mean over no time
    blocks = 0 if nothing else row["blocks_per_sm"]
    occupancy = 0 if nothing else row["occupancy"]
    filled = [None if value is None else round(value, 2) for value in (blocks, occupancy and 100 * occupancy)]
    return [matrix.title(), row["calls"], *times, *filled]


def _shares(case: Case, rules: frozenset[str]) -> dict[str, float]:
    frame = kernels(case.job).frame
    whole = int(frame["total"].sum())
    time = {
        unit: int(frame.filter(frame["matrix_unit"] == unit)["total"].sum()) / whole
        for unit in ("yes", "no", "unknown")
    }
    unknown = {} if UNKNOWN in rules or not time["unknown"] else {"Unknown": time["unknown"]}
    no = time["no"] + (time["unknown"] if UNKNOWN in rules else 0)
    return {"Using Tensor Cores": time["yes"], "Not Using Tensor Cores": no} | unknown
