"""The plugin's steps, by category: its stacked bars, and their averages."""

from __future__ import annotations

from typing import Any

from kinetoscope import step_breakdown
from kinetoscope.analyses.step_breakdown import CATEGORIES
from tests.golden.comparison import fewest
from tests.golden.outcome import Outcome
from tests.golden.plugin import Case

ANALYSIS = "step_breakdown"
SECTIONS = ("overview/steps", "overview/performance")
NAMES = {
    "Kernel": "computation",
    "Memcpy": "memcpy",
    "Memset": "memset",
    "Communication": "communication",
    "Runtime": "runtime",
    "DataLoader": "data_loading",
    "CPU Exec": "host",
    "Other": "other",
}


def compare(case: Case) -> Outcome:
    ours = step_breakdown(case.job, order="plugin").frame.to_dicts()
    mine: Any
    if case.section == "overview/steps":
        golden = _steps(case.golden)
        shown = [key for key in next(iter(golden.values())) if key != "duration"]
        mine = {row["step"]: {key: row[key] for key in (*shown, "duration")} for row in ours}
        tolerance = 2 if case.in_doubles else 0
    else:
        golden, shown, mine = _averages(case.golden, ours)
        tolerance = 0
    for row in ours:
        assert not any(row[key] for key in CATEGORIES if key not in shown)  # what is not shown did not happen
    return fewest(golden, lambda _: mine, (), tolerance)


def _steps(golden: Any) -> dict[int, dict[str, float]]:
    """In ns; the whole step stands in the tooltips only."""
    columns = [column.get("name", "tooltip") for column in golden["columns"]]
    found = {}
    for row in golden["rows"]:
        cells = {column: cell for column, cell in zip(columns, row, strict=True) if column != "tooltip"}
        number = int(cells.pop("Step"))
        found[number] = {NAMES[column]: 1000 * value for column, value in cells.items()}
        found[number]["duration"] = 1000 * float(row[2].split("Total: ")[1].split("us")[0])
    return found


def _averages(golden: Any, ours: list[dict[str, Any]]) -> tuple[Any, list[str], Any]:
    """Means over the steps: whole microseconds, and shares of the step in percent with two decimals."""
    (whole,) = golden
    parts = {NAMES[part["name"]]: [part["value"], part["extra"]] for part in whole["children"]}
    steps = len(ours)
    mean = sum(row["duration"] for row in ours) / steps / 1000

    def told(name: str) -> list[float]:
        value = sum(row[name] for row in ours) / steps / 1000
        return [round(value), round(100 * value / mean, 2)]

    mine = {"duration": [round(mean), 100]} | {name: told(name) for name in parts}
    return {"duration": [whole["value"], whole["extra"]]} | parts, list(parts), mine
