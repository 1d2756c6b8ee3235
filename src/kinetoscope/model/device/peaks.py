"""Peak performance of devices: dense peaks by precision and memory bandwidth, from the vendors' datasheets.

Dense always: vendors like to print the doubled numbers of structured sparsity. A peak is that of the fastest unit for
matrix products in that precision (tensor cores, matrix cores), accumulating in FP32 as torch does: on GeForce cards
that is half of the number in large print. What a datasheet does not give, or sources disagree on, is missing here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kinetoscope.model.device.hardware import Device

PRECISIONS: Final = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
"""Precisions of a matrix product; operations of INT8 are no floating-point ones, but count alike."""


@dataclass(frozen=True, slots=True)
class Peak:
    """A product, or one variant of it.

    Attributes:
        product: its name.
        pattern: what the device's name in a trace matches, searched for anywhere in it.
        tera: by precision 10¹² operations a second, dense.
        bandwidth: of its memory, 10⁹ bytes a second; None where variants differ.
        multiprocessors: streaming multiprocessors or compute units that it reports; None where it is not certain.
        source: title and address of the datasheet.
        memory: GiB of memory that tell the variant; None where it does not matter.
        capability: compute capability, where the name may be generic.
    """

    product: str
    pattern: str
    tera: dict[str, float]
    bandwidth: float | None
    multiprocessors: int | None
    source: str
    memory: float | None = None
    capability: tuple[int, int] | None = None

    def flops(self, precision: str) -> float | None:
        """Dense peak of a precision, operations a second; None if it has none or it is unknown."""
        return self.tera[precision] * 1e12 if precision in self.tera else None


@dataclass(frozen=True, slots=True)
class Lookup:
    """The peaks of a device, or why there are none."""

    peak: Peak | None
    reason: str = ""


_NVIDIA: Final = "https://www.nvidia.com"
_DATA_CENTER: Final = f"{_NVIDIA}/en-us/data-center"
_SOLUTIONS: Final = f"{_NVIDIA}/content/dam/en-zz/Solutions"
_AMD: Final = "https://www.amd.com/en/products/accelerators/instinct"

_V100 = (
    "NVIDIA V100 datasheet, https://images.nvidia.com/content/technologies/volta/pdf/"
    "volta-v100-datasheet-update-us-1165301-r5.pdf"
)
_A100 = f"NVIDIA A100 datasheet, {_SOLUTIONS}/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf"
_GA102 = (
    "NVIDIA Ampere GA102 architecture whitepaper, "
    f"{_NVIDIA}/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf"
)
_ADA = (
    "NVIDIA Ada architecture whitepaper, https://images.nvidia.com/aem-dam/Solutions/Data-Center/l4/"
    "nvidia-ada-gpu-architecture-whitepaper-v2.1.pdf"
)
_RTX_BLACKWELL = (
    "NVIDIA RTX Blackwell architecture whitepaper, https://images.nvidia.com/aem-dam/Solutions/geforce/blackwell/"
    "nvidia-rtx-blackwell-gpu-architecture.pdf"
)
_H100 = f"NVIDIA H100 datasheet, {_DATA_CENTER}/h100/"
_H200 = f"NVIDIA H200 datasheet, {_DATA_CENTER}/h200/"
_GH200 = "NVIDIA GH200 datasheet, https://resources.nvidia.com/en-us-grace-cpu/grace-hopper-superchip"
_BLACKWELL = "NVIDIA Blackwell architecture brief, https://resources.nvidia.com/en-us-blackwell-architecture"
_HGX = f"NVIDIA HGX datasheet, {_DATA_CENTER}/hgx/"

_V100_SXM = {"fp64": 7.8, "fp32": 15.7, "fp16": 125.0}
_A100_ALL = {"fp64": 19.5, "fp32": 19.5, "tf32": 156.0, "fp16": 312.0, "bf16": 312.0, "int8": 624.0}
_HOPPER = {
    "fp64": 66.9, "fp32": 66.9, "tf32": 494.7, "fp16": 989.4, "bf16": 989.4, "fp8": 1978.9, "int8": 1978.9,
}  # fmt: skip
_HOPPER_NVL = {
    "fp64": 60.0, "fp32": 60.0, "tf32": 417.5, "fp16": 835.5, "bf16": 835.5, "fp8": 1670.5, "int8": 1670.5,
}  # fmt: skip
_H20 = {"fp32": 44.0, "tf32": 74.0, "fp16": 148.0, "bf16": 148.0, "fp8": 296.0, "int8": 296.0}
_CDNA2_104 = {"fp64": 45.3, "fp32": 45.3, "fp16": 181.0, "bf16": 181.0, "int8": 181.0}
_CDNA3 = {
    "fp64": 163.4, "fp32": 163.4, "tf32": 653.7, "fp16": 1307.4, "bf16": 1307.4, "fp8": 2614.9, "int8": 2614.9,
}  # fmt: skip

PEAKS: Final[tuple[Peak, ...]] = (
    # --- NVIDIA: Volta, Turing
    Peak("V100 SXM", r"V100-(?:SXM[23]|DGXS)", _V100_SXM, 900, 80, _V100),
    Peak("V100 PCIe", r"V100-PCIE", {"fp64": 7.0, "fp32": 14.0, "fp16": 112.0}, 900, 80, _V100),
    Peak("V100S PCIe", r"V100S-PCIE", {"fp64": 8.2, "fp32": 16.4, "fp16": 130.0}, 1134, 80, _V100),
    Peak(
        "T4", r"\bT4\b", {"fp32": 8.1, "fp16": 65.0, "int8": 130.0}, 320, 40,
        f"NVIDIA T4 datasheet, {_SOLUTIONS}/Data-Center/tesla-t4/t4-tensor-core-datasheet-951643.pdf",
    ),
    # --- Ampere
    Peak("A100 40 GB", r"\bA[18]00\b", _A100_ALL, 1555, 108, _A100, memory=40),
    Peak("A100 80 GB PCIe", r"\bA[18]00\b.*PCI[eE]", _A100_ALL, 1935, 108, _A100, memory=80),
    Peak("A100 80 GB SXM", r"\bA[18]00\b(?!.*PCI[eE])", _A100_ALL, 2039, 108, _A100, memory=80),
    Peak(
        "A30", r"\bA30\b",
        {"fp64": 10.3, "fp32": 10.3, "tf32": 82.0, "fp16": 165.0, "bf16": 165.0, "int8": 330.0}, 933, 56,
        f"NVIDIA A30 datasheet, {_SOLUTIONS}/data-center/products/a30-gpu/pdf/a30-datasheet.pdf",
    ),
    Peak(
        "A10", r"\bA10\b", {"fp32": 31.2, "tf32": 62.5, "fp16": 125.0, "bf16": 125.0, "int8": 250.0}, 600, 72,
        f"NVIDIA A10 datasheet, {_SOLUTIONS}/Data-Center/a10/pdf/a10-datasheet.pdf",
    ),
    Peak(
        "A10G", r"\bA10G\b", {"fp32": 35.0, "tf32": 35.0, "fp16": 70.0, "bf16": 70.0, "int8": 140.0}, 600, 80,
        "NVIDIA A10G datasheet, https://d1.awsstatic.com/product-marketing/ec2/"
        "NVIDIA_AWS_A10G_DataSheet_FINAL_02_17_2022.pdf",
    ),
    Peak(
        "A40", r"\bA40\b", {"fp32": 37.4, "tf32": 74.8, "fp16": 149.7, "bf16": 149.7, "int8": 299.3}, 696, 84,
        "NVIDIA A40 datasheet, https://images.nvidia.com/content/Solutions/data-center/a40/nvidia-a40-datasheet.pdf",
    ),
    Peak(
        "RTX A6000", r"RTX A6000\b", {"fp32": 38.7, "tf32": 77.4, "fp16": 154.8, "bf16": 154.8, "int8": 309.7},
        768, 84, _GA102,
    ),
    Peak(
        "RTX 3090", r"RTX 3090(?! Ti)", {"fp32": 35.6, "tf32": 35.6, "fp16": 71.0, "bf16": 71.0, "int8": 284.0},
        936, 82, _GA102,
    ),
    # --- Ada
    Peak(
        "L4", r"\bL4\b",
        {"fp32": 30.3, "tf32": 60.0, "fp16": 121.0, "bf16": 121.0, "fp8": 242.5, "int8": 242.5}, 300, 58,
        f"NVIDIA L4 datasheet, {_DATA_CENTER}/l4/",
    ),
    Peak(
        "L40", r"\bL40\b",
        {"fp32": 90.5, "tf32": 90.5, "fp16": 181.0, "bf16": 181.0, "fp8": 362.0, "int8": 362.0}, 864, 142,
        f"NVIDIA L40 datasheet, {_DATA_CENTER}/l40/",
    ),
    Peak(
        "L40S", r"\bL40S\b",
        {"fp32": 91.6, "tf32": 183.0, "fp16": 362.0, "bf16": 362.0, "fp8": 733.0, "int8": 733.0}, 864, 142,
        f"NVIDIA L40S datasheet, {_DATA_CENTER}/l40s/",
    ),
    Peak(
        "RTX 4090", r"RTX 4090(?! (?:D|Laptop)\b)",
        {"fp32": 82.6, "tf32": 82.6, "fp16": 165.2, "bf16": 165.2, "fp8": 330.3, "int8": 660.6}, 1008, 128, _ADA,
    ),
    # --- Hopper
    Peak("H100 SXM", r"\bH100\b(?!.*(?:PCIe|NVL))", _HOPPER, 3350, 132, _H100, memory=80),
    Peak(
        "H100 PCIe", r"\bH100\b(?!.*(?:HBM3|NVL))",
        {"fp64": 51.0, "fp32": 51.0, "tf32": 378.0, "fp16": 756.0, "bf16": 756.0, "fp8": 1513.0, "int8": 1513.0},
        2000, 114, _H100, memory=80,
    ),
    Peak("H100 NVL", r"\bH100\b(?!.*(?:HBM3|PCIe))", _HOPPER_NVL, 3938, 132, _H100, memory=94),
    Peak(
        "H800 SXM", r"\bH800\b(?!.*(?:PCIe|NVL))", {key: _HOPPER[key] for key in _HOPPER if key != "fp64"}, 3350, 132,
        "NVIDIA H800 datasheet, https://chaoqing-i.com/upload/20231128/NVIDIA%20H800%20GPU%20Datasheet.pdf",
    ),
    Peak("H200 SXM", r"\bH200\b(?!.*NVL)", _HOPPER, 4800, 132, _H200),
    Peak("H200 NVL", r"\bH200 NVL\b", _HOPPER_NVL, 4800, 132, _H200),
    Peak("GH200 96 GB", r"\bGH200\b", _HOPPER, 4000, 132, _GH200, memory=96),
    Peak("GH200 144 GB", r"\bGH200\b", _HOPPER, 4900, 132, _GH200, memory=144),
    # NVIDIA publishes no datasheet of it; independent sources agree on these.
    Peak(
        "H20", r"\bH20\b", _H20, 4000, 78,
        "hardware_spec.md of LLM-Prof, https://github.com/citsjtu2020/LLM-Prof", memory=96,
    ),
    # --- Blackwell
    Peak(
        "B100", r"\bB100\b",
        {"fp64": 30.0, "fp32": 60.0, "tf32": 900.0, "fp16": 1750.0, "bf16": 1750.0, "fp8": 3500.0, "int8": 3500.0,
         "fp4": 7000.0},
        8000, None, _BLACKWELL,
    ),
    Peak(
        "B200", r"\bB200\b",
        {"fp64": 37.0, "fp32": 75.0, "tf32": 1125.0, "fp16": 2250.0, "bf16": 2250.0, "fp8": 4500.0, "int8": 4500.0,
         "fp4": 9000.0},
        8000, 148, _HGX,
    ),
    Peak(
        "GB200", r"\bGB200\b",
        {"fp64": 40.0, "fp32": 80.0, "tf32": 1250.0, "fp16": 2500.0, "bf16": 2500.0, "fp8": 5000.0, "int8": 5000.0,
         "fp4": 10000.0},
        8000, None, _BLACKWELL,
    ),
    Peak(
        "B300", r"\bB300\b",
        {"fp64": 1.25, "fp32": 75.0, "tf32": 1125.0, "fp16": 2250.0, "bf16": 2250.0, "fp8": 4500.0}, 8000, None, _HGX,
    ),
    Peak(
        "GB300", r"\bGB300\b",
        {"fp32": 80.0, "tf32": 1250.0, "fp16": 2500.0, "bf16": 2500.0, "fp8": 5000.0, "fp4": 15000.0}, 8000, None,
        f"NVIDIA GB300 NVL72 datasheet, {_DATA_CENTER}/gb300-nvl72/",
    ),
    Peak(
        "RTX 5090", r"RTX 5090(?! (?:D|Laptop)\b)",
        {"fp32": 104.8, "tf32": 104.8, "fp16": 209.5, "bf16": 209.5, "fp8": 419.0, "int8": 838.0, "fp4": 1676.0},
        1792, 170, _RTX_BLACKWELL,
    ),
    # --- AMD: a trace shows the halves (GCDs) of an MI250 as devices
    Peak("MI210", r"\bMI210\b", _CDNA2_104, 1638, 104, f"AMD MI210 datasheet, {_AMD}/mi200/mi210.html",
         capability=(9, 0)),
    Peak("MI250, one GCD", r"\bMI250\b", _CDNA2_104, 1638, 104, f"AMD MI250 datasheet, {_AMD}/mi200/mi250.html",
         capability=(9, 0)),
    Peak(
        "MI250X, one GCD", r"\bMI250X\b",
        {"fp64": 47.9, "fp32": 47.9, "fp16": 191.5, "bf16": 191.5, "int8": 191.5}, 1638, 110,
        f"AMD MI250X datasheet, {_AMD}/mi200/mi250x.html", capability=(9, 0),
    ),
    Peak(
        "MI300A", r"\bMI300A\b",
        {"fp64": 122.6, "fp32": 122.6, "tf32": 490.3, "fp16": 980.6, "bf16": 980.6, "fp8": 1961.2, "int8": 1961.2},
        5300, 228, f"AMD MI300A datasheet, {_AMD}/mi300/mi300a.html", capability=(9, 4),
    ),
    Peak("MI300X", r"\bMI300X\b", _CDNA3, 5300, 304, f"AMD MI300X datasheet, {_AMD}/mi300/mi300x.html",
         memory=192, capability=(9, 4)),
    Peak("MI325X", r"\bMI325X\b", _CDNA3, 6000, 304, f"AMD MI325X datasheet, {_AMD}/mi300/mi325x.html",
         memory=256, capability=(9, 4)),
    Peak(
        "MI350X", r"\bMI350X\b",
        {"fp64": 72.1, "fp32": 144.2, "fp16": 2306.9, "bf16": 2306.9, "fp8": 4613.7, "int8": 4613.7, "fp4": 9227.5},
        8000, 256, f"AMD MI350X datasheet, {_AMD}/mi350/mi350x.html",
    ),
    Peak(
        "MI355X", r"\bMI355X\b",
        {"fp64": 78.6, "fp32": 157.3, "fp16": 2516.6, "bf16": 2516.6, "fp8": 5033.2, "int8": 5033.2, "fp4": 10066.3},
        8000, 256, f"AMD MI355X datasheet, {_AMD}/mi350/mi355x.html",
    ),
)  # fmt: skip
"""The known products."""

_GENERIC: Final = re.compile(r"^AMD (?:Radeon|Instinct)(?: Graphics)?$")
"""Names that ROCm gives to a device of unknown product."""

_SLICE: Final = re.compile(r"\bMIG\b|\bvGPU\b|-\d+[CQ]\b")
_MEMORY_TOLERANCE: Final = 0.08
"""Difference between a device's memory and its datasheet, as a share: firmware and error correction take some."""

