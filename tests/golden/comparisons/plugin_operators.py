"""The plugin's tables of operators, by name and by shapes, and its pies."""

from __future__ import annotations

import json
import re
from typing import Any

from kinetoscope import Trace, operators
from kinetoscope.model.operators.categories import category
from kinetoscope.model.trace import arguments
from tests.golden import plugin_tree
from tests.golden.comparison import fewest
from tests.golden.outcome import Outcome
from tests.golden.plugin import Case

ANALYSIS = "operators"
SECTIONS = (
    "operation_table_Operation",
    "operation_table_OperationAndInputShape",
    "operation_pie_Operation",
    "operation_pie_OperationAndInputShape",
)
PARTS = ("host_self", "host_total", "device_self", "device_total")
COLUMNS = ("calls", *PARTS)
MATRIX_UNITS = {"tc_self_ratio": "matrix_self_share", "tc_total_ratio": "matrix_total_share"}
NO_OPERATORS = ("ProfilerStep", "Optimizer.", "[pl]", "enumerate(", "DataParallel.", "DistributedDataParallel.")
"""Ranges that were recorded as operators in 2021, and that the plugin leaves out of its table."""

OVERLOADS, ANNOTATIONS = "overloads are operators", "annotations are no calls"
MODULES = "backward pass of modules only"
ELIGIBLE = 100.0
"""What stands for yes among numbers that may differ by microseconds."""
OLD_PRODUCTS = "newer convolutions are not eligible"
RULES = (OVERLOADS, ANNOTATIONS, MODULES, OLD_PRODUCTS)
NEW_PRODUCTS = ("aten::convolution_backward", "aten::mkldnn_convolution", "ConvolutionBackward0")
"""Products of which the plugin's list has only the older names; others in those traces are in both lists."""
OVERLOAD = re.compile(r"(\w+(?:::\w+)+)\.\w+")

Key = tuple[str, ...]
Rows = dict[Key, dict[str, float]]


def compare(case: Case) -> Outcome:
    shapes = case.section == "operation_table_OperationAndInputShape"  # its pies are by name whatever is asked
    pie = case.section.startswith("operation_pie")
    golden = _pies(case.golden) if pie else _table(case.golden["data"], shapes)
    shown = next(iter(golden.values())).keys() if golden else ()

    def answer(rules: frozenset[str]) -> Any:
        found = _formula(case.job.trace(), shapes, rules) if rules else _ours(case, shapes)
        if not pie:
            return {key: {name: row[name] for name in shown} for key, row in found.items()}
        shown_parts = {part for row in golden.values() for part in row}
        return {
            key: parts
            for key, row in found.items()
            if (parts := {part: row[part] for part in PARTS if part in shown_parts and row[part]})
        }

    # It rounds each row to the microsecond, and of several overloads we see the sum.
    return fewest(golden, answer, RULES, 0.05 if pie else 2 if case.in_doubles else 0)


def _table(rows: Any, shapes: bool) -> Rows:
    return summed(
        (
            (plain(row["name"]), *([row["input_shape"]] if shapes else [])),
            {"calls": row["calls"]}
            | {part: row.get(f"{part}_duration", 0) for part in PARTS}
            | ({"eligible": ELIGIBLE * (row["tc_eligible"] == "Yes")} if "tc_eligible" in row else {})
            | {name: row[name] for name in MATRIX_UNITS if name in row},
        )
        for row in rows
    )


def _pies(pies: Any) -> Rows:
    found: Rows = {}
    for part in PARTS:
        pie = pies[f"{part}_time"]
        for name, value in pie["rows"] if pie else ():
            row = found.setdefault((plain(name),), {})
            row[part] = row.get(part, 0) + value
    return found


def plain(name: str) -> str:
    """The name of an operator without that of its overload."""
    match = OVERLOAD.fullmatch(name)
    return match[1] if match else name


def summed(rows: Any) -> Rows:
    """Rows of one key added up."""
    found: Rows = {}
    for key, row in rows:
        mine = found.setdefault(key, dict.fromkeys(row, 0.0))
        for name, value in row.items():
            mine[name] = max(mine[name], value) if name == "eligible" else mine[name] + value
    return found


def _ours(case: Case, shapes: bool) -> Rows:
    rows = operators(case.job, group_by="shapes" if shapes else "name").frame.to_dicts()
    return summed(
        (
            (row["name"], *([row["input_shapes"] or "[]"] if shapes else [])),
            {"calls": row["calls"]}
            | {part: (row[part] or 0) / 1000 for part in PARTS}
            | {"eligible": ELIGIBLE * bool(row["matrix_eligible"])}
            | {name: round(100 * (row[ours] or 0), 2) for name, ours in MATRIX_UNITS.items()},
        )
        for row in rows
        if row["kind"] == "operator" and not row["name"].startswith(NO_OPERATORS)
    )


def _formula(trace: Trace, shapes: bool, rules: frozenset[str]) -> Rows:
    """The plugin's own; of the host alone, which is all that those traces have on which it matters."""
    dims = arguments.codes(trace, "input_dims")
    rows = []
    for node in tree(trace, rules).values():
        if not node.operator or node.repeats:
            continue
        total, inside = (sum(_duration(trace, each.row) for each in nodes) for nodes in ((node,), node.children))
        key = (plain(node.name), *([spelled(trace, int(dims[node.row]))] if shapes else []))
        numbers = {
            "calls": 1,
            "host_total": total,
            "host_self": total - inside,
            "eligible": ELIGIBLE * _eligible(node, rules),
        }
        rows.append((key, {**numbers, **NOTHING}))
    return summed((key, row) for key, row in rows if not key[0].startswith(NO_OPERATORS))


def tree(trace: Trace, rules: frozenset[str]) -> dict[int, plugin_tree.Node]:
    """The calls, by those rules of the plugin."""
    return plugin_tree.nodes(
        trace,
        str if OVERLOADS in rules else plain,
        annotations=ANNOTATIONS not in rules,
        backward_outside_modules=MODULES not in rules,
    )


NOTHING = {"device_self": 0, "device_total": 0, **dict.fromkeys(MATRIX_UNITS, 0)}


def _eligible(node: plugin_tree.Node, rules: frozenset[str]) -> bool:
    name = plain(node.name)
    known = category(name) in ("GEMM", "attention", "convolution")
    if OLD_PRODUCTS in rules:
        known &= not name.endswith(NEW_PRODUCTS)
    return (node.operator and known) or any(_eligible(child, rules) for child in node.children)


def _duration(trace: Trace, row: int) -> float:
    return int(trace.end[row] - trace.start[row]) / 1000


def spelled(trace: Trace, code: int) -> str:
    """Shapes as text."""
    return json.dumps(trace.strings.nested(code)) if code >= 0 else "[]"
