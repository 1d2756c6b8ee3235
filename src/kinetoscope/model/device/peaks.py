"""Peak performance of devices, from the vendors' datasheets, and as the user gives or measured it.

Dense always: vendors like to print the doubled numbers of structured sparsity. The peak of a precision is that of the
fastest unit for matrix products in it (tensor cores, matrix cores), accumulating in FP32 as torch does: on GeForce
cards that is half of the number in large print. What a datasheet does not give, or sources disagree on, is missing
here.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kinetoscope.model.device.hardware import Device, device_of, devices
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.source import OwnPeaks, Rates
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note
from kinetoscope.schema import Unit

PRECISIONS: Final = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
"""Precisions of a matrix product; operations of INT8 are no floating-point ones, but count alike."""

UNITS: Final[Mapping[str, Unit]] = {
    **dict.fromkeys(PRECISIONS, "flop/s"),
    "vector_fp64": "flop/s",
    "vector_fp32": "flop/s",
    "memory": "bytes/s",
    "link": "bytes/s",
    "host_link": "bytes/s",
    "network": "bytes/s",
    "cache": "bytes",
}
"""Every peak that a device may have, with its unit: `Peak` says what each is."""

HOST: Final = -1
"""Number of the host among devices: where a process used no device, the host's peaks count."""

HOST_NAME: Final = "host"
"""Its name in the user's file."""


@dataclass(frozen=True, slots=True)
class Peak:
    """A product, or one variant of it.

    Attributes:
        product: its name.
        pattern: what the device's name in a trace matches, searched for anywhere in it.
        rates: its peaks by the names of `UNITS`, operations and bytes a second. Names of precisions are of matrix
            products; `vector_fp32` and `vector_fp64` of all other arithmetic; `memory` of its memory, reads and writes
            together; `link` to other devices and `host_link` to the host, all links together in one direction, half of
            what vendors print; `network` is of its share of the machine's adapters, in one direction, which only the
            user knows; `cache` is the bytes of the largest cache (L2, Infinity Cache).
        multiprocessors: streaming multiprocessors or compute units that it reports; None where it is not certain.
        source: title and address of the datasheet.
        gib: GiB of memory that tell the variant; None where it does not matter.
        capability: compute capability, where the name may be generic.
        clock: MHz at which the peaks of matrix products hold, for checks; None where it is not published.
        checked: day on which the numbers were last held against a second source or against
            multiprocessors × operations a clock × clock; "" for never.
    """

    product: str
    pattern: str
    rates: Mapping[str, float]
    multiprocessors: int | None
    source: str
    gib: float | None = None
    capability: tuple[int, int] | None = None
    clock: float | None = None
    checked: str = ""

    def flops(self, precision: str) -> float | None:
        """Dense peak of matrix products in a precision, operations a second; None if it has none or it is unknown."""
        return self.rates.get(precision)

    def vector(self, precision: str) -> float | None:
        """Peak of other arithmetic on elements of a precision, operations a second; None if unknown.

        torch computes element by element in FP32 what is stored in fewer bits (its `opmath` types), and so does what
        Inductor generates.
        """
        return self.rates.get("vector_fp64" if precision == "fp64" else "vector_fp32")

    @property
    def bandwidth(self) -> float | None:
        """The bandwidth of its memory, bytes a second; None where variants differ."""
        return self.rates.get("memory")

    @property
    def link(self) -> float | None:
        """To other devices, in one direction, bytes a second; None where there is no such link or it is unknown."""
        return self.rates.get("link")

    @property
    def host_link(self) -> float | None:
        """To the host, in one direction, bytes a second."""
        return self.rates.get("host_link")

    @property
    def network(self) -> float | None:
        """To other machines, in one direction, bytes a second; only as the user gives it."""
        return self.rates.get("network")

    @property
    def cache(self) -> float | None:
        """Bytes of its largest cache: what fits may be read faster than memory allows."""
        return self.rates.get("cache")


