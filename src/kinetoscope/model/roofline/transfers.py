"""Device work that has its cost as it is: copies over a link or within a memory, sets of memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from kinetoscope.algorithms.arrays import Int32s
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.device.copies import SET, UNKNOWN_DIRECTION, copies
from kinetoscope.model.trace.trace import Trace

Link = Literal["none", "host", "device", "network"]
"""What bytes pass: the memory of the device itself, its link to the host, to other devices, to other hosts."""

_WITHIN: Final[dict[str, int]] = {"DtoD": 2, SET: 1}
"""Directions that stay in a device's memory, and how often it is read or written for each byte."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """Transfers of a name and size.

    Attributes:
        name: the direction of a copy, or memset.
        bytes: that pass the link; within a memory those read and those written.
        link: what they pass.
    """

    name: str
    bytes: int
    link: Link


@dataclass(frozen=True)
class TransfersOfWork:
    """The transfers of a trace.

    Attributes:
        code: int32 [work], place in `kinds`, −1 for work that is none.
        kinds: the distinct ones.
    """

    code: Int32s
    kinds: tuple[Transfer, ...]


def transfers(trace: Trace, call: Int32s) -> TransfersOfWork:
    """The device work that is a transfer: copies between memories, and within one those that no call accounts for.

    call: int32 [work], the call that each piece is charged to, −1 for none.
    """
    every = copies(trace)
    is_within = np.array([name in _WITHIN for name in every.directions], np.bool_)[every.direction]
    is_known = np.array([name != UNKNOWN_DIRECTION for name in every.directions], np.bool_)[every.direction]
    chosen = np.flatnonzero(is_known & (every.bytes >= 0) & (~is_within | (call[every.work] < 0)))
    codes, first = group(every.direction[chosen].astype(np.int64), every.bytes[chosen])
    code = np.full(len(call), -1, np.int32)
    code[every.work[chosen]] = codes
    return TransfersOfWork(code, tuple(
        _transfer(every.directions[every.direction[place]], int(every.bytes[place])) for place in chosen[first].tolist()
    ))  # fmt: skip


def _transfer(direction: str, nbytes: int) -> Transfer:
    if direction in _WITHIN:
        return Transfer(direction, _WITHIN[direction] * nbytes, "none")
    return Transfer(direction, nbytes, "device" if direction == "PtoP" else "host")
