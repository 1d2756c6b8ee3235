"""Waves of blocks: how often a kernel fills the device, from the configuration of its launch.

A multiprocessor runs so many blocks at a time as its threads, registers, shared memory and slots allow (NVIDIA's
`cuda_occupancy.h`, CUDA C++ Programming Guide, "Compute Capabilities"). AMD's profilers record no registers.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Floats
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.device.hardware import Device, device_of
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace

_MAX_BLOCKS: Final = {(7, 5): 16, (8, 6): 16, (8, 7): 16, (8, 9): 24, (12, 0): 24, (12, 1): 24}
"""Blocks that a multiprocessor has slots for, by compute capability; the others have 32."""

_SLOTS: Final = 32
_PARTITIONS: Final = 4
"""Parts of a multiprocessor, each with a quarter of its registers and warps."""

_REGISTERS_TOGETHER: Final = 256
"""Registers that a warp is given at a time."""


@derived
def waves(trace: Trace) -> Floats:
    """Waves that the blocks of each kernel need: blocks / those that the device runs at a time: float64 [work].

    It is NaN where the configuration was not recorded, or does not fit the device.
    """
    work = device_work(trace)
    blocks = arguments.floats(trace, "blocks_per_sm", work.rows)
    keys = [arguments.codes(trace, "block", work.rows)]
    keys += [arguments.integers(trace, name, work.rows) for name in ("registers", "shared_memory")]
    codes, first = group(work.device, *keys)
    resident = np.full(len(first), np.nan)
    for place, number, block, registers, shared in zip(
        range(len(first)), work.device[first].tolist(), *(key[first].tolist() for key in keys), strict=True
    ):
        device = device_of(trace, number)
        if device is not None and block >= 0 and registers >= 0 and shared >= 0:
            resident[place] = blocks_at_a_time(device, trace.strings.nested(block), registers, shared) or np.nan
    return blocks / resident[codes] if len(codes) else np.zeros(0)


def blocks_at_a_time(device: Device, block: Any, registers: int, shared: int) -> int:
    """Blocks that a multiprocessor runs at a time; 0 where the file does not tell, or where none fits.

    Args:
        device: where.
        block: threads in x, y and z.
        registers: of a thread.
        shared: bytes of shared memory of a block.
    """
    names = ("maxThreadsPerMultiprocessor", "warpSize", "regsPerMultiprocessor", "sharedMemPerMultiprocessor")
    limits = [device.properties.get(name) for name in names]
    sizes = block if isinstance(block, list) and block else [None]
    is_known = all(isinstance(each, int) and each > 0 for each in [*limits, *sizes])
    if device.capability is None or not is_known:
        return 0
    threads, warp, all_registers, all_shared = (int(each or 0) for each in limits)
    warps = -(-prod(sizes) // warp)
    allowed = [_MAX_BLOCKS.get(device.capability, _SLOTS), threads // warp // warps]
    if registers:
        of_warp = _rounded(registers * warp, _REGISTERS_TOGETHER)
        allowed.append(all_registers // _PARTITIONS // of_warp * _PARTITIONS // _rounded(warps, _PARTITIONS))
    reserved, together = (1024, 128) if device.capability >= (8, 0) else (0, 256)
    if shared + reserved:
        allowed.append(all_shared // _rounded(shared + reserved, together))
    return max(min(allowed), 0)


def _rounded(value: int, unit: int) -> int:
    return -(-value // unit) * unit
