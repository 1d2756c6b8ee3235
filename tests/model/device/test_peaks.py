"""Peaks of devices, recognised by how traces describe them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kinetoscope import read
from kinetoscope.model.device.hardware import Device, devices
from kinetoscope.model.device.peaks import PEAKS, PRECISIONS, UNITS, Peak, peak_of

GIB = 1 << 30


def device(
    name: str, multiprocessors: int | None = None, gib: float | None = None, capability: tuple[int, int] | None = None
) -> Device:
    memory = None if gib is None else int(gib * GIB)
    return Device(0, name, memory, multiprocessors, capability, {})


KNOWN = [
    (device("NVIDIA H100 80GB HBM3", 132, 79.2), "H100 SXM", 989.4, 3350),
    (device("NVIDIA H100 PCIe", 114, 79.2), "H100 PCIe", 756.0, 2000),
    (device("NVIDIA H100 NVL", 132, 93.1), "H100 NVL", 835.5, 3938),
    (device("NVIDIA H100", 132, 79.2), "H100 SXM", 989.4, 3350),
    (device("NVIDIA H200", 132, 139.8), "H200 SXM", 989.4, 4800),
    (device("NVIDIA GH200 480GB", 132, 95.0), "GH200 96 GB", 989.4, 4000),
    (device("NVIDIA H20", 78, 95.1), "H20", 148.0, 4000),
    (device("NVIDIA B200", 148, 178.4), "B200", 2250.0, 8000),
    (device("NVIDIA GB200", 152, 184.0), "GB200", 2500.0, 8000),
    (device("NVIDIA A100-SXM4-40GB", 108, 39.4), "A100 40 GB", 312.0, 1555),
    (device("NVIDIA A100-SXM4-80GB", 108, 79.2), "A100 80 GB SXM", 312.0, 2039),
    (device("NVIDIA A100 80GB PCIe", 108, 79.2), "A100 80 GB PCIe", 312.0, 1935),
    (device("NVIDIA A100-PG509-200", 108, 39.4), "A100 40 GB", 312.0, 1555),
    (device("NVIDIA A10G", 80, 22.0), "A10G", 70.0, 600),
    (device("NVIDIA A10", 72, 22.0), "A10", 125.0, 600),
    (device("NVIDIA L40S", 142, 44.4), "L40S", 362.0, 864),
    (device("NVIDIA GeForce RTX 3090", 82, 23.7), "RTX 3090", 71.0, 936),
    (device("NVIDIA GeForce RTX 3090 Ti", 84, 23.7), "RTX 3090 Ti", 80.0, 1008),
    (device("NVIDIA RTX 6000 Ada Generation", 142, 47.5), "RTX 6000 Ada", 364.2, 960),
    (device("NVIDIA GeForce RTX 5080", 84, 15.5), "RTX 5080", 112.6, 960),
    (device("NVIDIA GeForce RTX 5090", 170, 31.4), "RTX 5090", 209.5, 1792),
    (device("AMD Instinct MI300X", 304, 192.0), "MI300X", 1307.4, 5300),
    (device("AMD Instinct MI325X", 304, 256.0), "MI325X", 1307.4, 6000),
    (device("AMD Instinct MI355X", 256, 288.0), "MI355X", 2516.6, 8000),
    (device("AMD Instinct MI250X", 110, 64.0), "MI250X, one GCD", 191.5, 1638),
    (device("AMD Radeon RX 7900 XTX", 48, 24.0), "RX 7900 XTX", 122.8, 960),
    (device("AMD Radeon RX 9070 XT", 32, 15.9), "RX 9070 XT", 195.0, 640),
    (device("Intel(R) Data Center GPU Max 1550", 512, 64.0), "Max 1550, one tile", 419.4, 1638.4),
    (device("Intel(R) Data Center GPU Max 1550", 1024, 128.0), "Max 1550", 838.9, 3276.8),
    (device("Intel(R) Arc(TM) B580 Graphics", 160, 11.3), "Arc B580", 116.7, 456),
    # What ROCm calls both; the number of compute units tells.
    (device("AMD Instinct MI250X / MI250", 104, 64.0), "MI250, one GCD", 181.0, 1638),
    (device("AMD Radeon Graphics", 110, 64.0, (9, 0)), "MI250X, one GCD", 191.5, 1638),
    (device("AMD Radeon Graphics", 104, 64.0, (9, 0)), "MI210 or MI250, one GCD", 181.0, 1638),
]


@pytest.mark.parametrize(("described", "product", "bf16", "bandwidth"), KNOWN, ids=lambda value: str(value)[:60])
def test_products(described: Device, product: str, bf16: float, bandwidth: float) -> None:
    found = peak_of(described).peak
    assert found is not None
    assert (found.product, found.bandwidth) == (product, bandwidth * 1e9)
    assert found.flops("bf16") == bf16 * 1e12


def test_a_volta_has_no_bf16() -> None:
    found = peak_of(device("Tesla V100-DGXS-32GB", 80, 31.7)).peak
    assert found is not None
    assert (found.product, found.flops("fp16"), found.flops("bf16")) == ("V100 SXM", 125e12, None)


UNKNOWN = [
    (device(""), "no peak is known of a device without a name"),
    (device("ARTEMIS"), "no peak is known of ARTEMIS"),
    (device("NVIDIA GeForce RTX 3080 Laptop GPU", 48, 16), "no peak is known of NVIDIA GeForce RTX 3080 Laptop GPU"),
    (device("NVIDIA GeForce RTX 4090 D", 114, 23.5), "no peak is known of NVIDIA GeForce RTX 4090 D"),
    (device("NVIDIA T4G", 40, 15.0), "no peak is known of NVIDIA T4G"),
    (device("GRID A100X-40C vGPU", 108, 39.4), "GRID A100X-40C vGPU is a part of a device"),
    (
        device("NVIDIA ARTEMIS MIG 1g.5gb", 14, 4.9),
        "NVIDIA ARTEMIS MIG 1g.5gb is a part of a device of which too little is known",
    ),
    (
        device("AMD Instinct MI300X", 40, 24.0),
        "AMD Instinct MI300X with 40 multiprocessors is no variant that is known",
    ),
    (device("NVIDIA H200", 132, 70.0), "NVIDIA H200 with 70.0 GiB of memory is no variant that is known"),
    (device("NVIDIA H100"), "NVIDIA H100 may be H100 SXM or H100 PCIe or H100 NVL"),
    (
        device("AMD Radeon Graphics", 96, 48.0, (11, 0)),
        "no peak is known of AMD Radeon Graphics",
    ),
]


@pytest.mark.parametrize(("described", "reason"), UNKNOWN, ids=lambda value: str(value)[:60])
def test_what_is_not_known_has_a_reason(described: Device, reason: str) -> None:
    found = peak_of(described)
    assert found.peak is None
    assert found.reason == reason


@pytest.mark.parametrize(
    ("file", "product"),
    [
        ("owlv2_h100", "H100 SXM"),
        ("eager_b200", "B200"),
        ("ddp_nccl_a100", "A100 40 GB"),
        ("resnet50_v100/num_workers_0", "V100 SXM"),
        ("resnet_ddp_mi300", "MI300X"),
        ("mi250_train", "MI210 or MI250, one GCD"),
    ],
)
def test_real_traces(file: str, product: str, shared_traces: Path) -> None:
    found = {
        lookup.peak and lookup.peak.product for lookup in map(peak_of, devices(read(shared_traces / file).trace()))
    }
    assert found == {product}


# --- parts of a device


def test_an_instance_of_mig_has_its_share_of_multiprocessors_and_of_memory() -> None:
    found = peak_of(device("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 42, 19.5)).peak
    assert found is not None
    assert found.product == "A100 40 GB, MIG 3g.20gb (42 of 108 multiprocessors, 4 of 8 parts of memory and cache)"
    assert found.flops("bf16") == pytest.approx(312e12 * 42 / 108)
    assert found.vector("bf16") == pytest.approx(19.5e12 * 42 / 108)
    assert (found.bandwidth, found.cache, found.link) == (1555e9 / 2, 20 << 20, None)


@pytest.mark.parametrize(
    ("name", "multiprocessors", "product", "parts"),
    [
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 16, "H100 SXM", 1),
        ("NVIDIA H100 80GB HBM3 MIG 1g.20gb", 26, "H100 SXM", 2),
        ("NVIDIA A100 80GB PCIe MIG 7g.80gb", 98, "A100 80 GB PCIe", 8),
        ("NVIDIA H200 MIG 2g.35gb", 32, "H200 SXM", 2),
        ("NVIDIA A30 MIG 2g.12gb", 28, "A30", 4),
    ],
)
def test_profiles_of_mig(name: str, multiprocessors: int, product: str, parts: int) -> None:
    found = peak_of(device(name, multiprocessors)).peak
    whole = next(each for each in PEAKS if each.product == product)
    assert found is not None
    assert whole.multiprocessors
    assert found.rates["fp16"] == pytest.approx(whole.rates["fp16"] * multiprocessors / whole.multiprocessors)
    assert found.rates["memory"] == whole.rates["memory"] * parts / 8


def test_a_partition_of_amd_is_a_share_of_the_device() -> None:
    found = peak_of(device("AMD Instinct MI300X", 38, 24.0)).peak
    assert found is not None
    assert found.product == "MI300X, one of 8 partitions"
    assert (found.flops("bf16"), found.bandwidth) == (1307.4e12 / 8, 5300e9 / 8)
    larger = peak_of(device("AMD Instinct MI325X", 38, 32.0)).peak
    assert larger is not None
    assert larger.product == "MI325X, one of 8 partitions"


# --- the table


CORES = {
    **dict.fromkeys(
        (
            "V100",
            "T4",
            "A10",
            "A40",
            "RTX A6000",
            "RTX A5000",
            "L4",
            "L40S",
            "RTX PRO 6000",
            "RTX 6000 Ada",
            "Quadro",
            "MI1",
            "MI2",
        ),
        1024,
    ),
    **dict.fromkeys(("A100", "A30", "MI300", "MI325"), 2048),
    **dict.fromkeys(("RTX 2080", "RTX 30", "RTX 40", "RTX 50", "L40"), 512),
    **dict.fromkeys(("H100", "H200", "H800", "GH200", "MI35"), 4096),
    "B200": 8192,
}
"""Dense operations in FP16, accumulated in FP32, of a multiprocessor in a clock, by architecture."""


@pytest.mark.parametrize("peak", [peak for peak in PEAKS if peak.clock], ids=lambda peak: peak.product)
def test_a_peak_is_multiprocessors_by_operations_a_clock_by_clock(peak: Peak) -> None:
    assert peak.multiprocessors
    assert peak.clock
    name = max((each for each in CORES if peak.product.startswith(each)), key=len)
    expected = peak.multiprocessors * CORES[name] * peak.clock * 1e6
    assert peak.flops("fp16") == pytest.approx(expected, rel=0.007)
    # FP32 without matrix units: 64 or 128 lanes, each a multiplication and an addition; Hopper clocks higher for it.
    lanes = peak.rates["vector_fp32"] / 2 / peak.multiprocessors / (peak.clock * 1e6)
    assert any(0.98 * each <= lanes <= 1.09 * each for each in (64, 128)), lanes


@pytest.mark.parametrize("peak", PEAKS, ids=lambda peak: peak.product)
def test_a_checked_entry_says_when(peak: Peak) -> None:
    assert peak.checked == "" or re.fullmatch(r"20\d\d-\d\d-\d\d", peak.checked)
    assert bool(peak.checked) >= bool(peak.clock)


@pytest.mark.parametrize("peak", PEAKS, ids=lambda peak: peak.product)
def test_an_entry_is_sound(peak: Peak) -> None:
    assert re.search(r"https://\S+$", peak.source)
    assert peak.rates.keys() <= UNITS.keys()
    assert all(each > 0 for each in peak.rates.values())
    assert peak.vector("bf16") == peak.vector("fp32") == peak.rates["vector_fp32"]
    # The narrower the type, the faster; what GeForce cards and B300 do to FP64 and INT8 is their own affair.
    ladder = [peak.rates[name] for name in ("fp32", "tf32", "fp16", "fp8", "fp4") if name in peak.rates]
    assert ladder == sorted(ladder)
    assert peak.product == "MI100" or peak.rates.get("bf16") in (None, peak.rates.get("fp16"))
    # Links are slower than memory, of which a cache holds a small part.
    assert all(peak.rates.get(name, 0) < peak.rates["memory"] for name in ("link", "host_link"))
    assert (peak.cache or 0) < 1 << 30


def test_products_are_told_apart() -> None:
    """A device that is called as the product is, with its multiprocessors and memory, is that product or its equal."""
    for peak in PEAKS:
        gib = peak.gib
        name = peak.product.partition(",")[0].replace("V100 SXM", "V100-SXM2").replace("V100 PCIe", "V100-PCIE")
        described = device(name.replace("V100S PCIe", "V100S-PCIE"), peak.multiprocessors, gib)
        found = peak_of(described).peak
        assert found is not None, peak.product
        assert [found.flops(each) for each in PRECISIONS] == [peak.flops(each) for each in PRECISIONS]
