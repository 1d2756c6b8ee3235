"""Looks into files without reading them: what they are, and which rank they hold, from their beginnings and ends.

A first look reads a quarter of a megabyte at most. Only into files that tell their rank neither there nor by name a
second look goes further: some megabytes of both ends, where `distributedInfo` may stand behind the events, and where
collectives name the ranks that take part. A compressed end can only be had by inflating all that is before it; that is
done for files on this machine that seem to be of several ranks, within a budget for the whole job. Many files are
looked into side by side.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import repeat
from typing import IO, Final, NamedTuple

from kinetoscope.errors import BrokenTraceError, LimitError, NotFoundError
from kinetoscope.readers import parquet
from kinetoscope.readers.files.cache import Cache
from kinetoscope.readers.files.decompress import CorruptError, EndsEarlyError, GoesOnError, decompressor, inflated
from kinetoscope.readers.files.stream import is_url, open_file
from kinetoscope.readers.job.discovery import Found
from kinetoscope.readers.job.ranks import TEXT, Look, distributed, in_collectives, rank_in_name
from kinetoscope.readers.json import sniff

HEAD: Final = 1 << 16
"""Bytes as stored that a first look reads; FIRST of a remote file, where the way is what takes the time."""

TEXT_AT_MOST: Final = 1 << 18
"""Bytes of text that a first look makes of them."""

FURTHER: Final = 4 << 20
"""Bytes of text at either end that a second look reads at most."""

BUDGET: Final = 128 << 20
"""Bytes as stored that second looks into all files of a job read at most, together; but HEAD at either end of each."""

RATIO: Final = 64
"""Bytes of text from one byte of compressed data beyond which a second look stops: traces have 8 to 30."""

_WORTH: Final = 4 * HEAD
"""Bytes of a compressed file below which a second look sees no more than the first."""

_LITTLE: Final = 1 << 20
"""Bytes of a compressed file that are unpacked to see whether its name is right."""

_HERE: Final = 4
_AFAR: Final = 32
"""Files that are looked into at a time."""

_OF_SEVERAL: Final = re.compile(rb"c10d|nccl|rccl|gloo:|record_param_comms|Distributed|FullySharded|FSDP")
"""Words of which traces of several ranks have some among their first thousands of events."""

_DECODER: Final = json.JSONDecoder(strict=False)


class _Ends(NamedTuple):
    """Text at both ends of a file, as much as was read; `whole` if nothing that could tell the rank is left out."""

    first: bytes
    last: bytes
    whole: bool


def look_into(files: Sequence[Found], cache: Cache | None = None) -> list[Look]:
    """A look into each file, in the same order; the second look too, where the first does not tell the rank.

    Of several files, those that cannot be read are looked at by name: the reason is said when they are asked.

    Raises:
        NotFoundError, BrokenTraceError, LimitError: the only file cannot be read.
    """
    if len(files) == 1:
        looks = [_looked(files[0], cache)]
    else:
        with ThreadPoolExecutor(_at_once(files), "kinetoscope-look") as pool:
            looks = list(pool.map(_forgiving(_looked), files, repeat(cache)))
    unknown = [k for k, each in enumerate(looks) if _is_unknown(each)]
    share = BUDGET // max(len(unknown), 1)
    if share < _WORTH:  # then only ends that can be read alone are
        unknown = [k for k in unknown if not looks[k].packed]
    if unknown:
        with ThreadPoolExecutor(_at_once(files), "kinetoscope-look") as pool:
            again = pool.map(lambda k: _further(files[k], looks[k], share, cache), unknown)
            for k, each in zip(unknown, again, strict=True):
                looks[k] = each
    return looks


def _is_unknown(look: Look) -> bool:
    """Is there more to read in it, and need for it? A name may be wrong; against it only an end that costs little."""
    if look.rank is not None or look.other or look.whole:
        return False
    costs_little = not is_url(look.file) and (not look.packed or (look.size or 0) <= _LITTLE)
    return rank_in_name(look.file) is None or costs_little


def _at_once(files: Sequence[Found]) -> int:
    return _AFAR if is_url(files[0].url) else _HERE


def _forgiving(look: Callable[[Found, Cache | None], Look]) -> Callable[[Found, Cache | None], Look]:
    def forgiving(file: Found, cache: Cache | None) -> Look:
        try:
            return look(file, cache)
        except (NotFoundError, BrokenTraceError, LimitError):
            return Look(file.url, size=file.size)

    return forgiving


def _looked(file: Found, cache: Cache | None) -> Look:
    """The first look."""
    if file.parquet:
        return replace(parquet.look(file.url, cache), size=file.size)
    if not is_url(file.url) and os.path.exists(file.url) and not os.path.isfile(file.url):
        return Look(file.url)  # a pipe: what is read of it is gone
    data = _beginning(file, HEAD, cache)
    text = _text(data, TEXT_AT_MOST)
    if data and not text:  # compressed, and damaged at once
        return Look(file.url, size=file.size)  # whole: there is nothing more to be had
    other = sniff.what_is(text[: sniff.HEAD])
    mark = hashlib.blake2b(text[: sniff.HEAD], digest_size=16).hexdigest()
    rank, world = distributed(text, _decode)
    whole = len(data) == file.size and len(text) < TEXT_AT_MOST
    found = Look(file.url, rank, world, TEXT if rank is not None else "", other.what if other else "", mark, file.size)
    return replace(_by_collectives(found, text), whole=whole, packed=decompressor(data) is not None)


def _decode(text: str) -> object:
    return _DECODER.raw_decode(text)[0]


def _by_collectives(look: Look, *texts: bytes) -> Look:
    if look.rank is not None or look.other:
        return look
    rank = in_collectives(b"{}".join(texts))
    return look if rank is None else replace(look, rank=rank, basis="collectives")


def _further(file: Found, look: Look, share: int, cache: Cache | None) -> Look:
    """The second look, which reads so many bytes at most; the first one if that fails."""
    try:
        ends = _ends(file, share, cache)
    except NotFoundError:
        return look
    found = replace(look, whole=ends.whole)
    for text in (ends.last, ends.first):
        rank, world = distributed(text, _decode)
        found = replace(found, world=found.world or world)
        if rank is not None:
            return replace(found, rank=rank, basis=TEXT)
    return _by_collectives(found, ends.first, ends.last)


def _ends(file: Found, share: int, cache: Cache | None) -> _Ends:
    size = file.size or 0
    with _Stored(file, cache) as stored:
        data = stored.first(min(HEAD, share))
        if decompressor(data) is None:
            part = max(HEAD, min(FURTHER, share // 2))
            return _Ends(stored.first(part), stored.last(part), True)
        first = _text(stored.first(min(share, FURTHER // 4)), FURTHER)
        if not _OF_SEVERAL.search(first):  # to unpack gigabytes would tell that there is one rank
            return _Ends(first, b"", True)
        if size <= share and stored.is_here:
            return _inflated_ends(stored.file, RATIO * size)
        return _Ends(first, b"", False)


def _inflated_ends(file: IO[bytes], at_most: int) -> _Ends:
    """Both ends of what a compressed file holds, of a damaged one up to the damage; one end of more than `at_most`."""
    first, last, before = b"", b"", b""
    length = 0
    try:
        for piece in inflated(file.read):
            length += len(piece)
            if length > at_most:
                return _Ends(first, b"", False)
            if len(first) < FURTHER:
                first += piece
            before, last = last, piece
    except (CorruptError, EndsEarlyError, GoesOnError):
        pass
    return _Ends(first, (before + last)[-FURTHER:], True)


def _text(data: bytes, size: int) -> bytes:
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


# --- bytes as they are stored


def _beginning(file: Found, size: int, cache: Cache | None) -> bytes:
    with _Stored(file, cache) as stored:
        return stored.first(size)


class _Stored:
    """The ends of a file as it is stored: here, in the cache, or afar."""

    def __init__(self, found: Found, cache: Cache | None) -> None:
        self._found = found
        self._local: IO[bytes] | None = None
        if is_url(found.url):
            from kinetoscope.readers.files.remote import Facts, copied, place

            self._local = copied(found.url, Facts(found.size, found.version), cache)
            self._place = None if self._local else place(found.url)
        else:
            self._local = open_file(found.url)[0]  # type: ignore[assignment]
            self._place = None

    def __enter__(self) -> _Stored:
        return self

    def __exit__(self, *error: object) -> None:
        if self._local is not None:
            self._local.close()

    @property
    def is_here(self) -> bool:
        """Is it on this machine?"""
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
        from kinetoscope.readers.files.remote import FIRST, head

        return head(self._place, max(size, FIRST), self._found.size)

    def last(self, size: int) -> bytes:
        """The bytes that it ends with."""
        known = self._found.size or 0
        if self._place is None:
            return self._read(max(0, known - size), size)
        from kinetoscope.readers.files.remote import tail

        return tail(self._place, size, known) if known else b""

    def _read(self, begin: int, size: int) -> bytes:
        assert self._local is not None
        try:
            return os.pread(self._local.fileno(), size, begin)
        except OSError as error:
            raise NotFoundError(f"{self._found.url}: cannot be read: {error.strerror}") from error
