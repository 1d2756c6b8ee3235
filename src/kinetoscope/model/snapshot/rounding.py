"""How the caching allocator rounds what is requested (`round_size`), and what it asks of the device for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.caching_allocator import (
    LARGE_SEGMENT_BYTES,
    MIN_BLOCK_BYTES,
    OWN_SEGMENT_BYTES,
    SEGMENT_ROUNDING_BYTES,
    SMALL_BYTES,
    SMALL_SEGMENT_BYTES,
)

DIVISION_SIZES: Final = 16
_FIRST_DIVISION_BITS: Final = 20
"""`roundup_power2_divisions` has a number for each power of two from 1 MiB to 32 GiB (AllocatorConfig.h)."""


def divisions_of(settings: Mapping[str, Any]) -> Int64s:
    """`roundup_power2_divisions` of the settings: int64 [16], 0 or 1 where sizes are not rounded so."""
    given = settings.get("roundup_power2_divisions")
    divisions = np.zeros(DIVISION_SIZES, np.int64)
    if isinstance(given, Mapping):
        for key, value in given.items():
            megabytes = int(key) if str(key).isdecimal() else 0
            if megabytes > 0 and isinstance(value, int) and 0 <= value <= MIN_BLOCK_BYTES:
                divisions[min(megabytes.bit_length() - 1, DIVISION_SIZES - 1)] = value
    return divisions


def rounded(size: Int64s, settings: Mapping[str, Any]) -> Int64s:
    """Bytes that the allocator takes for requests of `size` bytes: int64, before a rest that is not split off."""
    size = np.maximum(size, 1)
    plain = (size + MIN_BLOCK_BYTES - 1) // MIN_BLOCK_BYTES * MIN_BLOCK_BYTES
    divisions = divisions_of(settings)
    if not (divisions > 1).any():
        return plain
    bits = np.frexp(size.astype(np.float64))[1].astype(np.int64) - 1  # floor of log2, sizes are below 2^53
    parts = divisions[np.clip(bits - _FIRST_DIVISION_BITS, 0, DIVISION_SIZES - 1)]
    step = np.left_shift(1, bits) // np.maximum(parts, 1)
    divided = (size + step - 1) // np.maximum(step, 1) * step
    is_divided = (parts > 1) & (size > MIN_BLOCK_BYTES * parts) & (step > 0)
    return np.where(is_divided, divided, plain)


def segment_bytes(size: int) -> int:
    """Bytes that are asked of the device where no cached block fits a rounded size."""
    if size <= SMALL_BYTES:
        return SMALL_SEGMENT_BYTES
    if size < OWN_SEGMENT_BYTES:
        return LARGE_SEGMENT_BYTES
    return -(-size // SEGMENT_ROUNDING_BYTES) * SEGMENT_ROUNDING_BYTES
