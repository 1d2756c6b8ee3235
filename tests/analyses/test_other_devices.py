from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope import other_devices, read
from kinetoscope.analyses.other_devices import EFFICIENCY_RATIO
from kinetoscope.model.device.peaks import PEAKS
from tests import drawn
from tests.notes import codes

BF16 = "c10::BFloat16"
MICROSECOND = 1000
H100 = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}]
ADD = {"Input Dims": [[1 << 26], [1 << 26]], "Input type": [BF16, BF16]}
MM = {"Input Dims": [[8192, 8192], [8192, 8192]], "Input type": [BF16, BF16]}
TINY = {"Input Dims": [[8], [8]], "Input type": [BF16, BF16]}


def call(name: str, number: int, duration: int, **args: Any) -> list[drawn.Event]:
    at = 100 * number
    return [
        drawn.op(name, at, 50, **args),
        drawn.launch(at + 1, 5, number),
        drawn.kernel("k", 10**6 * number, duration, number),
    ]


def rows(folder: Path, *events: list[drawn.Event], **params: Any) -> dict[str, dict[str, Any]]:
    job = drawn.job(folder, *(each for part in events for each in part), deviceProperties=H100)
    return {row["product"]: row for row in other_devices(job, **params).frame.to_dicts()}


def peak(product: str, name: str) -> float:
    return next(each.rates[name] for each in PEAKS if each.product == product)


def test_each_call_is_scaled_by_what_binds_it(tmp_path: Path) -> None:
    add = call("aten::add", 1, 200 * MICROSECOND, **ADD)
    product = call("aten::mm", 2, 2000 * MICROSECOND, **MM)
    tiny = call("aten::mul", 3, 2 * MICROSECOND, **TINY)
    memory = peak("H100 SXM", "memory") / peak("MI300X", "memory")
    compute = peak("H100 SXM", "bf16") / peak("MI300X", "bf16")
    found = rows(tmp_path, add, product, tiny)
    assert found["H100 SXM"]["speedup"] == pytest.approx(1.0)
    assert found["MI300X"]["device_time"] == found["MI300X"]["scaled_time"] == 2202 * MICROSECOND
    # Latency does not change: a kernel of 2 µs is the shortest there is.
    assert found["MI300X"]["expected_time"] == pytest.approx(1000 * (200 * memory + 2000 * compute + 2), rel=1e-6)
    assert rows(tmp_path, add)["H200 SXM"]["speedup"] == pytest.approx(4800 / 3350)
    assert rows(tmp_path, product)["H200 SXM"]["speedup"] == pytest.approx(1.0)


REAL = {
    ("H100", "MI300X"): ((1.08, 0.71), (1.30, 1.06), (1.54, 1.32), (1.05, 0.79)),
    ("MI300X", "H100"): ((0.93, 1.40), (0.76, 0.94), (0.65, 0.76), (0.96, 1.26)),
}
"""Speedups of the device time of four programs, as expected and as measured on the other device: ViT, a language model
of half a billion parameters, TimeSformer, a small BERT."""


@pytest.mark.parametrize(("expected", "measured"), [pair for pairs in REAL.values() for pair in pairs])
def test_what_was_measured_on_both_devices_lies_in_the_range(expected: float, measured: float) -> None:
    assert expected / EFFICIENCY_RATIO <= measured <= expected * EFFICIENCY_RATIO


@pytest.mark.parametrize(
    ("here", "there", "product"), [("owlv2_h100", "owlv2_mi300", "MI300X"), ("owlv2_mi300", "owlv2_h100", "H100 SXM")]
)
def test_one_program_on_two_devices(here: str, there: str, product: str, shared_traces: Path) -> None:
    frame = other_devices(read(shared_traces / here)).frame
    row = {each["product"]: each for each in frame.to_dicts()}[product]
    [measured] = other_devices(read(shared_traces / there), product=product).frame["device_time"].unique().to_list()
    assert row["shortest_time"] <= measured <= row["longest_time"]
    assert row["least_speedup"] < row["speedup"] < row["most_speedup"]


def test_the_range_is_that_of_the_efficiency_down_to_the_floor(tmp_path: Path) -> None:
    slow, near = (call("aten::add", 1, time * MICROSECOND, **ADD) for time in (2000, 125))
    found = rows(tmp_path, slow)
    row = found["H200 SXM"]
    assert row["longest_time"] == pytest.approx(1.6 * row["expected_time"], rel=1e-6)
    assert row["shortest_time"] == pytest.approx(row["expected_time"] / 1.6, rel=1e-6)
    assert found["H100 SXM"]["shortest_time"] == found["H100 SXM"]["longest_time"] == 2000 * MICROSECOND
    fast = rows(tmp_path, near)["H200 SXM"]
    assert fast["shortest_time"] == fast["floor"]


def test_it_says_that_it_is_an_estimate(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, *call("aten::add", 1, 200_000, **ADD), deviceProperties=H100)
    assert "ESTIMATES" in codes(other_devices(job).notes)


def test_a_device_that_lacks_a_precision_is_said_to(tmp_path: Path) -> None:
    found = rows(tmp_path, call("aten::mm", 1, 2000 * MICROSECOND, **MM), product="v100")
    assert found["V100 SXM"]["lacks"] == "bf16"
    assert found["V100 SXM"]["expected_time"] is None
    assert all("V100" in product for product in found)
    assert rows(tmp_path, call("aten::add", 1, 200_000, **ADD))["V100 SXM"]["lacks"] is None


def test_work_without_a_floor_keeps_its_time(tmp_path: Path) -> None:
    unknown = call("mine::operator", 1, 500 * MICROSECOND)
    found = rows(tmp_path, unknown, call("aten::add", 2, 100 * MICROSECOND, **ADD))["H200 SXM"]
    assert found["scaled_time"] == 100 * MICROSECOND
    assert found["expected_time"] == round(1000 * (500 + 100 * 3350 / 4800))


def test_copies_to_the_host_gain_from_its_link_only(tmp_path: Path) -> None:
    name = "Memcpy DtoH (Device -> Pinned)"
    copy = [drawn.kernel(name, 0, 100 * MICROSECOND, 1, category="gpu_memcpy", bytes=5_000_000)]
    found = rows(tmp_path, copy)
    assert found["H200 SXM"]["speedup"] == pytest.approx(1.0)
    ratio = peak("H100 SXM", "host_link") / peak("A100 80 GB SXM", "host_link")
    assert found["A100 80 GB SXM"]["speedup"] == pytest.approx(1 / ratio)


def test_a_device_of_unknown_peaks_compares_with_none(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, *call("aten::add", 1, 200_000, **ADD))
    result = other_devices(job)
    assert not len(result.frame)
    assert "PEAKS_UNKNOWN" in [note.code for note in result.notes]
