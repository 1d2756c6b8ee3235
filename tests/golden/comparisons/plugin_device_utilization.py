"""The plugin's GPU summary: utilization, SM efficiency, occupancy, and the share of tensor cores."""

from __future__ import annotations

from kinetoscope import device_utilization, kernels
from tests.golden.comparison import fewest
from tests.golden.outcome import Outcome
from tests.golden.plugin import Case

ANALYSIS = "device_utilization"
SECTIONS = ("overview/gpu_metrics",)
NAMES = {
    "GPU Utilization": "utilization",
    "Est. SM Efficiency": "sm_efficiency",
    "Est. Achieved Occupancy": "occupancy",
    "Kernel Time using Tensor Cores": "matrix_unit_share",
}
RULES = ("unknown matrix units are none",)


def compare(case: Case) -> Outcome:
    cards = [(card["title"], card["value"]) for card in case.golden["data"]]
    golden = {NAMES[title]: float(value.removesuffix(" %")) for title, value in cards if title in NAMES}
    assert sum(title.startswith("GPU ") and title.endswith(":") for title, _ in cards) == 1  # a single device

    def answer(rules: frozenset[str]) -> dict[str, float | None]:
        [row] = device_utilization(case.job).frame.to_dicts()
        if rules:  # of all kernels, collectives and those with unknown names too
            whole = float(kernels(case.job).frame["total"].sum())
            told = (row["matrix_unit_share"] or 0.0) * (row["told_time"] or 0)
            row["matrix_unit_share"] = told / whole if whole else 0.0
        return {name: None if row[name] is None else round(100 * row[name], 2) for name in NAMES.values()}

    return fewest(golden, answer, RULES)
