"""Gathered blocks are those that a plain walk reads; damage is passed over, and cannot take long."""

from __future__ import annotations

import struct
import time
import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.checked_blocks import gather

MAGIC = b"\x93KH\n"
LONGEST = 300


def block(kind: int, size: int, body: bytes) -> bytes:
    counts = struct.pack("<HHI", kind, size, len(body) // size)
    return MAGIC + counts + struct.pack("<I", zlib.crc32(counts + body)) + body


def plainly(content: bytes) -> tuple[bytes, list[int], int, int]:
    at, records, others, whole = 0, b"", [], 0
    unsure = None
    while at < len(content):
        here = content[at : at + 16]
        if not here.startswith(MAGIC[: len(here)]):
            at += 1
            continue
        kind, size, count = struct.unpack("<HHI", here[4:12]) if len(here) == 16 else (0, 1, LONGEST)
        end = at + 16 + size * count
        if len(here) < 16 or (end > len(content) and 0 < size * count <= LONGEST):
            unsure = at if unsure is None else unsure
            at += 1
            continue
        body = content[at + 16 : end]
        if not 0 < size * count <= LONGEST or zlib.crc32(here[4:12] + body) != struct.unpack("<I", here[12:])[0]:
            at += 1
            continue
        if (kind, size) == (2, 5):
            records += body
        else:
            others.append(at)
        whole, unsure, at = whole + end - at, None, end
    return records, others, whole, len(content) if unsure is None else unsure


def gathered(content: bytes) -> tuple[bytes, list[int], int, int]:
    found = gather(np.frombuffer(content, np.uint8), MAGIC, 2, 5, LONGEST)
    return found.records.tobytes(), found.others.tolist(), found.whole, found.until


BLOCKS = st.tuples(
    st.sampled_from([(2, 5), (3, 1), (2, 4)]), st.integers(1, 40), st.randoms(use_true_random=False)
).map(lambda drawn: block(*drawn[0], drawn[2].randbytes(drawn[0][1] * drawn[1])))
DAMAGE = st.sampled_from([b"", MAGIC, MAGIC[:3], b"\0", MAGIC + struct.pack("<HHI", 2, 5, 9), MAGIC * 5])


@given(st.lists(st.one_of(BLOCKS, DAMAGE), max_size=8), st.integers(0, 500), st.integers(0, 500), st.integers(0, 255))
def test_as_a_plain_walk(parts: list[bytes], cut: int, at: int, other: int) -> None:
    content = bytearray(b"".join(parts))
    assert gathered(bytes(content)) == plainly(bytes(content))
    if at < len(content):
        content[at] = other
    content = content[:cut]
    assert gathered(bytes(content)) == plainly(bytes(content))


def test_more_blocks_than_a_walk_has_room_for() -> None:
    content = block(3, 1, b"ab") * 5000 + MAGIC
    records, others, whole, until = gathered(content)
    assert (records, len(others), whole, until) == (b"", 5000, 18 * 5000, 18 * 5000)


def test_what_claims_much_again_and_again_is_not_summed_for_ever() -> None:
    claims = (MAGIC + struct.pack("<HHII", 2, 1, 1 << 22, 0)) * (1 << 19)
    began = time.process_time()
    found = gather(np.frombuffer(claims, np.uint8), MAGIC, 2, 5, 1 << 24)
    assert not found.records.size
    assert time.process_time() - began < 60  # it would be hours
