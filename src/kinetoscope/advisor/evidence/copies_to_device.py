"""Copies from the host's memory to a device's: how the host asked for each, and whether it waited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.advisor.rule import RankView
from kinetoscope.algorithms.arrays import Bools, Floats, Int32s, Int64s
from kinetoscope.algorithms.grouping import match_first
from kinetoscope.algorithms.intervals.intervals import Intervals, union
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.device.copies import copies
from kinetoscope.model.device.hardware import devices
from kinetoscope.model.execution.call_tree import enclosing_op
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, copies_named, runtime_call_kinds
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

QUEUED_BYTES: Final = 1 << 16
"""Size from which on the device makes a copy from pageable memory itself, while the host waits. The driver queues
smaller ones."""

_TO_DEVICE: Final = "HtoD"

_QUEUEING: Final = 6_000
"""ns that a call takes that only queues a copy."""


@dataclass(frozen=True)
class ToDevice:
    """The copies of the whole trace from the host to devices whose call was recorded, in file order.

    Attributes:
        work: int32 [copies], place in `device_work` of each.
        call: int32 [copies], row of the call that queued it.
        op: int32 [copies], row of the operator around that, −1 for none.
        wait: int32 [copies], row of the call in which the host then waits for it: the next one in the same operator
            that waits for a stream, or the call itself if it waits; −1 for none.
        bytes: int64 [copies], −1 where the trace does not say.
        pageable, pinned: bool [copies], what the trace says of the host's memory; neither where it says nothing (ROCm).
    """

    work: Int32s
    call: Int32s
    op: Int32s
    wait: Int32s
    bytes: Int64s
    pageable: Bools
    pinned: Bools

    def __len__(self) -> int:
        return len(self.work)


@derived
def copies_to_device(trace: Trace) -> ToDevice:
    """Find them."""
    every, work = copies(trace), device_work(trace)
    wanted = every.directions.index(_TO_DEVICE) if _TO_DEVICE in every.directions else -1
    mine = (every.direction == wanted) & (work.launch[every.work] >= 0)
    place, size = every.work[mine], every.bytes[mine]
    call = work.launch[place]
    op = enclosing_op(trace)[call]
    pageable, pinned = (copies_named(trace, (word,))[work.rows[place]] for word in ("ageable", "inned"))
    wait = _waits(trace, call, op)
    return ToDevice(place, call, op, wait, size, pageable, pinned)


def _waits(trace: Trace, call: Int32s, op: Int32s) -> Int32s:
    kinds = runtime_call_kinds(trace)
    streams = np.flatnonzero(np.isin(kinds, (RuntimeCallKind.WAIT_FOR_STREAM, RuntimeCallKind.WAIT_FOR_DEVICE))).astype(
        np.int32
    )
    streams = streams[np.argsort(trace.start[streams], kind="stable")]
    around = enclosing_op(trace)[streams]
    streams, around = streams[around >= 0], around[around >= 0]
    waiting_calls = np.full(len(call), -1, np.int32)
    if len(streams) and len(call):
        place = match_first(op.astype(np.int64), around.astype(np.int64))
        later = (place >= 0) & (op >= 0) & (trace.start[streams[place]] >= trace.start[call])
        waiting_calls[later] = streams[place[later]]
    itself = kinds[call] == RuntimeCallKind.COPY_AND_WAIT
    return np.where((waiting_calls < 0) & itself, call, waiting_calls).astype(np.int32)


def selected(rank: RankView, to_device: ToDevice) -> Bools:
    """Copies of the selected steps: bool [copies]."""
    return np.asarray(rank.scope.device_work_mask[to_device.work])


def no_waiting(rank: RankView, factors: Factors, to_device: ToDevice, which: Int64s) -> None:
    """The host no longer waits for these copies: their calls only queue them, and what waits for them goes."""
    trace = rank.trace
    call, wait = to_device.call[which], to_device.wait[which]
    took = np.maximum(trace.end[call] - trace.start[call], 1)
    factors.free[call] = factors.free[wait[wait >= 0]] = True
    factors.host[wait[wait >= 0]] = 0.0
    factors.host[call] = np.minimum(_QUEUEING / took, 1.0)


def waited(rank: RankView, to_device: ToDevice, which: Int64s) -> Intervals:
    """When the host is in the calls of these copies, or in those that wait for them: a union, ns."""
    wait = to_device.wait[which]
    return rank.spans(np.union1d(to_device.call[which], wait[wait >= 0]))


def running(rank: RankView, to_device: ToDevice, which: Int64s, share: float | Floats = 1.0) -> Intervals:
    """When these copies run on the device, or the first part of each, such a share of it: a union, ns."""
    place = to_device.work[which]
    start, end = rank.work.start[place], rank.work.end[place]
    return union(start, start + np.rint((end - start) * share).astype(np.int64))


# --- how fast they could be


def at_rate(rank: RankView, factors: Factors, to_device: ToDevice, which: Int64s, rate: float) -> None:
    """These copies take as long as their bytes do at a rate, bytes a ns, if that is shorter than now."""
    place = to_device.work[which]
    took = np.maximum(rank.work.end[place] - rank.work.start[place], 1)
    factors.work[place] = np.where(
        to_device.bytes[which] > 0, np.clip(to_device.bytes[which] / rate / took, 0.0, 1.0), 1.0
    )


_LINKS: Final = (
    (("GH200", "GB200", "GB300"), 380.0),
    (("B200", "B300", "B100", "H100", "H200", "H20", "H800", "MI300", "MI325", "MI350", "MI355", "RTX 50"), 57.0),
    (("A100", "A800", "A10", "A30", "A40", "A2", "A6000", "L4", "RTX 30", "RTX 40", "6000 Ada", "MI2"), 26.5),
    (("V100", "T4", "P100", "P40", "RTX 20", "TITAN", "GTX", "MI50", "MI60", "MI100"), 13.2),
)
"""What a copy from pinned memory reaches at most, bytes a ns, by the generation of the link that devices have."""

_MIN_COPIES: Final = 3
"""Large copies from which on their rate is the link's."""

SLOWEST_LINK: Final = 11.0
"""What a copy from pinned memory reaches at least in a machine that has such a device: PCI Express 3.0, 16 lanes."""


def link_rate(rank: RankView, to_device: ToDevice) -> tuple[float, float]:
    """The rate of copies from pinned memory on this machine, at least and at most: bytes a ns.

    Where the trace has large copies from pinned memory they say it, give or take a fifth; else the devices' names do.
    """
    rates = _rates(rank, to_device)
    if len(rates):
        return 0.8 * float(np.median(rates)), 1.2 * float(np.median(rates))
    names = [device.name for device in devices(rank.trace)]
    known = [rate for words, rate in _LINKS for name in names if any(word in name for word in words)]
    return SLOWEST_LINK, max(known[:1] or [60.0])


def is_rate_shown(rank: RankView, to_device: ToDevice) -> bool:
    """Does the trace itself say how fast copies from pinned memory are?"""
    return len(_rates(rank, to_device)) > 0


def _rates(rank: RankView, to_device: ToDevice) -> Floats:
    """Rates of large copies from pinned memory, bytes a ns; none where there are fewer than three."""
    took = (rank.work.end - rank.work.start)[to_device.work]
    large = to_device.pinned & (to_device.bytes >= 1 << 20) & (took > 0)
    return to_device.bytes[large] / took[large] if large.sum() >= _MIN_COPIES else np.empty(0)
