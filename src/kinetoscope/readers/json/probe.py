"""Tells which rank a JSON trace holds without reading it, from its beginning and its end.

A quick probe reads a quarter of a megabyte at most. A thorough one goes further: some megabytes of both ends, where
`distributedInfo` may stand behind the events, and where collectives name the ranks that take part. A compressed end
can only be had by inflating all that is before it; that is done for files on this machine that seem to be of several
ranks.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import replace
from itertools import islice
from typing import IO, Final, NamedTuple

from kinetoscope.errors import NotFoundError
from kinetoscope.readers.files.cache import Cache
from kinetoscope.readers.files.decompress import CorruptError, EndsEarlyError, GoesOnError, decompressor, inflated
from kinetoscope.readers.files.stream import is_url, open_file
from kinetoscope.readers.json import sniff
from kinetoscope.readers.json.merged import rank_label
from kinetoscope.readers.reader import MAX_RANK, CandidateFile

HEAD_BYTES: Final = 1 << 16
"""Bytes as stored that a quick probe reads; of a remote file `remote.FIRST_RANGE_BYTES`, as the way takes the time."""

HEAD_TEXT_BYTES: Final = 1 << 18
"""Bytes of text that a quick probe makes of them at most."""

END_TEXT_BYTES: Final = 4 << 20
"""Bytes of text at either end that a thorough probe reads at most."""

SMALL_BYTES: Final = 2 << 20
"""Bytes as stored up to which a compressed file is unpacked to its end, whatever it begins with."""

MAX_RATIO: Final = 64
"""Bytes of text from one byte of compressed data beyond which a thorough probe stops: traces have 8 to 30."""

_OF_SEVERAL_RANKS: Final = re.compile(rb"c10d|nccl|rccl|gloo:|record_param_comms|Distributed|FullySharded|FSDP")
"""Words of which traces of several ranks have some among their first thousands of events."""

_DECODER: Final = json.JSONDecoder(strict=False)


class _Ends(NamedTuple):
    """Text at both ends of a file, as much as was read; `complete` if nothing that could tell the rank is left out."""

    first: bytes
    last: bytes
    complete: bool


def probe(candidate: CandidateFile, cache: Cache | None, budget: int = 0) -> CandidateFile:
    """See `Probe`. A thorough probe that fails leaves the answer of the quick one."""
    if not budget:
        return _quick(candidate, cache)
    try:
        ends = _ends(candidate, budget, cache)
    except NotFoundError:
        return candidate
    candidate = replace(candidate, fully_probed=ends.complete)
    for text in (ends.last, ends.first):
        rank, world = distributed(text)
        candidate = replace(candidate, world=candidate.world or world, host=candidate.host or host_in(text))
        if rank is not None:
            return replace(candidate, rank=rank, basis="text")
    return _with_rank_of_collectives(candidate, ends.first, ends.last)


def _quick(candidate: CandidateFile, cache: Cache | None) -> CandidateFile:
    with StoredFile(candidate, cache) as stored:
        data = stored.first(HEAD_BYTES)
    text = _text(data, HEAD_TEXT_BYTES)
    if data and not text:  # compressed, and damaged at once: there is nothing more to be had
        return candidate
    head = text[: sniff.HEAD]
    other = sniff.other_format(head)
    rank, world = distributed(text)
    candidate = replace(
        candidate,
        rank=rank,
        world=world,
        basis="text" if rank is not None else "",
        host=host_in(text),
        merged=rank_label(head) != "",
        other_format=other.name if other else "",
        digest=hashlib.blake2b(head, digest_size=16).hexdigest(),
        fully_probed=len(data) == candidate.size and len(text) < HEAD_TEXT_BYTES,
        compressed=decompressor(data) is not None,
    )
    return _with_rank_of_collectives(candidate, text)


def _with_rank_of_collectives(candidate: CandidateFile, *texts: bytes) -> CandidateFile:
    if candidate.rank is not None or candidate.other_format:
        return candidate
    rank = in_collectives(b"{}".join(texts))
    return candidate if rank is None else replace(candidate, rank=rank, basis="collectives")


def _ends(candidate: CandidateFile, budget: int, cache: Cache | None) -> _Ends:
    size = candidate.size or 0
    with StoredFile(candidate, cache) as stored:
        data = stored.first(min(HEAD_BYTES, budget))
        if decompressor(data) is None:
            part = max(HEAD_BYTES, min(END_TEXT_BYTES, budget // 2))
            return _Ends(stored.first(part), stored.last(part), True)
        first = _text(stored.first(min(budget, END_TEXT_BYTES // 4)), END_TEXT_BYTES)
        if size > SMALL_BYTES and not _OF_SEVERAL_RANKS.search(first):
            return _Ends(first, b"", True)  # to unpack gigabytes would tell that there is one rank
        if size <= budget and stored.is_here:
            return _inflated_ends(stored.file, MAX_RATIO * size)
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
            if len(first) < END_TEXT_BYTES:
                first += piece
            before, last = last, piece
    except (CorruptError, EndsEarlyError, GoesOnError):
        pass
    return _Ends(first, (before + last)[-END_TEXT_BYTES:], True)


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


# --- what a text says


_HOST: Final = re.compile(rb'"host_name"\s*:\s*"([^"\\]{1,255})"')
_DISTRIBUTED: Final = re.compile(rb'"distributedInfo"\s*:\s*(?=\{)')
_RANK_IN_TEXT: Final = re.compile(rb'"rank"\s*:\s*(\d{1,9})')
_WORLD_IN_TEXT: Final = re.compile(rb'"world_size"\s*:\s*(\d{1,9})')
_GROUP: Final = re.compile(rb'"Process Group Ranks"\s*:\s*"\[([\d, ]+)\]"')
_GROUP_SIZE: Final = re.compile(rb'"Group size"\s*:\s*"?(\d{1,9})')
_OWN_RANK: Final = re.compile(rb'"Rank"\s*:\s*"?(\d{1,9})')
_COLLECTIVE: Final = re.compile(rb'"Collective name"\s*:\s*"([^"]{0,60})"')
_OWN_RANK_IN: Final = re.compile(rb"all_?reduce|all_?gather|reduce_scatter|all_?to_?all|barrier", re.IGNORECASE)
"""Collectives whose argument `Rank` is the rank of the process in its group; in others it is the root, or the peer."""

_COLLECTIVES_AT_MOST: Final = 2000
_ARGUMENTS_AT_MOST: Final = 4000
"""Bytes of an event's arguments before and after the ranks of its group."""


