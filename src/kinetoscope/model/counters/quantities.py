"""The quantities that counters are of, by their names: one table for all sources.

Names are those of nvidia-smi (`--help-query-gpu`), amd-smi and rocm-smi (CSV), DCGM (fields, and the short heads of
`dcgmi dmon`), the GPU metrics of Nsight Systems, and the metrics of CUPTI's samplers that torch takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from kinetoscope.model.counters.sampled import SampledCounter

Quantity = Literal[
    "power",
    "sm_clock",
    "greatest_sm_clock",
    "sm_active",
    "dram_active",
    "dram_active_part",
    "dram_rate",
    "dram_rate_part",
    "clock_reasons",
]
"""power in W; clocks in MHz; *active* are shares of 1 (of the time, or of what the device can at most); rates are bytes
a second; a part is reading or writing alone; reasons are bits of NVML, those for which a clock is lowered."""

_PERCENT: Final = 0.01
_NAMES: Final[tuple[tuple[Quantity, float, str], ...]] = (
    ("power", 1.0, r"power\.draw(?:\.average|\.instant)?|(?:current_|average_)?socket_power|power_usage"),
    ("power", 1.0, r"(?:Current|Average) (?:Socket )?Graphics Package Power|POWER|DCGM_FI_DEV_POWER_USAGE"),
    ("sm_clock", 1.0, r"clocks(?:\.current)?\.(?:sm|gr|graphics)|gfx(?:_0)?_clk|SMCLK|DCGM_FI_DEV_SM_CLOCK"),
    ("sm_clock", 1.0, r"GPC Clock Frequency"),
    ("sm_clock", 1e-6, r"(?:gpc|sm)__cycles_elapsed\.(?:avg|max)\.per_second"),
    ("greatest_sm_clock", 1.0, r"clocks\.max\.(?:sm|gr|graphics)|DCGM_FI_DEV_MAX_SM_CLOCK|gfx(?:_0)?_max_clk"),
    ("sm_active", 1.0, r"SMACT|DCGM_FI_PROF_SM_ACTIVE"),
    ("sm_active", _PERCENT, r"SMs? Active|sm__cycles_active\.avg\.pct_of_peak_sustained_elapsed"),
    ("dram_active", 1.0, r"DRAMA|DCGM_FI_PROF_DRAM_ACTIVE"),
    ("dram_active", _PERCENT, r"dram__(?:throughput|bytes)\.(?:avg|sum)\.pct_of_peak_sustained_elapsed"),
    ("dram_active_part", _PERCENT, r"DRAM (?:Read|Write) (?:Bandwidth|Throughput)"),
    (
        "dram_active_part",
        _PERCENT,
        r"dram__(?:read_throughput|write_throughput|bytes_read|bytes_write)\.(?:avg|sum)\.pct_of_peak_sustained_elapsed",
    ),
    ("dram_rate", 1.0, r"dram__bytes\.sum\.per_second"),
    ("dram_rate_part", 1.0, r"dram__bytes_(?:read|write)\.sum\.per_second"),
    ("clock_reasons", 1.0, r"clocks_(?:event|throttle)_reasons\.active|DVCCTR"),
    ("clock_reasons", 1.0, r"DCGM_FI_DEV_CLOCK(?:S_EVENT|_THROTTLE)_REASONS"),
)
_PATTERNS: Final = tuple(
    (quantity, scale, re.compile(rf"(?:{names})\s*(?:[(\[].*)?", re.IGNORECASE)) for quantity, scale, names in _NAMES
)
_REASON: Final = re.compile(r"clocks_(?:event|throttle)_reasons\.(\w+)", re.IGNORECASE)
_SCALES: Final = {
    "w": 1.0,
    "mw": 1e-3,
    "mhz": 1.0,
    "ghz": 1e3,
    "hz": 1e-6,
    "%": _PERCENT,
    "throughput %": _PERCENT,
    "kb/s": 1e3,
    "mb/s": 1e6,
    "gb/s": 1e9,
}
"""Values of a unit, in lower case, in that of the quantity."""


@dataclass(frozen=True)
class KnownCounter:
    """A counter of which it is known what it counts: its value times `scale` is in the unit of the quantity."""

    quantity: Quantity
    scale: float
    series: SampledCounter


def known_counter(series: SampledCounter) -> KnownCounter | None:
    """The quantity of a counter; None where its name does not say."""
    for quantity, scale, pattern in _PATTERNS:
        if pattern.fullmatch(series.name):
            return KnownCounter(quantity, _SCALES.get(series.unit.lower(), scale), series)
    return None


def of_device(every: Iterable[SampledCounter], device: int, *quantities: Quantity) -> tuple[KnownCounter, ...]:
    """The counters of a device that are of the first of these quantities that it has; () for none."""
    own = [each for each in map(known_counter, every) if each is not None and each.series.device == device]
    for quantity in quantities:
        if chosen := tuple(each for each in own if each.quantity == quantity):
            return chosen
    return ()


def is_level(series: SampledCounter) -> bool:
    """Has a counter values of which a mean means something? Bits have none."""
    known = known_counter(series)
    return known is None or known.quantity != "clock_reasons"


def limit_of(series: SampledCounter) -> str:
    """The reason for a lower clock that a counter is about, as nvidia-smi spells it; "" for other counters."""
    named = _REASON.fullmatch(series.name)
    return named[1].lower() if named else ""
