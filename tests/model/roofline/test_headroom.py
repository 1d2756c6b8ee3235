"""Headroom of simulated programs with a fault and without it: its parts say what the fault costs.

The simulator's kernels have times of their own, which know nothing of our floors.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from kinetoscope import Selection, read, roofline
from tests.conftest import first_quick
from tests.faults.case import Case, Draw
from tests.faults.cases.efficiency import CASES

_BY_NAME = {case.name: case for case in CASES}


def mean_step(folder: Path, draw: Draw) -> dict[str, float]:
    """The parts of an average steady step, ns."""
    folder.mkdir()
    draw(folder)
    frame = roofline(read(folder, jobs=1), by="step", select=Selection(steps="steady")).frame
    return frame.select(pl.selectors.by_dtype(pl.Int64).mean()).to_dicts()[0]


def both(folder: Path, name: str) -> tuple[dict[str, float], dict[str, float]]:
    case: Case = _BY_NAME[name]
    return mean_step(folder / "faulty", case.faulty), mean_step(folder / "fixed", case.fixed)


@pytest.mark.parametrize("name", first_quick(["AdamW with foreach", "AdamW with foreach, A100"]))
def test_an_optimizer_has_the_limit_of_its_fused_form(tmp_path: Path, name: str) -> None:
    faulty, fixed = both(tmp_path, name)
    assert faulty["at_limit"] == pytest.approx(fixed["at_limit"], rel=0.01)
    gain = faulty["device_time"] - fixed["device_time"]
    assert faulty["fusable"] - fixed["fusable"] == pytest.approx(gain, rel=0.1)


@pytest.mark.parametrize("name", first_quick(["attention in parts", "attention in parts, forward pass"]))
def test_unfused_attention_is_what_a_fused_kernel_gains(tmp_path: Path, name: str) -> None:
    faulty, fixed = both(tmp_path, name)
    assert faulty["at_limit"] == pytest.approx(fixed["at_limit"], rel=0.1)
    gain = faulty["device_time"] - fixed["device_time"]
    assert faulty["unfused_attention"] == pytest.approx(gain, rel=0.1)
    assert fixed["unfused_attention"] == 0


def test_chains_that_are_compiled_are_no_longer_fusable(tmp_path: Path) -> None:
    faulty, fixed = both(tmp_path, "eight element-wise operators in each layer")
    gain = faulty["device_time"] - fixed["device_time"]
    assert 0.5 * gain <= faulty["fusable"] - fixed["fusable"] <= gain
