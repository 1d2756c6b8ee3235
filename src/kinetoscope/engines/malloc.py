"""The C library's heap, told that this process asks for large arrays again and again.

By default glibc takes every array above 32 MB (and until it has learned, above 128 KB) from the kernel and gives it
back when it is freed. Each rank that is read then faults its pages in anew, and the kernel zeroes them under one lock
of the process: with 64 ranks of 20 MB these are 520,000 faults, and a second thread waits for the first. Kept in the
heap, the memory of one rank serves the next: a tenth of the faults.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys

# malloc.h of glibc.
_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3

# glibc before 2.35 takes no threshold above half a heap of an arena, 32 MB.
_THRESHOLDS = (32 << 20,)
_KEPT = 2 << 30
_PAD = 64 << 20


@functools.cache
def keep_freed_memory() -> None:
    """From now on freed memory stays with this process, up to half a gigabyte; does nothing where libc is not glibc."""
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018 - another libc has no such name, and no such options
        any(libc.mallopt(_M_MMAP_THRESHOLD, size) for size in _THRESHOLDS)
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT)
        libc.mallopt(_M_TOP_PAD, _PAD)
