"""The ends of files as they are stored, here or afar, and the text that they begin with."""

from __future__ import annotations

import os
from typing import IO, Final

from kinetoscope.errors import NotFoundError
from kinetoscope.readers.files.cache import Cache
from kinetoscope.readers.files.decompress import decompressor
from kinetoscope.readers.files.stream import is_url, open_file

STORED_HEAD_BYTES: Final = 1 << 16
"""Bytes as stored that a quick probe reads; of a remote file `remote.FIRST_RANGE_BYTES`, as the way takes the time."""

HEAD_TEXT_BYTES: Final = 1 << 18
"""Bytes of text that a quick probe makes of them at most."""


def inflated_text(data: bytes, size: int) -> bytes:
    """Up to `size` bytes of the text that stored data begins with."""
    if decompressor(data) is None:
        return data[:size]
    parts: list[bytes] = []
    wanted = size
    try:
        while wanted > 0 and (create := decompressor(data)):
            machine = create()
            while wanted > 0 and not machine.eof and (text := machine.decompress(data, wanted)):
                parts.append(text)
                wanted -= len(text)
                data = b""
            if not machine.eof:
                break
            data = machine.unused_data
    except Exception:  # noqa: BLE001 - each library has its own error, and all mean corrupt data
        return b"".join(parts)
    return b"".join(parts)


class StoredFile:
    """The ends of a file as it is stored: here, in the cache, or afar.

    Args:
        url: the file.
        size: its bytes; None where they are not known.
        version: changes when its content does; "" where nothing tells.
        cache: copies of remote files.
    """

    def __init__(self, url: str, size: int | None, version: str, cache: Cache | None) -> None:
        self._url, self._size = url, size
        self._local: IO[bytes] | None = None
        if is_url(url):
            from kinetoscope.readers.files.remote import FileFacts, copied, locate

            self._local = copied(url, FileFacts(size, version), cache)
            self._place = None if self._local else locate(url)
        else:
            self._local = open_file(url)[0]  # type: ignore[assignment]
            self._place = None

    def __enter__(self) -> StoredFile:
        return self

    def __exit__(self, *error: object) -> None:
        if self._local is not None:
            self._local.close()

    @property
    def is_here(self) -> bool:
        """Whether it is on this machine."""
        return self._local is not None

    @property
    def file(self) -> IO[bytes]:
        """The file from its beginning, if it is on this machine."""
        assert self._local is not None
        self._local.seek(0)
        return self._local

    def first(self, size: int) -> bytes:
        """The bytes that it begins with."""
        if self._place is None:
            return self._read(0, size)
        from kinetoscope.readers.files.remote import FIRST_RANGE_BYTES, head

        return head(self._place, max(size, FIRST_RANGE_BYTES), self._size)

    def last(self, size: int) -> bytes:
        """The bytes that it ends with."""
        known = self._size or 0
        if self._place is None:
            return self._read(max(0, known - size), size)
        from kinetoscope.readers.files.remote import tail

        return tail(self._place, size, known) if known else b""

    def _read(self, begin: int, size: int) -> bytes:
        assert self._local is not None
        try:
            return os.pread(self._local.fileno(), size, begin)
        except OSError as error:
            raise NotFoundError(f"{self._url}: cannot be read: {error.strerror}") from error


def stamp_of(file: str, named: str = "") -> str:
    """A text that changes when a file does: size and time of change; "" where a store tells nothing.

    named: what an error says in place of the file.

    Raises:
        NotFoundError: it is not there, or cannot be looked at.
    """
    named = named or file
    if is_url(file):
        from kinetoscope.readers.files.remote import facts_of, locate, one_line_errors

        location = locate(file)
        with one_line_errors(named):
            return facts_of(location.system.info(location.path)).version
    try:
        facts = os.stat(file)
    except FileNotFoundError as error:
        raise NotFoundError(f"{named}: no such file") from error
    except OSError as error:
        raise NotFoundError(f"{named}: cannot be read: {error.strerror or error}") from error
    return f"{facts.st_size} {facts.st_mtime_ns}"
