"""Peak performance of devices: dense peaks by precision and memory bandwidth, from the vendors' datasheets.

Dense always: vendors like to print the doubled numbers of structured sparsity. A peak is that of the fastest unit for
matrix products in that precision (tensor cores, matrix cores), accumulating in FP32 as torch does: on GeForce cards
that is half of the number in large print. What a datasheet does not give, or sources disagree on, is missing here.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
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


def _read(file: Path) -> Iterator[Peak]:
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            major, _, minor = row["capability"].partition(".")
            yield Peak(
                product=row["product"],
                pattern=row["pattern"],
                tera={precision: float(row[precision]) for precision in PRECISIONS if row[precision]},
                bandwidth=float(row["bandwidth"]) if row["bandwidth"] else None,
                multiprocessors=int(row["multiprocessors"]) if row["multiprocessors"] else None,
                source=row["source"],
                memory=float(row["memory"]) if row["memory"] else None,
                capability=(int(major), int(minor)) if major else None,
            )


PEAKS: Final = tuple(_read(Path(__file__).with_name("peaks.csv")))
"""The known products: a row of `peaks.csv` each."""

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
