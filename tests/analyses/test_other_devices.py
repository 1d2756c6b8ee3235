from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope import other_devices
from kinetoscope.model.device.peaks import PEAKS
from tests import drawn

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
    assert "the file does not describe the device" in result.notes[0]
