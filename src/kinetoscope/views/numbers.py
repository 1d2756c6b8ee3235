"""Numbers for people: three significant digits, one unit for a column, commas between thousands.

Only views round. What must be exact is in `Result.frame` and in the files.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kinetoscope.schema import Unit

MISSING = "–"

Number = int | float


@dataclass(frozen=True, slots=True)
class Scale:
    """A unit to show numbers in: its label, and how many stored units make one of it."""

    label: str
    divisor: float = 1.0

    def text(self, value: Number | None) -> str:
        """`value`, in stored units, as a number of this scale, without the label."""
        if value is None or value != value:
            return MISSING
        if self.divisor == 1.0 and isinstance(value, int):
            return grouped(value)
        return significant(value / self.divisor)

    def with_unit(self, value: Number | None) -> str:
        """`value` with the label: `12.3 ms`, `42.3%`."""
        number = self.text(value)
        if number == MISSING or not self.label:
            return number
        return number + ("%" if self.label == "%" else f"\u00a0{self.label}")


_SCALES: dict[Unit, tuple[Scale, ...]] = {
    "": (Scale(""),),
    "ns": (Scale("ns"), Scale("µs", 1e3), Scale("ms", 1e6), Scale("s", 1e9)),
    "bytes": (Scale("B"), Scale("kB", 1e3), Scale("MB", 1e6), Scale("GB", 1e9), Scale("TB", 1e12)),
    "bytes/s": (Scale("B/s"), Scale("kB/s", 1e3), Scale("MB/s", 1e6), Scale("GB/s", 1e9), Scale("TB/s", 1e12)),
    "flop": (Scale("FLOP"), Scale("kFLOP", 1e3), Scale("MFLOP", 1e6), Scale("GFLOP", 1e9), Scale("TFLOP", 1e12)),
    "flop/s": (Scale("FLOP/s"), Scale("MFLOP/s", 1e6), Scale("GFLOP/s", 1e9), Scale("TFLOP/s", 1e12)),
    "fraction": (Scale("%", 0.01),),
}

# A number may have this many of a unit before the next larger unit is taken, whatever the rest of the column says.
_MAX_SHOWN = 1e5


def scale(values: Sequence[Number | None], unit: Unit) -> Scale:
    """The scale in which a column of `values` reads best.

    It is the largest unit that is no larger than the geometric mean of the greatest and the middle value, so that
    one long row does not turn all others into zeros.
    """
    scales = _SCALES[unit]
    sizes = sorted(abs(value) for value in values if value is not None and math.isfinite(value) and value != 0)
    if len(scales) == 1 or not sizes:
        return scales[0]
    largest, typical = sizes[-1], math.sqrt(sizes[-1] * sizes[len(sizes) // 2])
    chosen = [each for each in scales if each.divisor <= typical * (1 + 1e-9)][-1:] or scales[:1]
    place = scales.index(chosen[0])
    while largest / scales[place].divisor >= _MAX_SHOWN and place + 1 < len(scales):
        place += 1
    return scales[place]


def shown(value: Number | None, unit: Unit) -> str:
    """One number with the unit that suits it, for a sentence: `12.3 ms`, `42.3%`, `1,234`."""
    return scale([value], unit).with_unit(value)


def grouped(value: int) -> str:
    """An integer with commas between thousands."""
    return f"{value:,}"


def significant(value: float) -> str:
    """Three significant digits, never an exponent; what is smaller than 0.001 only says so."""
    if value == 0:
        return "0"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    size = abs(value)
    if size < 0.001:
        return "<0.001" if value > 0 else ">-0.001"
    if size >= 999.5:
        return grouped(round(value))
    rounded = float(f"{value:.2e}")
    return f"{rounded:.{2 - math.floor(math.log10(abs(rounded)))}f}"
