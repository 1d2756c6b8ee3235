"""Tells which rank a JSON trace holds without reading it, from its beginning and its end.

A quick probe reads a quarter of a megabyte at most. A thorough one goes further: some megabytes of both ends, where
`distributedInfo` may stand behind the events, and where collectives name the ranks that take part. A compressed end
can only be had by inflating all that is before it; that is done for files on this machine that seem to be of several
ranks.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import islice
from typing import IO, Final, NamedTuple

from kinetoscope.errors import NotFoundError
from kinetoscope.readers.files.cache import Cache
from kinetoscope.readers.files.decompress import CorruptError, EndsEarlyError, GoesOnError, decompressor, inflated
from kinetoscope.readers.files.stored import STORED_HEAD_BYTES, StoredFile, inflated_text
from kinetoscope.readers.json import sniff
from kinetoscope.readers.json.merged import rank_label
from kinetoscope.readers.reader import HEAD_BYTES, MAX_RANK, CandidateFile

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


def probe(candidate: CandidateFile, text: bytes, cache: Cache | None) -> CandidateFile:  # noqa: ARG001 - see `Probe`
    """See `Probe`: the rank, or what it is instead of a trace."""
    head = text[:HEAD_BYTES]
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
    )
    return _with_rank_of_collectives(candidate, text)


def probe_thoroughly(candidate: CandidateFile, cache: Cache | None, budget: int) -> CandidateFile:
    """See `ThoroughProbe`. One that fails leaves the answer of the quick one."""
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


def _with_rank_of_collectives(candidate: CandidateFile, *texts: bytes) -> CandidateFile:
    if candidate.rank is not None or candidate.other_format:
        return candidate
    rank = in_collectives(b"{}".join(texts))
    return candidate if rank is None else replace(candidate, rank=rank, basis="collectives")


def _ends(candidate: CandidateFile, budget: int, cache: Cache | None) -> _Ends:
    size = candidate.size or 0
    with StoredFile(candidate.url, candidate.size, candidate.version, cache) as stored:
        data = stored.first(min(STORED_HEAD_BYTES, budget))
        if decompressor(data) is None:
            part = max(STORED_HEAD_BYTES, min(END_TEXT_BYTES, budget // 2))
            return _Ends(stored.first(part), stored.last(part), True)
        first = inflated_text(stored.first(min(budget, END_TEXT_BYTES // 4)), END_TEXT_BYTES)
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
