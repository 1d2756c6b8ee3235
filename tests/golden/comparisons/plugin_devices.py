"""The plugin's table of devices."""

from __future__ import annotations

from typing import Any

import polars as pl

from kinetoscope import devices
from tests.golden.comparison import fewest
from tests.golden.outcome import Outcome
from tests.golden.plugin import Case

ANALYSIS = "devices"
SECTIONS = ("dist_gpuinfo",)


def compare(case: Case) -> Outcome:
    golden = case.golden["data"] if case.golden else {}  # null where no device is described
    return fewest(golden, lambda _: _ours(case), ())


def _ours(case: Case) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {}
    for row in devices(case.job).frame.filter(pl.col("name").is_not_null()).to_dicts():
        described = {
            "Name": row["name"],
            "Memory": f"{row['memory'] / (1 << 30)} GB",
            "Memory Raw": row["memory"],
            "Compute Capability": row["capability"],
        }
        found.setdefault(row["node"], {})[f"Process {row['process']}"] = {f"GPU{row['process']}": described}
    return found
