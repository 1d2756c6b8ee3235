"""SQLite files of other profilers: which one has written a file is seen by its tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Final

from kinetoscope.errors import KinetoscopeError, NotATraceError
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.files.cache import Cache
from kinetoscope.readers.files.stored import stamp_of
from kinetoscope.readers.files.whole import Whole
from kinetoscope.readers.reader import CandidateFile, Reader
from kinetoscope.readers.sqlite import rocpd
from kinetoscope.readers.sqlite.content import Content
from kinetoscope.readers.sqlite.database import EXPORT, MAGIC, REPORTS, Database, local_file
from kinetoscope.readers.sqlite.nsight import export as nsight

_FORMATS: Final[tuple[ModuleType, ...]] = (nsight, rocpd)
"""Modules with `fits`, `processes`, `content` and `read`."""


@dataclass(frozen=True)
class _File:
    """Content of a file: by which module, what, and the numbers of its processes."""

    format: ModuleType
    content: Content
    processes: tuple[str, ...]


_OPEN_FILE: Final = Whole[_File](lambda file: file.processes)


def load(source: Source, *, progress: Callable[[int], None] | None = None) -> Trace:
    """The trace of a process in a file: of that which `source.part` names, else of all.

    Raises:
        NotFoundError, BrokenTraceError, LimitError: it cannot be read.
        NotATraceError: no profiler that is known has written it.
    """
    read = partial(_read, source, progress)
    if source.part:
        stamp = stamp_of(source.url, source.url)
        file = _OPEN_FILE.take((source.url, stamp, source.options) if stamp else None, source.part, read)
    else:
        file = read()
    recorded = file.format.read(file.content, int(source.part) if source.part else None)
    return recorded.built.build(  # type: ignore[no-any-return]
        source, metadata=recorded.metadata, text_bytes=source.size or 0, notes=recorded.notes
    )


def _read(source: Source, progress: Callable[[int], None] | None) -> _File:
    with local_file(source, progress) as path, Database(path, source.url) as database:
        form = _format_of(database, source.url)
        own = tuple(str(process) for process in form.processes(database)) if source.part else ()
        return _File(form, form.content(database), own)


def _format_of(database: Database, url: str) -> ModuleType:
    for each in _FORMATS:
        if each.fits(database):
            return each
    raise NotATraceError(
        f"{url}: SQLite, but of no profiler that is known; Nsight Systems writes its own by `{EXPORT} report.nsys-rep`"
    )


def parts(candidate: CandidateFile, cache: Cache | None = None) -> list[CandidateFile]:  # noqa: ARG001 - see `Parts`
    """A candidate for each process that works on a device, in order of devices; the file itself where it is one."""
    try:
        with local_file(Source(candidate.url)) as path, Database(path, candidate.url) as database:
            own = _format_of(database, candidate.url).processes(database)
    except KinetoscopeError:  # it is told when the file is read
        return [candidate]
    if len(own) < 2:
        return [candidate]
    size = candidate.size and candidate.size // len(own)
    return [
        replace(candidate, part=str(process), rank=rank, basis="place", size=size, digest="")
        for rank, process in enumerate(own)
    ]


def _recognised(name: str, head: bytes) -> bool:
    return head.startswith(MAGIC) or name.endswith(REPORTS)


def _probe(candidate: CandidateFile, text: bytes, cache: Cache | None) -> CandidateFile:  # noqa: ARG001 - see `Probe`
    """See `Probe`: it may hold several ranks."""
    return replace(candidate, merged=True)


READER: Final = Reader(
    "sqlite", load, _recognised, probe=_probe, parts=parts, richness=3, suffixes=(".sqlite", ".db", *REPORTS)
)