_GIB: Final = 1 << 30


def peak_of(device: Device) -> Lookup:
    """The peaks of a device of a trace, by its name, its multiprocessors and its memory."""
    name = device.name or "a device without a name"
    if _SLICE.search(device.name):
        return Lookup(None, f"{name} is a part of a device")
    generic = _GENERIC.match(device.name) is not None
    named = [
        peak for peak in PEAKS
        if (peak.capability is not None and peak.capability == device.capability if generic
            else re.search(peak.pattern, device.name))
    ]  # fmt: skip
    if not named:
        return Lookup(None, f"no peak is known of {name}")
    variants = [peak for peak in named if _fits(peak, device)]
    if not variants:
        size = f"{device.multiprocessors} multiprocessors"
        return Lookup(None, f"{name} with {size} is no variant that is known")
    if any(peak.tera != variants[0].tera for peak in variants):
        return Lookup(None, f"{name} may be {' or '.join(peak.product for peak in variants)}")
    return Lookup(variants[0] if len(variants) == 1 else _merged(variants))


def _fits(peak: Peak, device: Device) -> bool:
    if None not in (peak.multiprocessors, device.multiprocessors) and peak.multiprocessors != device.multiprocessors:
        return False
    if peak.memory is None or device.memory is None:
        return True
    return abs(device.memory / (peak.memory * _GIB) - 1) <= _MEMORY_TOLERANCE


def _merged(variants: list[Peak]) -> Peak:
    """One record for variants of the same peaks; facts that differ are unknown."""
    bandwidths = {peak.bandwidth for peak in variants}
    return Peak(
        product=" or ".join(peak.product for peak in variants),
        pattern=variants[0].pattern,
        tera=variants[0].tera,
        bandwidth=variants[0].bandwidth if len(bandwidths) == 1 else None,
        multiprocessors=variants[0].multiprocessors,
        source=variants[0].source,
    )
