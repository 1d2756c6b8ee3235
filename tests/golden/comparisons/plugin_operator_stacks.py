"""The plugin's call stacks of the largest operators."""

from __future__ import annotations

from typing import Any

from kinetoscope import operator_stacks
from kinetoscope.model.execution.frames import recorded_stack
from tests.golden.comparison import fewest
from tests.golden.comparisons.plugin_operators import PARTS, plain, summed
from tests.golden.outcome import Outcome
from tests.golden.plugin import Case

ANALYSIS = "operator_stacks"
SECTIONS = tuple(f"operation_stack_Operation{shapes}_{n}" for shapes in ("", "AndInputShape") for n in range(3))
RULES = ()


def compare(case: Case) -> Outcome:
    """Without those calls that no stack was recorded for; stacks that differ in addresses alone are one."""
    shapes = "Shape" in case.section
    rows = case.golden["data"]
    golden = summed(
        (
            (recorded_stack(row["call_stack"]), *([row["input_shape"]] if shapes else [])),
            {"calls": row["calls"]} | {part: row.get(f"{part}_duration", 0) for part in PARTS},
        )
        for row in rows
    )
    [operator] = {plain(row["name"]) for row in rows}
    asked = {row["input_shape"] for row in rows} if shapes else set()
    return fewest(golden, lambda _: _ours(case, operator, asked), RULES, 1 if case.in_doubles else 0)


def _ours(case: Case, operator: str, shapes: set[str]) -> Any:
    found = operator_stacks(case.job, operator=operator, exact=True, shapes=bool(shapes)).frame.to_dicts()
    return summed(
        (
            (row["call_stack"], *([row["input_shapes"]] if shapes else [])),
            {"calls": row["calls"]} | {part: (row[part] or 0) / 1000 for part in PARTS},
        )
        for row in found
        if row["call_stack"] is not None and (not shapes or row["input_shapes"] in shapes)
    )
