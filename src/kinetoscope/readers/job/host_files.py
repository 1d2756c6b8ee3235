"""Files that hosts leave when a job hangs: stacks, notes and logs, beside dumps or traces, or where the user says."""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Sequence
from typing import Final

from kinetoscope.errors import LimitError
from kinetoscope.model.hangs.host_file import HostFile
from kinetoscope.model.trace.source import Source
from kinetoscope.notes import Note
from kinetoscope.readers import hosts
from kinetoscope.readers.files.stream import opened
from kinetoscope.readers.job.companion_files import CompanionFiles, Head
from kinetoscope.readers.job.host_texts import exit_of, exits_in_log, note_of, thread_stacks
from kinetoscope.readers.job.ranks import natural, rank_in_name
from kinetoscope.readers.reader import CandidateFile

HANG_FOLDER: Final = "hang"
"""The folder beside traces that our recorder writes to."""

_LOG: Final = re.compile(r".+\.(?:log|err|out)(?:\.gz|\.zst)?", re.IGNORECASE)

_MAX_BYTES: Final = 64 << 20
"""Bytes of stacks or of a note: far more than any process has threads."""

_LOG_BYTES: Final = 16 << 20
"""The last bytes of a log that are read: what ends a job stands at its end."""


def is_named(name: str) -> bool:
    """True if a file of this name is of a host."""
    return hosts.is_named(name) or _LOG.fullmatch(name) is not None


def _recognises(url: str, head: Head) -> bool:
    return is_named(os.path.basename(url)) or hosts.STACKS.search(head()) is not None


def host_file_at(source: Source, url: str) -> HostFile:
    """The content of a file.

    Raises:
        NotFoundError, BrokenTraceError, LimitError: it cannot be read, or is not what its name says.
    """
    name, rank = os.path.basename(url), rank_in_name(url)
    if _LOG.fullmatch(name):
        return HostFile(url, rank, exits=exits_in_log(_end(source, url).splitlines()), is_log=True)
    text = _whole(source, url)
    if name.startswith("note_"):
        note = note_of(text, url)
        return HostFile(url, note.rank, note=note)
    if name.startswith("exit_"):
        left = exit_of(text, url)
        return HostFile(url, left.rank, exits=(left,))
    return HostFile(url, rank, threads=thread_stacks(text, url))


def _whole(source: Source, url: str) -> str:
    size, blocks = 0, []
    with opened(source, url=url) as each:
        for block in each:
            size += len(block)
            if size > _MAX_BYTES:
                raise LimitError(f"{url}: more than {_MAX_BYTES >> 20} MB, which no stacks and no note have")
            blocks.append(bytes(block))
    return b"".join(blocks).decode("utf-8", "replace")


def _end(source: Source, url: str) -> str:
    last: deque[bytes] = deque()
    size = 0
    with opened(source, url=url) as each:
        for block in each:
            last.append(bytes(block))
            size += len(block)
            while size - len(last[0]) > _LOG_BYTES:
                size -= len(last.popleft())
    return b"".join(last).decode("utf-8", "replace")


def _joined(sources: Sequence[Source], files: Sequence[CandidateFile]) -> tuple[list[tuple[str, ...]], list[Note]]:
    """The files of each source's rank; the first has those of ranks that left nothing else, and logs of all."""
    ranks = {each.rank for each in sources}
    ordered = sorted((file.url for file in files), key=lambda url: (natural(url), url))
    first = min(sources, key=lambda each: (each.rank, each.cycle), default=None)
    joined = []
    for source in sources:
        own = [url for url in ordered if rank_in_name(url) == source.rank]
        if source is first:
            own += [url for url in ordered if rank_in_name(url) not in ranks]
        joined.append(tuple(own))
    return joined, []


_ALONE_NOTE: Final = Note(
    "HOSTS_ALONE",
    "There is no trace and no dump of the Flight Recorder, only what hosts left: how ranks ended, notes, stacks. What "
    "they called is unknown.",
)

FILES: Final = CompanionFiles(
    folders=(HANG_FOLDER,),
    recognises=_recognises,
    missing="no stacks by faulthandler, notes of `kinetoscope record --hang`, or logs",
    read=host_file_at,
    join=_joined,
    named=is_named,
    takes=lambda _, reader: reader == hosts.NAME,
    is_run=True,
    alone=(_ALONE_NOTE,),
    one_run=True,
)
