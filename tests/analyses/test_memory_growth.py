from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import Selection, memory_growth, read
from kinetoscope.analyses.memory_growth import _line
from kinetoscope.errors import UsageError
from tests.catalog.samples import BUNDLED, SHARED, required
from tests.drawn import Event, annotation, job, memory, op


def loop(levels: list[int], *, keeps: bool = False) -> list[Event]:
    """Steps of 100 ns at whose ends so much is in use: one block more or less each, or one that is replaced."""
    events, level = [], 0
    for step, wanted in enumerate(levels):
        events += [annotation(f"ProfilerStep#{step}", 100 * step, 100), op("work", 100 * step + 10, 50)]
        change = wanted - level
        if change:
            events.append(memory(100 * step + 20, change, Addr=step if keeps else -1))
        level = wanted
    return events


def device_row(folder: Path, *events: Event, **asked: Any) -> dict[str, Any]:
    [row] = memory_growth(job(folder, *events), **asked).frame.filter(kind="device").to_dicts()
    return row


@pytest.mark.parametrize(
    ("levels", "verdict"),
    [
        ([0, 10, 20, 30, 40], "leak"),
        ([0, 5000, 5000, 5001, 5001, 5002, 5002, 5003, 5003, 5004], "leak"),  # slow, every second step
        ([0, 10, 10, 10], "no growth"),
        ([0, 40, 30, 20], "no growth"),
        ([0, 33028, 33028] + [33108] * 8, "no growth"),  # something made late, once
        ([0, 10, 90, 20, 100, 30], "unclear"),
        ([0, 10, 20, 20], "unclear"),
        ([0, 10, 20], "too few steps"),
    ],
)
def test_verdicts(tmp_path: Path, levels: list[int], verdict: str) -> None:
    assert device_row(tmp_path, *loop(levels))["verdict"] == verdict


def test_slope_and_evidence(tmp_path: Path) -> None:
    row = device_row(tmp_path, *loop([0, 100, 110, 130, 140]))
    numbers = [row[name] for name in ("per_step", "standard_error", "size", "steps")]
    assert numbers == pytest.approx([14, 2**0.5, 40, 4])
    assert row["evidence"] == "3 of 3 steps end higher than the one before."


def test_what_is_kept_and_by_what(tmp_path: Path) -> None:
    extra = [memory(110 + time, size, Addr=99) for time, size in ((20, 1000), (150, -1000))]  # over in the next step
    frame = memory_growth(job(tmp_path, *loop([0, 10, 20, 30, 40], keeps=True), *extra)).frame
    missing = ("verdict", "standard_error", "evidence", "module", "held_by", "stack")
    kept = frame.filter(kind="operator").drop("rank", "kind", "source", *missing)
    assert kept.to_dicts() == [{"device": "cpu", "name": "work", "per_step": 10, "size": 30, "blocks": 3, "steps": 3}]


def test_selection_and_warmup(tmp_path: Path) -> None:
    drawn = loop([50, 10, 20, 30, 40, 90])
    assert device_row(tmp_path, *drawn, warmup=0)["steps"] == 6
    chosen = device_row(tmp_path, *drawn, select=Selection(steps=(1, 2, 4)))
    assert [chosen[name] for name in ("steps", "per_step", "size")] == pytest.approx([3, 10, 30])
    assert device_row(tmp_path, *drawn, select=Selection(steps=(0, 1)))["evidence"] == (
        "1 step after the warm-up; it takes 3 to tell."
    )
    with pytest.raises(UsageError, match="warmup is -1"):
        device_row(tmp_path, *drawn, warmup=-1)


def test_it_says_what_is_missing(tmp_path: Path) -> None:
    none = memory_growth(job(tmp_path, op("a", 0, 9)))
    assert (len(none), none.notes) == (0, ("Memory was not recorded (profile_memory=True records it).",))
    unmarked = memory_growth(job(tmp_path, op("a", 0, 9), memory(1, 5)))
    assert unmarked.notes[0].startswith("No steps were marked")
    assert unmarked.notes[1].code == "MEMORY_UNPAIRED"


@given(st.lists(st.integers(-(10**6), 10**6), min_size=3, max_size=20))
def test_the_line_is_the_one_of_least_squares(levels: list[int]) -> None:
    slope, error = _line(np.arange(len(levels)), np.array(levels, np.int64))
    x = np.arange(len(levels), dtype=np.float64)
    design = np.stack([x, np.ones_like(x)], axis=1)
    expected, *_ = np.linalg.lstsq(design, np.array(levels, np.float64), rcond=None)
    rest = np.array(levels) - design @ expected
    covariance = rest @ rest / (len(levels) - 2) * np.linalg.inv(design.T @ design)
    assert (slope, error) == pytest.approx((expected[0], covariance[0, 0] ** 0.5), rel=1e-6, abs=1e-6)


# --- traces that leak by construction, and others

REAL = [
    (BUNDLED / "leak.pt.trace.json.gz", "leak", 262_144, "aten::repeat"),
    (SHARED / "torch_2_13_cpu" / "leak.pt.trace.json.gz", "leak", 1_051_136, "aten::empty"),
    (SHARED / "torch_2_13_cpu" / "leak_light.pt.trace.json.gz", "leak", 1_051_136, "aten::empty"),
    (BUNDLED / "mlp.pt.trace.json.gz", "no growth", 0, None),
    (BUNDLED / "conv.pt.trace.json.gz", "too few steps", None, None),
    (SHARED / "torch_2_13_cpu" / "conv.pt.trace.json.gz", "no growth", 0, None),
    (SHARED / "torch_2_13_cpu" / "transformer.pt.trace.json.gz", "no growth", 0, None),
    (SHARED / "resnet50_v100" / "num_workers_0" / "worker0.1623143089861.pt.trace.json.gz", "no growth", 0, None),
]


@pytest.mark.parametrize(("file", "verdict", "per_step", "name"), REAL)
def test_real_traces(file: Path, verdict: str, per_step: float | None, name: str | None) -> None:
    frame = memory_growth(read(required(file), jobs=1)).frame
    for row in frame.filter(kind="device").iter_rows(named=True):
        assert (row["verdict"], row["per_step"]) == (verdict, pytest.approx(per_step) if per_step else per_step)
    kept = frame.filter(frame["kind"] != "device")
    assert kept["name"].to_list()[:1] == ([name] if name else [])
    if name:  # what is kept accounts for the growth
        assert kept["per_step"].sum() == pytest.approx(per_step)
        assert (kept["steps"] == frame["steps"][0] - 1).all()


def test_a_cache_made_late_is_no_leak(shared_traces: Path) -> None:
    frame = memory_growth(read(shared_traces / "torch_2_13_cpu" / "ddp4_rank0.pt.trace.json.gz")).frame
    assert frame.select("kind", "verdict", "size").rows() == [("device", "no growth", 80), ("operator", None, 80)]
