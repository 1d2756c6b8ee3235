"""How much of a device's memory a rank uses, as the rules about memory see it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.advisor.rule import RankView
from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.model.device.hardware import devices
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.memory.allocator import HOST, memory_instants
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_containing
from kinetoscope.model.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """The memory of one device, in bytes, over the whole recording.

    Attributes:
        device: as torch names it, `cuda:0`.
        total: what the device has; 0 where the file does not say.
        peak: most that was allocated; reserved: what the allocator had reserved then, −1 where the file does not say.
        most_reserved: most that the allocator had reserved; −1 where the file does not say.
        floor: what is allocated between steps: weights, the optimizer's state.
        row: the event after which the peak was reached.
    """

    device: str
    total: int
    peak: int
    reserved: int
    most_reserved: int
    floor: int
    row: int


def memory_use(rank: RankView) -> list[MemoryUse]:
    """The use of each device whose allocator said how much was in use; not of the host."""
    trace, instants = rank.trace, memory_instants(rank.trace)
    total = {device.number: device.memory or 0 for device in devices(trace)}
    ends = rank.scope.steps.host.end
    uses = []
    for device, (kind, number) in enumerate(instants.devices):
        here = instants.of_device(device)
        if kind == HOST or instants.counted[device] or not len(here):
            continue
        level, time = instants.allocated[here], instants.time[here]
        highest = int(level.argmax())
        last = np.searchsorted(time, ends, side="left") - 1
        between = level[last[last >= 0]]
        uses.append(
            MemoryUse(
                device=instants.device_name(device),
                total=total.get(number, 0),
                peak=int(level[highest]),
                reserved=int(instants.reserved[here[highest]]),
                most_reserved=int(instants.reserved[here].max()),
                floor=int(min(between.min(initial=level[highest]), level.min())),
                row=int(instants.rows[here[highest]]),
            )
        )
    return uses


def allocator_calls(trace: Trace) -> Int64s:
    """Rows of calls that allocate memory of a device, or pinned memory, from the driver, or free it.

    Those that allocate from a pool of the driver's own (`cudaMallocAsync`) are cheap, and left out.
    """
    allocating = np.isin(runtime_call_kinds(trace), (RuntimeCallKind.ALLOCATE, RuntimeCallKind.FREE))
    pooled = rows_containing(trace, ("Async",), EventKind.RUNTIME)
    return np.flatnonzero(allocating & ~pooled)


def in_steady_state(rank: RankView, rows: Int64s) -> Int64s:
    """The calls of the selected steps, if some are in the later half of them: at the beginning, pools only fill up."""
    rows = rows[rank.scope.host_mask[rows]]
    begins = rank.scope.steps.host.start
    later = rows[rank.trace.start[rows] >= begins[len(begins) // 2]] if len(begins) else rows[:0]
    steps = np.unique(np.searchsorted(begins, rank.trace.start[later], side="right"))
    enough = len(begins) > 1 and len(steps) >= max(1, (len(begins) - len(begins) // 2) // 4)
    return rows if enough else rows[:0]