def distributed(text: bytes) -> tuple[int | None, int]:
    """Rank and number of ranks as `distributedInfo` in a piece of text tells them; the last one counts."""
    matches = list(_DISTRIBUTED.finditer(text)) if b'"distributedInfo"' in text else []  # which is faster
    if not matches:
        return None, 0
    rest = text[matches[-1].end() :]
    try:
        facts: object = _DECODER.raw_decode(rest.decode("utf-8", "replace"))[0]
    except (ValueError, RecursionError):  # cut, or broken
        facts = None
    if isinstance(facts, dict):
        return _plausible(facts.get("rank")), _plausible(facts.get("world_size")) or 0
    matches_in_rest = (pattern.search(rest) for pattern in (_RANK_IN_TEXT, _WORLD_IN_TEXT))
    rank, world = (_plausible(int(match[1])) if match else None for match in matches_in_rest)
    return rank, world or 0


def host_in(text: bytes) -> str:
    """The machine that a piece of text names; "" if it names none."""
    match = _HOST.search(text)
    return match[1].decode("utf-8", "replace") if match else ""


def _plausible(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_RANK else None


def in_collectives(text: bytes) -> int | None:
    """The rank that the arguments of the collectives in a piece of text leave; None if they leave several, or none.

    A process takes part in the collectives of its groups only, so it is in all of them; and those that all ranks of a
    group do alike say at which place of its group it is. Lists of ranks that are cut short tell nothing.
    """
    if b'"Process Group Ranks"' not in text:
        return None
    common: set[int] | None = None
    own: set[int] = set()
    for ranks in islice(_GROUP.finditer(text), _COLLECTIVES_AT_MOST):
        begin = max(text.rfind(b"{", max(ranks.start() - _ARGUMENTS_AT_MOST, 0), ranks.start()), 0)
        end = text.find(b"}", ranks.end(), ranks.end() + _ARGUMENTS_AT_MOST)
        arguments = text[begin : end if end >= 0 else ranks.end()]
        group = [int(number) for number in re.findall(rb"\d{1,9}", ranks[1])]
        size = _GROUP_SIZE.search(arguments)
        if size and int(size[1]) != len(group):
            continue
        common = set(group) if common is None else common & set(group)
        name, place = _COLLECTIVE.search(arguments), _OWN_RANK.search(arguments)
        if name and place and _OWN_RANK_IN.search(name[1]) and int(place[1]) < len(group):
            own.add(group[int(place[1])])
    candidates = own if len(own) == 1 else common or set()
    if common is not None and len(own) == 1 and not own <= common:  # they contradict each other
        return None
    rank = candidates.pop() if len(candidates) == 1 else None
    return rank if rank is None or rank <= MAX_RANK else None


# --- bytes as they are stored


class StoredFile:
    """The ends of a file as it is stored: here, in the cache, or afar."""

    def __init__(self, candidate: CandidateFile, cache: Cache | None) -> None:
        self._candidate = candidate
        self._local: IO[bytes] | None = None
        if is_url(candidate.url):
            from kinetoscope.readers.files.remote import FileFacts, copied, locate

            self._local = copied(candidate.url, FileFacts(candidate.size, candidate.version), cache)
            self._place = None if self._local else locate(candidate.url)
        else:
            self._local = open_file(candidate.url)[0]  # type: ignore[assignment]
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

        return head(self._place, max(size, FIRST_RANGE_BYTES), self._candidate.size)

    def last(self, size: int) -> bytes:
        """The bytes that it ends with."""
        known = self._candidate.size or 0
        if self._place is None:
            return self._read(max(0, known - size), size)
        from kinetoscope.readers.files.remote import tail

        return tail(self._place, size, known) if known else b""

    def _read(self, begin: int, size: int) -> bytes:
        assert self._local is not None
        try:
            return os.pread(self._local.fileno(), size, begin)
        except OSError as error:
            raise NotFoundError(f"{self._candidate.url}: cannot be read: {error.strerror}") from error
