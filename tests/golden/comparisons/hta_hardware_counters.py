"""HTA's hardware counters: of each counter the sum and the greatest value, and the kernels of each operator."""

from __future__ import annotations

from typing import Any

import polars as pl

from kinetoscope import hardware_counters
from tests.golden.comparison import fewest
from tests.golden.hta import Case
from tests.golden.outcome import Outcome

ANALYSIS = "hardware_counters"
SECTIONS = ("cupti_counters",)


def compare(case: Case) -> Outcome:
    golden = {
        "counters": case.golden["counters"],
        "operators": case.golden["by_bottom_op"],
        "first": sorted({(each["top"], each["bottom"]) for each in case.golden["first5"]}),
    }
    return fewest(golden, lambda _: _ours(case, golden["first"]), ())


def _ours(case: Case, first: list[tuple[str, str]]) -> dict[str, Any]:
    frame = hardware_counters(case.job()).frame
    counters = frame.group_by("counter").agg(pl.col("total").sum(), pl.col("max").max())
    operators = frame.filter(pl.col("counter") == frame["counter"][0]).group_by("operator").agg(pl.col("calls").sum())
    pairs = set(frame.select("outer_operator", "operator").iter_rows())
    return {
        "counters": {name: {"sum": total, "max": most} for name, total, most in counters.iter_rows()},
        "operators": dict(operators.iter_rows()),
        "first": [pair for pair in first if pair in pairs],
    }
