"""The file formats: one line each."""

from __future__ import annotations

from functools import partial
from typing import Final

from kinetoscope.extensions import declared
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers import hosts, inspector, parquet, proton, rocprof
from kinetoscope.readers.files.stored import stamp_of
from kinetoscope.readers.files.stream import ProgressCallback
from kinetoscope.readers.flight_recorder import alone as flight_recorder
from kinetoscope.readers.history import alone as history
from kinetoscope.readers.job.capture_traces import with_captures
from kinetoscope.readers.json import kineto
from kinetoscope.readers.perfetto import reader as perfetto
from kinetoscope.readers.reader import CandidateFile, Reader
from kinetoscope.readers.snapshot import alone, timeline_files
from kinetoscope.readers.sqlite import reader as sqlite

READERS: Final[dict[str, Reader]] = {
    kineto.READER.name: kineto.READER,
    parquet.READER.name: parquet.READER,
    alone.READER.name: alone.READER,
    timeline_files.READER.name: timeline_files.READER,
    inspector.READER.name: inspector.READER,
    sqlite.READER.name: sqlite.READER,
    rocprof.READER.name: rocprof.READER,
    proton.READER.name: proton.READER,
    flight_recorder.READER.name: flight_recorder.READER,
    perfetto.READER.name: perfetto.READER,
    hosts.READER.name: hosts.READER,
    history.READER.name: history.READER,
}
"""Readers by name. Where a folder holds several formats, those of tools that record ranks count (`Reader.richness`),
else those of the first one: others are copies."""


UNRECOGNISED: Final = kineto.READER.name
"""Reader of a file that none recognises: it says what the file is instead, and reads traces that are broken."""


def readers() -> dict[str, Reader]:
    """All readers by name: these, then those of extensions."""
    return READERS | {each.name: each for each in declared(Reader) if each.name not in READERS}


def recognised(name: str, head: bytes) -> Reader:
    """The reader of a file, by its name and the `HEAD_BYTES` of text that it begins with."""
    every = readers()
    return next((each for each in every.values() if each.recognises(name, head)), every[UNRECOGNISED])


def load(source: Source, *, progress: ProgressCallback | None = None) -> Trace:
    """The trace of a source, by the reader that it names, with the calls that its graphs were captured in."""
    read = partial(readers()[source.reader].load, progress=progress)
    return with_captures(read(source), progress)


def stamp(trace: Source | CandidateFile) -> str:
    """A text that changes when the trace does, as `stamp_of`; of a trace that is a folder, its file written last.

    Raises:
        NotFoundError: it is not there, or cannot be looked at.
    """
    marker = readers()[trace.reader].marker if trace.reader else ""
    return stamp_of(f"{trace.url.rstrip('/')}/{marker}" if marker else trace.url, trace.url)
