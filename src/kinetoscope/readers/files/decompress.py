"""Gzip and Zstandard, recognised by their first bytes, decompressed piece by piece; of damaged data all that is sound.

Ignores file names, and what stands behind the compressed data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Protocol, cast

MAX_PIECE_BYTES: Final = 4 << 20
"""Bytes of text in a piece at most. Larger ones leave the cache and cost page faults; smaller ones cost calls."""

STORED_BYTES: Final = 1 << 18
"""Bytes of a compressed file that are looked at at once."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPED: Final = b"\x2a\x4d\x18"  # the end of sixteen marks; pzstd puts such a frame before each of its own

ReadBytes = Callable[[int], bytes]
"""Gives so many more bytes of the file at most; none at its end."""


class Decompressor(Protocol):
    """The common interface of isal's and Zstandard's incremental decompressors (that of `bz2.BZ2Decompressor`)."""

    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Up to `max_length` bytes of text that follow from `data` and what was given before."""


class CorruptError(Exception):
    """The compressed data is damaged, somewhere behind the byte `at` of the file."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at


class EndsEarlyError(Exception):
    """The file ends inside the compressed data."""


class GoesOnError(Exception):
    """Something else follows the compressed data."""


def decompressor(head: bytes) -> Callable[[], Decompressor] | None:
    """A factory of decompressors for data that begins like this; None if it is not compressed."""
    if head.startswith(_GZIP_MAGIC):
        return _gzip_member
    if head.startswith(_ZSTD_MAGIC) or (head[1:4] == _ZSTD_SKIPPED and head[0] >> 4 == 5):
        return _zstd_frame
    return None


def inflated(read: ReadBytes) -> Iterator[bytes]:
    """The text of all members (gzip) or frames (Zstandard) of a file, in pieces of up to MAX_PIECE_BYTES bytes.

    Raises:
        CorruptError, EndsEarlyError, GoesOnError: after the text that came before it.
    """
    data = read(STORED_BYTES)
    taken = len(data)
    while create := decompressor(data):
        machine = create()
        while not machine.eof:
            try:
                text = machine.decompress(data, MAX_PIECE_BYTES)
            except Exception as error:  # each library has its own error, and all mean corrupt data
                raise CorruptError(taken - len(data), str(error) or type(error).__name__) from error
            if text:
                yield text
            data = b""
            if machine.needs_input and not machine.eof:
                data = read(STORED_BYTES)
                taken += len(data)
                if not data:
                    raise EndsEarlyError
        data = machine.unused_data
        while len(data) < 4 and (more := read(STORED_BYTES)):  # four bytes tell what follows
            data += more
            taken += len(more)
        if not data.rstrip(b"\0"):  # the end, or padding up to a full block of some device
            return
    raise GoesOnError


def salvaged(read: ReadBytes, at: int, done: int) -> Iterator[bytes]:
    """Text that `inflated` left out of a file damaged behind `at`: up to the damage, but the first `done` bytes.

    A decompressor that meets the damage keeps back what it made of the same call; so it is fed byte by byte there.
    """
    place = 0

    def carefully(size: int) -> bytes:
        nonlocal place
        data = read(min(size, at - place) if place < at else 1)
        place += len(data)
        return data

    try:
        for text in inflated(carefully):
            if done < len(text):
                yield text[done:]
            done = max(done - len(text), 0)
    except (CorruptError, EndsEarlyError, GoesOnError):
        return


def _gzip_member() -> Decompressor:
    from isal import igzip_lib

    return cast(Decompressor, igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP))


def _zstd_frame() -> Decompressor:
    try:
        from compression import zstd
    except ImportError:  # before Python 3.14
        from backports import zstd
    return cast(Decompressor, zstd.ZstdDecompressor())
