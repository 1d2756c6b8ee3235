"""Template → file: each copy is put together by one compiled loop and goes out as it is done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.marking import Form
from benchmarks.template import Template, last_event
from benchmarks.variety import Pool
from kinetoscope.algorithms.compiled import compiled, inlined

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["chunks", "opened", "size_of_copy", "zstd"]

_INTEGER, _MICROSECONDS, _THREE, _SHORT, _TEXT = (int(form) for form in Form)
_DIGITS = 24  # more than an int64, a sign, a point and a filled-up fraction take

Bytes = NDArray[np.uint8]
Int64s = NDArray[np.int64]


def chunks(template: Template, copies: int) -> Iterator[bytes | memoryview]:
    """The text of a trace of `copies` copies, piece by piece. A piece is valid until the next one is asked for."""
    yield template.head
    body, pools = template.body, _Texts(template.pools)
    out = np.empty(body.literals.size + _DIGITS * body.form.size + pools.longest_copy, np.uint8)
    for copy in range(copies):
        moved = np.array(template.strides or (0,), np.int64) * copy
        size = _fill(out, body.literals, body.end, body.form, body.space, body.value, moved, copy, *pools.arrays)
        yield out[2 if copy == 0 and template.first else 0 : size].data
    separator = b"" if template.first and not template.events[1] else b",\n"
    for event in template.last:
        yield separator + last_event(event, template.window * (copies - 1), template.style)
        separator = b",\n"
    yield template.tail


def size_of_copy(template: Template) -> int:
    """Bytes of JSON that the first copy takes; later ones differ by some digits."""
    parts = chunks(template, 1)
    next(parts)
    return len(next(parts))


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """`path` for writing: `.gz` and `.zst` are compressed at a fast level, to the same bytes each time."""
    with path.open("wb") as plain:
        if path.suffix == ".gz":
            from isal import igzip

            packer: Any = igzip.IGzipFile
            with packer(filename="", mode="wb", compresslevel=2, fileobj=plain, mtime=0) as packed:
                yield packed
        elif path.suffix == ".zst":
            with zstd.ZstdFile(plain, "wb", level=1) as packed:
                yield packed
        else:
            yield plain


class _Texts:
    """Pools as arrays: all texts in a row, where each ends, and of each pool the first text, the texts, the slots."""

    def __init__(self, pools: tuple[Pool, ...]) -> None:
        texts = [text for pool in pools for text in pool.texts]
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        counts = np.array([len(pool.texts) for pool in pools] or [0], np.int64)
        slots = np.array([pool.slots for pool in pools] or [0], np.int64)
        self.arrays = np.frombuffer(b"".join(texts) + b"\0", np.uint8), ends, np.cumsum(counts) - counts, counts, slots
        self.longest_copy = sum(pool.slots * max(map(len, pool.texts)) for pool in pools)


@compiled
def _fill(
    out: Bytes,
    literals: Bytes,
    end: Int64s,
    form: Int64s,
    space: Int64s,
    value: Int64s,
    moved: Int64s,
    copy: int,
    texts: Bytes,
    text_end: Int64s,
    pool_first: Int64s,
    pool_texts: Int64s,
    pool_slots: Int64s,
) -> int:
    """Writes one copy into `out`, which has room for it; returns its length."""
    at, taken = 0, 0
    for slot in range(end.size):
        while taken < end[slot]:
            out[at] = literals[taken]
            at += 1
            taken += 1
        where = space[slot]
        if form[slot] == _TEXT:
            number = pool_first[where] + (value[slot] + copy * pool_slots[where]) % pool_texts[where]
            for byte in range(text_end[number], text_end[number + 1]):
                out[at] = texts[byte]
                at += 1
        else:
            at = _number(out, at, value[slot] + moved[where], form[slot])
    while taken < literals.size:
        out[at] = literals[taken]
        at += 1
        taken += 1
    return at


@inlined
def _number(out: Bytes, at: int, number: int, form: int) -> int:
    """Writes `number` at `at`; returns where it ends. A value in ns becomes microseconds."""
    if number < 0:
        out[at] = 45
        at += 1
        number = -number
    fraction = -1
    if form != _INTEGER:
        fraction = number % 1000
        number //= 1000
    digits = 1
    power = 10
    while digits < 19 and number >= power:
        digits += 1
        power *= 10
    for place in range(at + digits - 1, at - 1, -1):
        out[place] = 48 + number % 10
        number //= 10
    at += digits
    if form >= _THREE:
        out[at] = 46
        out[at + 1] = 48 + fraction // 100
        out[at + 2] = 48 + fraction // 10 % 10
        out[at + 3] = 48 + fraction % 10
        at += 4
        while form == _SHORT and out[at - 1] == 48 and out[at - 2] != 46:
            at -= 1
    return at