@dataclass(frozen=True, slots=True)
class Lookup:
    """The peaks of a device, or why there are none.

    Attributes:
        peak: those to compare with: the datasheet's or the attainable ones, with what the user gave.
        reason: why there are none.
        datasheet: the datasheet's, with what the user gave; None where neither is known.
        attainable: those that `kinetoscope calibrate` measured, the datasheet's where it measured none; or None.
        given: names of the peaks that the user gave.
        measured: names of those that were measured.
        is_missing: were attainable ones asked for, though none were measured of this device?
    """

    peak: Peak | None
    reason: str = ""
    datasheet: Peak | None = None
    attainable: Peak | None = None
    given: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    is_missing: bool = False

    def origin(self, name: str) -> str:
        """The origin of the peak of this name, to compare with: `given`, `measured` or `datasheet`."""
        if name in self.given:
            return "given"
        return "measured" if name in self.measured and self.peak is self.attainable else "datasheet"

    @property
    def note(self) -> Note:
        """The peaks in words, and their origin."""
        if self.peak is None:
            return Note("PEAKS_UNKNOWN", f"Shares of the peak are unknown: {self.reason} (--peak gives it by hand).")
        if not self.peak.source:
            return Note("PEAKS_GIVEN", f"Peaks are given by hand: {', '.join(self.given)}.")
        kind = "attainable" if self.peak is self.attainable else "dense"
        given = f"; given by hand: {', '.join(self.given)}" if self.given else ""
        said = f"Peaks are the {kind} ones of {self.peak.product}: {self.peak.source}{given}{self._attained}."
        return Note("PEAKS", said)

    @property
    def _attained(self) -> str:
        """The part of the datasheet's peaks that was measured."""
        if self.is_missing:
            return "; nothing was measured of this device"
        if self.attainable is None or self.datasheet is None:
            return ""
        if self.peak is self.attainable:
            return "; what was not measured is the datasheet's" if self.datasheet.source else ""
        stated, measured = self.datasheet.rates, self.attainable.rates
        shares = [f"{name} {measured[name] / stated[name]:.0%}" for name in self.measured if name in stated]
        return f"; attainable of them are {', '.join(shares)} ({self.attainable.source})" if shares else ""


# --- the table


SCALES: Final = {"flop/s": 1e12, "bytes/s": 1e9, "bytes": float(1 << 20)}
"""Units of the table: TFLOP/s, GB/s, MiB."""


def _read(file: Path) -> Iterator[Peak]:
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            major, _, minor = row["capability"].partition(".")
            yield Peak(
                product=row["product"],
                pattern=row["pattern"],
                rates={name: float(row[name]) * SCALES[unit] for name, unit in UNITS.items() if row.get(name)},
                multiprocessors=int(row["multiprocessors"]) if row["multiprocessors"] else None,
                source=row["source"],
                gib=float(row["gib"]) if row["gib"] else None,
                capability=(int(major), int(minor)) if major else None,
                clock=float(row["clock"]) if row["clock"] else None,
                checked=row["checked"],
            )


PEAKS: Final = tuple(_read(Path(__file__).with_name("peaks.csv")))
"""The known products: a row of `peaks.csv` each."""


# --- which product is it


_GENERIC: Final = re.compile(r"^AMD (?:Radeon|Instinct)(?: Graphics)?$")
"""Names that ROCm gives to a device of unknown product; where it cannot read its tables, it gives none."""

_VIRTUAL: Final = re.compile(r"\bvGPU\b|-\d+[CQ]\b")
_MIG: Final = re.compile(r"\s*\bMIG (?P<profile>\dg\.(?P<gb>\d+)gb)\b.*")
"""What NVIDIA adds to the name of a part of a device, as `MIG 3g.20gb`."""

_MEMORY_SLICES: Final = 8
"""Parts into which MIG divides memory and cache; an A30's four are two of these each."""

_GB_IN_NAME: Final = re.compile(r"\b(\d+)\s?GB\b")
_AMD_PARTITIONS: Final = (2, 4, 8)
"""Devices that AMD's partition modes (DPX, QPX, CPX) make of one MI300 or MI350."""

_MEMORY_TOLERANCE: Final = 0.08
"""Difference between a device's memory and its datasheet, as a share: firmware and error correction take some."""

_GIB: Final = 1 << 30


def peak_of(device: Device) -> Lookup:
    """The datasheet's peaks of a device of a trace, by its name, its multiprocessors and its memory."""
    name = device.name or "a device without a name"
    if mig := _MIG.search(device.name):
        return _slice(device, mig)
    if "MIG" in device.name.split() or _VIRTUAL.search(device.name):
        return Lookup(None, f"{name} is a part of a device")
    generic = _GENERIC.match(device.name) is not None if device.name else _is_described(device)
    named = [
        peak for peak in PEAKS
        if (peak.capability is not None and peak.capability == device.capability if generic
            else device.name and re.search(peak.pattern, device.name))
    ]  # fmt: skip
    if not named:
        return Lookup(None, f"no peak is known of {name}")
    variants = [peak for peak in named if _fits(peak, device)] or list(_partitions(named, device))
    if not variants:
        return Lookup(None, f"{name} with {_size(named, device)} is no variant that is known")
    if any(_of_products(peak) != _of_products(variants[0]) for peak in variants):
        return Lookup(None, f"{name} may be {' or '.join(peak.product for peak in variants)}")
    return Lookup(variants[0] if len(variants) == 1 else _merged(variants))


def _is_described(device: Device) -> bool:
    """Does the file have the facts that tell products of one capability apart?"""
    return None not in (device.capability, device.multiprocessors, device.memory)


