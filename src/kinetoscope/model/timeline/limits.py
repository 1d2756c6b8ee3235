"""How near to the limits of its device an event of the timeline ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s
from kinetoscope.model.device.waves import waves
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.roofline.floors import BOUNDS, floors
from kinetoscope.model.roofline.group_floors import group_floors
from kinetoscope.model.trace.trace import Trace

_MAX_WORK_WITH_FLOORS: Final = 1_000_000
"""Pieces of device work up to which floors are looked for: that takes half a second the first time."""


@dataclass(frozen=True, slots=True)
class EventLimit:
    """The limit of an event on the device; what is unknown is None.

    Attributes:
        floor: time that its arithmetic and traffic take at the device's peaks, ns; kernels share that of their call.
        efficiency: floor / time of the device work that has one.
        bound: what most of its longest piece of device work is bound by.
        waves: of a kernel, its blocks / those that the device runs at a time.
    """

    floor: int | None
    efficiency: float | None
    bound: str | None
    waves: float | None


def event_limit(trace: Trace, row: int, launched: Int32s) -> EventLimit | None:
    """The limit of the device work at a row, or of a call that launched some (places in `device_work`)."""
    work = device_work(trace)
    if len(work) > _MAX_WORK_WITH_FLOORS:
        return None
    own = np.flatnonzero(work.rows == row)
    places = own if len(own) else launched.astype(np.int64)
    if not len(places):
        return None
    columns = group_floors(trace, np.zeros(len(places), np.int32), 1, places, work.duration[places])
    limits, longest = floors(trace), int(places[work.duration[places].argmax()])
    bound, blocks = int(limits.bound[limits.unit[longest]]), float(waves(trace)[longest])
    floor, efficiency = columns["floor"][0], columns["efficiency"][0]
    count = blocks if len(own) and not np.isnan(blocks) else None
    return EventLimit(floor, efficiency, BOUNDS[bound] if bound >= 0 else None, count)
