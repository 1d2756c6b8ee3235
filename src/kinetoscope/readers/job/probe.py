"""Probes files side by side: what they are, and which rank they hold, from their beginnings and ends.

A quick probe reads a quarter of a megabyte at most. Only files that tell their rank neither there nor by name get a
thorough one, within a budget for the whole job.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final

from kinetoscope.errors import BrokenTraceError, LimitError, NotFoundError
from kinetoscope.readers.files.cache import Cache
from kinetoscope.readers.files.decompress import decompressor
from kinetoscope.readers.files.stored import HEAD_TEXT_BYTES, STORED_HEAD_BYTES, StoredFile, inflated_text
from kinetoscope.readers.files.stream import is_url
from kinetoscope.readers.job.ranks import rank_in_name
from kinetoscope.readers.reader import HEAD_BYTES, CandidateFile
from kinetoscope.readers.registry import UNRECOGNISED, readers, recognised

BUDGET_BYTES: Final = 128 << 20
"""Bytes as stored that thorough probes of all files of a job read together; but a little of each."""

MIN_SHARE_BYTES: Final = 1 << 18
"""Bytes of a compressed file below which a thorough probe sees no more than a quick one."""

_CHEAP_BYTES: Final = 1 << 20
"""Bytes of a compressed file that are unpacked to check whether its name is right."""

_LOCAL_THREADS: Final = 4
_REMOTE_THREADS: Final = 32


def probed(candidates: Sequence[CandidateFile], cache: Cache | None = None) -> list[CandidateFile]:
    """The candidates, in the same order, with what a probe of each tells.

    Of several files, those that cannot be read stay as they are: the reason is given when they are asked.

    Raises:
        NotFoundError, BrokenTraceError, LimitError: the only file cannot be read.
    """
    candidates = [each if each.reader else replace(each, reader=UNRECOGNISED) for each in candidates]
    threads = _REMOTE_THREADS if is_url(candidates[0].url) else _LOCAL_THREADS
    with ThreadPoolExecutor(threads, "kinetoscope-probe") as pool:
        quick = _quick if len(candidates) == 1 else _quick_or_as_it_is
        result = list(pool.map(partial(quick, cache), candidates))
        unknown = [k for k, candidate in enumerate(result) if _needs_thorough(candidate)]
        share = BUDGET_BYTES // max(len(unknown), 1)
        if share < MIN_SHARE_BYTES:  # then only files whose ends can be read without what is between
            unknown = [k for k in unknown if not result[k].compressed]
        thorough = {k: readers()[result[k].reader].thorough for k in unknown}
        probing = {k: pool.submit(probe, result[k], cache, share) for k, probe in thorough.items() if probe}
        return [probing[k].result() if k in probing else candidate for k, candidate in enumerate(result)]


def _quick(cache: Cache | None, candidate: CandidateFile) -> CandidateFile:
    return begun(candidate, cache)[0]


def begun(candidate: CandidateFile, cache: Cache | None) -> tuple[CandidateFile, bytes]:
    """A candidate with what its beginning tells, and the `HEAD_BYTES` of text that it begins with.

    Raises:
        NotFoundError, BrokenTraceError, LimitError: it cannot be read.
    """
    candidate = candidate if candidate.reader else replace(candidate, reader=UNRECOGNISED)
    reader = readers()[candidate.reader]
    if reader.marker:
        return reader.probe(candidate, b"", cache), b""
    if not is_url(candidate.url) and os.path.exists(candidate.url) and not os.path.isfile(candidate.url):
        return replace(candidate, size=None), b""  # a pipe: what is read of it is gone
    with StoredFile(candidate.url, candidate.size, candidate.version, cache) as stored:
        data = stored.first(STORED_HEAD_BYTES)
    text = inflated_text(data, HEAD_TEXT_BYTES)
    if data and not text:  # compressed, and damaged at once: there is nothing more to be had
        return candidate, b""
    head = text[:HEAD_BYTES]
    reader = recognised(candidate.url, head)
    is_whole = len(data) == candidate.size and len(text) < HEAD_TEXT_BYTES
    candidate = replace(
        candidate,
        reader=reader.name,
        digest=hashlib.blake2b(head, digest_size=16).hexdigest(),
        fully_probed=is_whole or reader.thorough is None,
        compressed=decompressor(data) is not None,
    )
    return reader.probe(candidate, text, cache), head


def _quick_or_as_it_is(cache: Cache | None, candidate: CandidateFile) -> CandidateFile:
    try:
        return _quick(cache, candidate)
    except (NotFoundError, BrokenTraceError, LimitError):
        return candidate


def _needs_thorough(candidate: CandidateFile) -> bool:
    """Whether there is more to read, and need for it. A name may be wrong; to check it only costs a cheap probe."""
    if candidate.rank is not None or candidate.other_format or candidate.fully_probed:
        return False
    is_cheap = not candidate.compressed or (candidate.size or 0) <= _CHEAP_BYTES
    return rank_in_name(candidate.url) is None or (is_cheap and not is_url(candidate.url))
