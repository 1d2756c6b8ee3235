"""The file of a process's history: blocks, each of which was appended by one `write`.

    magic   4 bytes
    kind    u16       1: the head, JSON; 2: steps; 3: marks, JSON
    size    u16       bytes of a record; 1 of JSON
    count   u32       records
    crc     u32       CRC-32 of kind, size and count, and of the body
    body    size × count bytes

The head is the first block: {format, run, rank, world, attempt, host, local_rank, pid, began, fields}. Its `fields` say
what a record of a step consists of, in order: name, code of `struct`, and the factor by which a number is multiplied.
NaN, or the highest integer, is what is not known. A mark is [kind, detail, step, start, end].

What lacks bytes at the end of a file is not there yet: nothing is appended behind it. Imports nothing but the standard
library, as the job and the reader use it.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

FORMAT: Final = "kinetoscope.history/1"

FOLDER: Final = "history"
"""The folder of these files in that of a run."""

ENDING: Final = ".history"

MAGIC: Final = b"\x93KH\n"
HEAD_BLOCK, STEPS_BLOCK, MARKS_BLOCK = 1, 2, 3
HEAD_BYTES: Final = 16
"""Bytes of a block before its body."""

MAX_BODY: Final = 1 << 24
"""Bytes of a body; a longer one is damage."""

_COUNTS: Final = struct.Struct("<HHI")
_CRC: Final = struct.Struct("<I")

FIELDS: Final[Sequence[tuple[str, str, int]]] = (
    ("start", "q", 1),
    ("duration", "f", 1),
    ("data", "f", 1),
    ("forward", "f", 1),
    ("backward", "f", 1),
    ("optimizer", "f", 1),
    ("device", "f", 1),
    ("memory_used", "I", 512),
    ("memory_reserved", "I", 512),
    ("resident", "I", 1024),
    ("samples", "I", 1),
    ("step", "I", 1),
)
"""A record of a step. A duration as float32 is exact to 1 / 16,000,000: to 8 ns of 100 ms."""

RECORD: Final = struct.Struct("<" + "".join(code for _, code, _ in FIELDS))
DEVICE_AT: Final = struct.calcsize("<qfffff")
"""Where the device's time stands in a record: it is known later than the rest."""

UNKNOWN_INTEGER: Final = (1 << 32) - 1
"""An integer that is not known."""

KINDS: Final = ("collection", "save", "evaluation", "compile", "window", "phase", "restart", "end")
"""Kinds of marks."""

Mark = tuple[str, str | None, int, int, int]
"""Kind, detail, step, start and end, ns."""


def block(kind: int, size: int, body: bytes) -> bytes:
    """A block of records of a size."""
    counts = _COUNTS.pack(kind, size, len(body) // size)
    return b"".join((MAGIC, counts, _CRC.pack(zlib.crc32(body, zlib.crc32(counts))), body))


def text_block(kind: int, value: Mapping[str, Any] | Sequence[Mark]) -> bytes:
    """A block of JSON."""
    return block(kind, 1, json.dumps(value).encode())


def block_at(content: bytes, at: int) -> tuple[int, int, bytes] | None:
    """Kind, size and body of the block that begins there; None if it is not whole."""
    if content[at : at + 4] != MAGIC or len(content) < at + HEAD_BYTES:
        return None
    kind, size, count = _COUNTS.unpack_from(content, at + 4)
    body = content[at + HEAD_BYTES : at + HEAD_BYTES + size * count]
    if len(body) < size * count or not 0 < size * count <= MAX_BODY:
        return None
    (crc,) = _CRC.unpack_from(content, at + 12)
    return (kind, size, body) if zlib.crc32(body, zlib.crc32(content[at + 4 : at + 12])) == crc else None


def lacks_bytes(content: bytes) -> bool:
    """True if a block that begins with these bytes, and with no others yet, may become whole."""
    if len(content) < HEAD_BYTES:
        return MAGIC.startswith(content[:4])
    _, size, count = _COUNTS.unpack_from(content, 4)
    return content.startswith(MAGIC) and len(content) < HEAD_BYTES + size * count <= HEAD_BYTES + MAX_BODY
