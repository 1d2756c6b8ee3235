"""The use of a device by its kernels, window by window: utilization, SM efficiency and occupancy come from it."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Floats, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, covered, union
from kinetoscope.algorithms.intervals.sweeps import integrals, overlaps, sum_open
from kinetoscope.model.device.busy import counted_work
from kinetoscope.model.device.tensor_cores import ON_MATRIX_UNIT, UNKNOWN_UNIT, has_matrix_units, kernel_units
from kinetoscope.model.steps.scope import Scope
from kinetoscope.model.trace import arguments, polars_columns
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.notes import Note


@dataclass(frozen=True)
class Kernels:
    """The selected kernels of one device; a float is NaN where the trace does not say.

    Attributes:
        start, end: int64 [kernels], ns.
        blocks: float64 [kernels], blocks per multiprocessor.
        occupancy: float64 [kernels], estimated achieved occupancy, 0 to 1.
        computes: bool [kernels], is computation, no communication.
        has_units: has the device matrix units?
        matrix, unknown: bool [kernels], computes on a matrix unit; its name does not tell.
    """

    start: Int64s
    end: Int64s
    blocks: Floats
    occupancy: Floats
    computes: Bools
    matrix: Bools
    unknown: Bools
    has_units: bool

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class DeviceUse:
    """The use of a device in each window; windows are disjoint and in order.

    Attributes:
        length: int64 [windows], ns.
        busy: int64 [windows], time with a kernel running, ns.
        time: int64 [windows], of computation, each of several kernels at a time counted, ns.
        filled: float64 [windows], integral of min(1, blocks per multiprocessor of all that run), ns; NaN if no kernel's
            are known.
        occupied: float64 [windows], integral of the occupancies of all that run, ns.
        occupancy_time: int64 [windows], `time` of kernels whose occupancy is known, ns.
        matrix, unknown: int64 [windows], `time` of those kernels, ns.
        named: int64 [windows], `time` of the others that are not unknown, ns; 0 on a device without matrix units.
    """

    length: Int64s
    busy: Int64s
    time: Int64s
    filled: Floats
    occupied: Floats
    occupancy_time: Int64s
    matrix: Int64s
    unknown: Int64s
    named: Int64s

    def in_all(self) -> DeviceUse:
        """The use in all windows together, as one window."""
        return DeviceUse(*(getattr(self, field.name).sum(keepdims=True) for field in fields(self)))

    def shares(self) -> dict[str, pl.Series]:
        """Shares of each window, null where nothing is known: columns of the analyses."""
        return {
            "utilization": _share(self.busy, self.length),
            "sm_efficiency": _share(self.filled, self.length),
            "occupancy": _share(self.occupied, self.occupancy_time),
            "matrix_unit_share": _share(self.matrix, self.named),
            "unknown_share": _share(self.unknown, self.time),
        }


def _share(part: Int64s | Floats, whole: Int64s) -> pl.Series:
    return polars_columns.numbers(part / np.where(whole > 0, whole, np.nan))


def kernels_of(view: Scope, device: int) -> Kernels:
    """The selected kernels of a device, without copies and sets."""
    work = view.device_work
    chosen = counted_work(view) & (work.device == device) & work.of(WorkKind.COMPUTATION, WorkKind.COMMUNICATION)
    rows = work.rows[chosen]
    blocks = arguments.floats(view.trace, "blocks_per_sm", rows)
    occupancy = arguments.floats(view.trace, "occupancy", rows) / 100
    blocks[~(blocks >= 0)] = np.nan
    occupancy[~((occupancy >= 0) & (occupancy <= 1))] = np.nan
    unit = kernel_units(view.trace)[chosen]
    computes = work.of(WorkKind.COMPUTATION)[chosen]
    return Kernels(
        start=work.start[chosen],
        end=work.end[chosen],
        blocks=blocks,
        occupancy=occupancy,
        computes=computes,
        matrix=computes & (unit == ON_MATRIX_UNIT),
        unknown=computes & (unit == UNKNOWN_UNIT),
        has_units=has_matrix_units(view.trace, device),
    )


def use_of(kernels: Kernels, windows: Intervals) -> DeviceUse:
    """The use of a device by kernels in each window (disjoint, in order; they may touch)."""
    edges = np.stack([windows.start, windows.end], axis=1).ravel()

    def time(chosen: Bools) -> Int64s:
        return overlaps(kernels.start[chosen], kernels.end[chosen], edges)[::2]

    def weighted(weight: Floats, most: float) -> Floats:
        # Beyond 1 blocks make no difference, and sums of smaller numbers are finer.
        known = np.where(np.isnan(weight), 0.0, np.minimum(weight, 1.0))
        curve = sum_open(np.zeros(len(kernels), np.int32), kernels.start, kernels.end, known)
        return integrals(curve._replace(level=np.minimum(curve.level, most)), edges)[::2]

    filled = weighted(kernels.blocks, 1.0)
    if len(kernels) and np.isnan(kernels.blocks).all():
        filled = np.full(len(filled), np.nan)
    return DeviceUse(
        length=windows.end - windows.start,
        busy=covered(windows, union(kernels.start, kernels.end)),
        time=time(kernels.computes),
        filled=filled,
        occupied=weighted(kernels.occupancy, np.inf),
        occupancy_time=time(~np.isnan(kernels.occupancy)),
        matrix=time(kernels.matrix),
        unknown=time(kernels.unknown),
        named=time(kernels.computes & ~kernels.unknown) * kernels.has_units,
    )


def fill_notes(kernels: Kernels, device: int) -> list[Note]:
    """Notes on kernels that SM efficiency and occupancy leave out because it was not recorded."""
    notes = []
    for values, what in ((kernels.blocks, "blocks per multiprocessor"), (kernels.occupancy, "occupancy")):
        missing = int(np.isnan(values).sum())
        if missing == len(kernels) and missing:
            notes.append(
                Note(
                    "NO_OCCUPANCY", f"No kernel has {what}: this device or version of the profiler does not record it."
                )
            )
        elif missing:
            effect = "count as empty" if values is kernels.blocks else "are left out of the mean"
            notes.append(
                Note(
                    "OCCUPANCY_MISSING",
                    f"{missing:,} of {len(kernels):,} kernels on device {device} have no {what} and {effect}.",
                )
            )
    return notes
