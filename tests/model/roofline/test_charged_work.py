"""Work that floors are of, where no device was used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kinetoscope import Selection, flops, read, roofline
from kinetoscope.model.roofline.charged_work import charged_work, has_host_floors
from tests import drawn

PEAKS = ("fp32=100GFLOP/s", "memory=10GB/s")


def op(name: str, start: int, duration: int, *dims: list[int]) -> drawn.Event:
    """An operator, times in µs."""
    types = ["float" if shape else "Scalar" for shape in dims]
    return drawn.op(name, 1000 * start, 1000 * duration, **{"Input Dims": [*dims], "Input type": types})  # type: ignore[arg-type]


EVENTS = [
    # linear takes 100 µs, of which 80 are addmm's
    op("aten::linear", 0, 100, [100, 200], [300, 200], [300]),
    op("aten::addmm", 10, 80, [300], [100, 200], [200, 300], [], []),
    # sum computes itself; what it fills is not it
    op("aten::sum", 200, 1000, [1000, 1000]),
    op("aten::fill_", 210, 100, [1], []),
    # _to_copy leaves the work to copy_
    op("aten::_to_copy", 2000, 500, [1000, 100], [], [], [], [], [], []),
    op("aten::copy_", 2010, 480, [1000, 100], [1000, 100], []),
]


def rows(folder: Path, *, peak: tuple[str, ...] = PEAKS, **asked: Any) -> dict[str, dict[str, Any]]:
    file = drawn.written(folder / "trace.json", *EVENTS)
    return {row["name"]: row for row in roofline(read(file, peak=peak), **asked).frame.to_dicts()}


def test_each_operator_counts_for_its_own_time(tmp_path: Path) -> None:
    found = rows(tmp_path)
    assert {name: row["device_time"] for name, row in found.items()} == {
        "aten::linear": 20_000,
        "aten::addmm": 80_000,
        "aten::sum": 900_000,
        "aten::fill_": 100_000,
        "aten::_to_copy": 20_000,
        "aten::copy_": 480_000,
    }
    assert found["aten::addmm"]["floor"] == pytest.approx(2 * 100 * 200 * 300 / 100e9 * 1e9, rel=1e-3)
    assert (found["aten::addmm"]["bound"], found["aten::addmm"]["category"]) == ("compute", "GEMM")
    assert found["aten::sum"]["floor"] == pytest.approx(1e6 * 4 / 10e9 * 1e9, rel=1e-3)
    assert found["aten::copy_"]["floor"] == 2 * 1e5 * 4 / 10e9 * 1e9
    assert {name for name, row in found.items() if row["floor"] is None} == {"aten::linear", "aten::_to_copy"}
    assert {found[name]["certainty"] for name in ("aten::linear", "aten::_to_copy")} == {"not covered: no formula"}


def test_a_range_of_time_selects_operators_that_begin_in_it(tmp_path: Path) -> None:
    assert rows(tmp_path, select=Selection(time=(200_000, 1_900_000))).keys() == {"aten::sum", "aten::fill_"}


def test_without_peaks_of_the_host_there_is_no_work(tmp_path: Path) -> None:
    file = drawn.written(tmp_path / "trace.json", *EVENTS)
    assert not has_host_floors(read(file).trace())
    assert rows(tmp_path, peak=()) == {}


def test_a_device_that_was_used_is_where_the_work_is(tmp_path: Path) -> None:
    events = [*EVENTS, drawn.launch(20, 5, 1), drawn.kernel("sgemm", 100, 60, 1)]
    file = drawn.written(tmp_path / "trace.json", *events)
    trace = read(file, peak=PEAKS).trace()
    assert (has_host_floors(trace), len(charged_work(trace).work)) == (False, 1)


def test_flops_are_as_before(tmp_path: Path) -> None:
    file = drawn.written(tmp_path / "trace.json", *EVENTS)
    one, other = (flops(read(file, peak=peak)).frame.drop("peak", "peak_share") for peak in ((), PEAKS))
    assert json.loads(one.write_json()) == json.loads(other.write_json())
