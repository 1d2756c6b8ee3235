"""Probes files side by side: what they are, and which rank they hold, from their beginnings and ends.

A quick probe reads a quarter of a megabyte at most. Only files that tell their rank neither there nor by name get a
thorough one, within a budget for the whole job.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final

from kinetoscope.errors import BrokenTraceError, LimitError, NotFoundError
from kinetoscope.readers.files.cache import Cache
from kinetoscope.readers.files.stream import is_url
from kinetoscope.readers.job.ranks import rank_in_name
from kinetoscope.readers.json.sniff import MEMORY_SNAPSHOT, MEMORY_TIMELINE
from kinetoscope.readers.reader import CandidateFile
from kinetoscope.readers.registry import READERS
from kinetoscope.readers.snapshot import alone, timeline_files

BUDGET_BYTES: Final = 128 << 20
"""Bytes as stored that thorough probes of all files of a job read together; but a little of each."""

MIN_SHARE_BYTES: Final = 1 << 18
"""Bytes of a compressed file below which a thorough probe sees no more than a quick one."""

_CHEAP_BYTES: Final = 1 << 20
"""Bytes of a compressed file that are unpacked to check whether its name is right."""

_LOCAL_THREADS: Final = 4
_REMOTE_THREADS: Final = 32

_READERS_BY_CONTENT: Final = {
    MEMORY_SNAPSHOT.name: alone.READER.name,
    MEMORY_TIMELINE.name: timeline_files.READER.name,
}
"""Readers of formats that are known by how they begin, whatever their names."""


def probed(candidates: Sequence[CandidateFile], cache: Cache | None = None) -> list[CandidateFile]:
    """The candidates, in the same order, with what a probe of each tells.

    Of several files, those that cannot be read stay as they are: the reason is given when they are asked.

    Raises:
        NotFoundError, BrokenTraceError, LimitError: the only file cannot be read.
    """
    threads = _REMOTE_THREADS if is_url(candidates[0].url) else _LOCAL_THREADS
    with ThreadPoolExecutor(threads, "kinetoscope-probe") as pool:
        quick = _quick if len(candidates) == 1 else _quick_or_as_it_is
        result = list(pool.map(partial(quick, cache), candidates))
        unknown = [k for k, candidate in enumerate(result) if _needs_thorough(candidate)]
        share = BUDGET_BYTES // max(len(unknown), 1)
        if share < MIN_SHARE_BYTES:  # then only files whose ends can be read without what is between
            unknown = [k for k in unknown if not result[k].compressed]
        probing = {k: pool.submit(READERS[result[k].reader].probe, result[k], cache, share) for k in unknown}
        return [probing[k].result() if k in probing else candidate for k, candidate in enumerate(result)]


def _quick(cache: Cache | None, candidate: CandidateFile) -> CandidateFile:
    reader = READERS[candidate.reader]
    is_here = not is_url(candidate.url) and os.path.exists(candidate.url)
    if is_here and not reader.marker and not os.path.isfile(candidate.url):
        return replace(candidate, size=None)  # a pipe: what is read of it is gone
    candidate = reader.probe(candidate, cache)
    known = _READERS_BY_CONTENT.get(candidate.other_format)
    return replace(candidate, reader=known, other_format="", fully_probed=True) if known else candidate


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
