"""Bytes of a device in use after each instant, by the reports of its allocators and the changes that they made.

On the host there are two of them. Torch's allocator says what is in use of its own. Memory that is mapped from a file
or from other processes, as the batches of a data loader's workers are, is reported with 0 in use, and with its size as
reserved when it is mapped: taken literally, the host's memory would drop to nothing for an instant.
"""

from __future__ import annotations

import numpy as np

from kinetoscope.algorithms.arrays import NO_PLACE, Bools, Int32s, Int64s, next_of_same


def levels_in_use(size: Int64s, reported: Int64s, known: Bools) -> Int64s:
    """Bytes in use after each instant of a device, in order of time: int64 [instants].

    Args:
        size: int64 [instants], what was allocated, or freed if negative.
        reported: int64 [instants], bytes in use as the allocator reported them.
        known: bool [instants], whether it did. Where not, the level is counted on from the last instant before at which
            it did, else back from the first one after, else from 0.
    """
    total = np.cumsum(size)
    places = np.flatnonzero(known)
    if len(places):
        nearest = places[np.maximum(np.searchsorted(places, np.arange(len(size)), side="right") - 1, 0)]
        total += reported[nearest] - total[nearest]
    return total


def with_mapped(size: Int64s, reported: Int64s, known: Bools, mapped: Bools, address: Int32s) -> Int64s:
    """Bytes in use where some instants are of mapped memory, which the allocator does not count.

    What was mapped before the recording is what was freed at an address (int32 [instants], negative for none) at
    which nothing was mapped, or what it takes for no more to be freed than there is.
    """
    apart = np.where(mapped, size, 0)
    keys = np.where(mapped, address, np.int32(NO_PLACE))
    strays = mapped & (keys >= 0) & (size < 0)
    following = next_of_same(keys)
    strays[following[(size > 0) & (following >= 0)]] = False
    total = np.cumsum(apart)
    before = min(max(-int(apart[strays].sum()), -int(total.min(initial=0))), np.iinfo(np.int64).max)
    level: Int64s = levels_in_use(size - apart, reported, known & ~mapped) + total + before
    return level


def is_mapped(size: Int64s, reported: Int64s, reserved: Int64s) -> Bools:
    """Instants of the host, in order of time, of mapped memory: bool [instants].

    Freed, mapped memory looks like the last block of torch's allocator. It is that block if it has the size that
    the allocator reported last, and is the first that has.
    """
    mapped: Bools = (reported == 0) & (size > 0) & (reserved == size)
    left = np.flatnonzero(reported != 0)
    zero = np.flatnonzero((reported == 0) & (size < 0))
    before = np.searchsorted(left, zero) - 1
    fits = before >= 0
    fits[fits] = -size[zero[fits]] == reported[left[before[fits]]]
    _, first = np.unique(before[fits], return_index=True)
    mapped[zero] = True
    mapped[zero[np.flatnonzero(fits)[first]]] = False
    return mapped
