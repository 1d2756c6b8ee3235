"""Floors as columns of other tables: they are those of `roofline`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope import Selection, kernels, modules, operators, roofline
from tests import drawn

A100 = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85_000_000_000, "computeMajor": 8, "numSms": 108}
SHAPES: dict[str, Any] = {"Input Dims": [[4096, 4096]] * 2, "Input type": ["c10::BFloat16"] * 2}
FLOOR = 2 * 4096**3 / 312e12 * 1e9


def product(start: int, *durations: int) -> list[drawn.Event]:
    events = [drawn.op("aten::mm", start, 90, **SHAPES)]
    for number, duration in enumerate(durations):
        events.append(drawn.launch(start + 5 * number, 2, start + number + 1))
        events.append(drawn.kernel(f"bf16_s16816gemm_{number}", 10_000 * start, duration, start + number + 1))
    return events


EVENTS = (
    drawn.python("nn.Module: Net_0", 50, 500),
    drawn.python("nn.Module: Linear_0", 90, 150),
    *product(100, 600_000, 200_000),
    *product(300, 900_000),
    drawn.kernel("graph_kernel", 90_000_000, 100_000, 99),
)


def test_operators_and_kernels_have_the_floors_of_the_roofline(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, *EVENTS, deviceProperties=[A100])
    [whole] = roofline(job).frame.drop_nulls("floor").to_dicts()
    assert whole["floor"] == round(2 * FLOOR)
    [row] = [row for row in operators(job).frame.to_dicts() if row["floor"] is not None]
    assert (row["name"], row["floor"], row["headroom"]) == ("aten::mm", whole["floor"], whole["headroom"])
    assert row["efficiency"] == pytest.approx(whole["efficiency"], abs=1e-6)
    rows = {row["name"]: row for row in kernels(job).frame.to_dicts()}
    of_kernels = {row["name"]: row for row in roofline(job, by="kernel").frame.to_dicts()}
    for name, row in rows.items():
        assert [row[each] for each in ("floor", "headroom")] == [
            of_kernels[name][each] for each in ("floor", "headroom")
        ]
    assert rows["graph_kernel"]["floor"] is None
    assert rows["bf16_s16816gemm_1"]["floor"] == pytest.approx(FLOOR / 4, abs=1)


def test_a_module_has_the_floors_of_those_inside(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, *EVENTS, deviceProperties=[A100])
    outer, inner = modules(job).frame.to_dicts()
    assert (outer["device_total"], inner["device_total"]) == (1_700_000, 800_000)
    assert (outer["floor"], inner["floor"]) == (2 * round(FLOOR), round(FLOOR))
    assert inner["efficiency"] == pytest.approx(FLOOR / 800_000, abs=1e-6)
    assert inner["headroom"] == round(800_000 - FLOOR)


def test_in_a_range_of_time_a_kernel_has_that_part_of_its_floor(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, *product(100, 1_000_000), deviceProperties=[A100])
    half = Selection(time=(0, 1_000_000 - 100 + 500_000))
    [row] = kernels(job, select=half).frame.to_dicts()
    assert (row["total"], row["floor"]) == (500_000, round(FLOOR / 2))
    assert row["efficiency"] == pytest.approx(FLOOR / 1_000_000, abs=1e-5)