def _size(named: list[Peak], device: Device) -> str:
    """The size of a device that no variant has: its multiprocessors, else its memory."""
    if device.memory is not None and any(_fits(peak, replace(device, memory=None)) for peak in named):
        return f"{device.memory / _GIB:.1f} GiB of memory"
    return f"{device.multiprocessors} multiprocessors"


def _of_products(peak: Peak) -> dict[str, float]:
    return {name: rate for name, rate in peak.rates.items() if name in PRECISIONS}


def _fits(peak: Peak, device: Device, parts: int = 1) -> bool:
    if None not in (peak.multiprocessors, device.multiprocessors):
        if peak.multiprocessors != (device.multiprocessors or 0) * parts:
            return False
    elif parts > 1:
        return False
    if peak.gib is None or device.memory is None:
        return True
    return abs(device.memory * parts / (peak.gib * _GIB) - 1) <= _MEMORY_TOLERANCE


def _merged(variants: list[Peak]) -> Peak:
    """One record for variants of the same peaks; facts that differ are unknown."""
    first = variants[0]
    same = {name: rate for name, rate in first.rates.items() if all(each.rates.get(name) == rate for each in variants)}
    return replace(first, product=" or ".join(peak.product for peak in variants), rates=same, gib=None)


def _slice(device: Device, mig: re.Match[str]) -> Lookup:
    """The peaks of an instance of MIG: its share of multiprocessors, and of memory slices."""
    whole_name = device.name[: mig.start()]
    gb = _GB_IN_NAME.search(whole_name)
    whole = peak_of(replace(device, name=whole_name, multiprocessors=None, memory=gb and int(gb[1]) * _GIB)).peak
    if not (whole and whole.gib and whole.multiprocessors and device.multiprocessors):
        return Lookup(None, f"{device.name} is a part of a device of which too little is known")
    memory = max(1, round(_MEMORY_SLICES * int(mig["gb"]) / whole.gib))
    of = f"{device.multiprocessors} of {whole.multiprocessors} multiprocessors"
    text = f"{whole.product}, MIG {mig['profile']} ({of}, {memory} of {_MEMORY_SLICES} parts of memory and cache)"
    compute = min(device.multiprocessors / whole.multiprocessors, 1.0)
    return Lookup(_scaled(whole, text, compute, min(memory / _MEMORY_SLICES, 1.0)))


def _partitions(named: list[Peak], device: Device) -> Iterator[Peak]:
    """The device where a partition mode of AMD's made several of one."""
    for peak in named:
        for parts in _AMD_PARTITIONS:
            if peak.product.startswith("MI3") and _fits(peak, device, parts):
                yield _scaled(peak, f"{peak.product}, one of {parts} partitions", 1 / parts, 1 / parts)


def _scaled(whole: Peak, product: str, compute: float, memory: float) -> Peak:
    """A part of a device; it has no link of its own to others."""
    share = {"memory": memory, "cache": memory, "host_link": 1.0}
    rates = {name: rate * share.get(name, compute) for name, rate in whole.rates.items() if name != "link"}
    return replace(whole, product=product, rates=rates, multiprocessors=None, gib=None, clock=None)


# --- of a trace


@derived
def lookups(trace: Trace) -> dict[int, Lookup]:
    """The peaks of each device that the file describes, by its number, with what the user gave."""
    own = trace.source.options.peaks
    return {device.number: with_own(peak_of(device), device.name, own) for device in devices(trace)}


def known_peaks(trace: Trace, number: int) -> Lookup:
    """The peaks of a device (`HOST`: of the host); where the file describes only others that are alike, theirs."""
    own = trace.source.options.peaks
    if number == HOST:
        return with_own(Lookup(None, "no datasheet is known of the host"), HOST_NAME, own)
    known, device = lookups(trace), device_of(trace, number)
    if device is not None:
        return known[device.number]
    if known and len({lookup.peak and lookup.peak.product for lookup in known.values()}) == 1:
        return next(iter(known.values()))
    return with_own(Lookup(None, "the file does not describe the device"), "", own)


def with_own(known: Lookup, name: str, own: OwnPeaks) -> Lookup:
    """The peaks of a device of this name with what the user gave, which counts before all else."""
    in_file: Rates = next((rates for device, rates in own.by_device if device == name), ())
    given = dict((*in_file, *own.given))
    base = known.peak or Peak(f"the {name}" if name == HOST_NAME else name or "the device", "", {}, None, "")
    datasheet = replace(base, rates={**base.rates, **given}) if given else known.peak
    _, measured, remark = next((each for each in own.measured if each[0] == name), (name, (), ""))
    attainable = replace(base, rates={**base.rates, **dict(measured), **given}, source=remark) if measured else None
    chosen = attainable if attainable and (own.attainable or known.peak is None) else datasheet
    return Lookup(
        chosen,
        "" if chosen else known.reason,
        datasheet,
        attainable,
        tuple(given),
        tuple(each for each, _ in measured if each not in given),
        own.attainable and attainable is None,
    )
