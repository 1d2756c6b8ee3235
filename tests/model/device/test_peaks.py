"""Peaks of devices, told by how traces describe them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kinetoscope import read
from kinetoscope.model.device.hardware import Device, devices
from kinetoscope.model.device.peaks import PEAKS, PRECISIONS, Peak, peak_of

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
    (device("NVIDIA GeForce RTX 5090", 170, 31.4), "RTX 5090", 209.5, 1792),
    (device("AMD Instinct MI300X", 304, 192.0), "MI300X", 1307.4, 5300),
    (device("AMD Instinct MI325X", 304, 256.0), "MI325X", 1307.4, 6000),
    (device("AMD Instinct MI355X", 256, 288.0), "MI355X", 2516.6, 8000),
    (device("AMD Instinct MI250X", 110, 64.0), "MI250X, one GCD", 191.5, 1638),
    # What ROCm calls both; the number of compute units tells.
    (device("AMD Instinct MI250X / MI250", 104, 64.0), "MI250, one GCD", 181.0, 1638),
    (device("AMD Radeon Graphics", 110, 64.0, (9, 0)), "MI250X, one GCD", 191.5, 1638),
    (device("AMD Radeon Graphics", 104, 64.0, (9, 0)), "MI210 or MI250, one GCD", 181.0, 1638),
]


@pytest.mark.parametrize(("described", "product", "bf16", "bandwidth"), KNOWN, ids=lambda value: str(value)[:60])
def test_products(described: Device, product: str, bf16: float, bandwidth: float) -> None:
    found = peak_of(described).peak
    assert found is not None
    assert (found.product, found.bandwidth) == (product, bandwidth)
    assert found.flops("bf16") == bf16 * 1e12


def test_a_volta_has_no_bf16() -> None:
    found = peak_of(device("Tesla V100-DGXS-32GB", 80, 31.7)).peak
    assert found is not None
    assert (found.product, found.flops("fp16"), found.flops("bf16")) == ("V100 SXM", 125e12, None)


UNKNOWN = [
    (device(""), "no peak is known of a device without a name"),
    (device("ARTEMIS"), "no peak is known of ARTEMIS"),
    (device("NVIDIA GeForce RTX 3090 Ti", 84, 23.7), "no peak is known of NVIDIA GeForce RTX 3090 Ti"),
    (device("NVIDIA GeForce RTX 4090 D", 114, 23.5), "no peak is known of NVIDIA GeForce RTX 4090 D"),
    (device("NVIDIA T4G", 40, 15.0), "no peak is known of NVIDIA T4G"),
    (device("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 42, 19.5), "NVIDIA A100-SXM4-40GB MIG 3g.20gb is a part of a device"),
    (
        device("AMD Instinct MI300X", 38, 24.0),
        "AMD Instinct MI300X with 38 multiprocessors is no variant that is known",
    ),
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


# --- the table


@pytest.mark.parametrize("peak", PEAKS, ids=lambda peak: peak.product)
def test_an_entry_is_sound(peak: Peak) -> None:
    assert re.search(r"https://\S+$", peak.source)
    assert peak.tera.keys() <= set(PRECISIONS)
    assert all(each > 0 for each in peak.tera.values())
    # The narrower the type, the faster; what GeForce cards and B300 do to FP64 and INT8 is their own affair.
    ladder = [peak.tera[name] for name in ("fp32", "tf32", "fp16", "fp8", "fp4") if name in peak.tera]
    assert ladder == sorted(ladder)
    assert peak.tera.get("bf16", peak.tera["fp16"]) == peak.tera["fp16"]


def test_products_are_told_apart() -> None:
    """A device that is called as the product is, with its multiprocessors and memory, is that product or its equal."""
    for peak in PEAKS:
        gib = peak.memory or None
        name = peak.product.partition(",")[0].replace("V100 SXM", "V100-SXM2").replace("V100 PCIe", "V100-PCIE")
        described = device(name.replace("V100S PCIe", "V100S-PCIE"), peak.multiprocessors, gib)
        found = peak_of(described).peak
        assert found is not None, peak.product
        assert found.tera == peak.tera
