"""The file formats: one line each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from kinetoscope.caching import SharedCache
from kinetoscope.errors import NotFoundError
from kinetoscope.extensions import declared
from kinetoscope.model.graphs.annotated import Path, dumped_paths
from kinetoscope.model.graphs.attach import replays_graphs, with_captured_calls
from kinetoscope.model.graphs.captures import CapturedGraph, captured_graphs
from kinetoscope.model.trace.source import Source, SourceOptions
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers import parquet
from kinetoscope.readers.files import remote
from kinetoscope.readers.files.stream import ProgressCallback, TextBlocks, cache_for, is_url
from kinetoscope.readers.job.capture_traces import is_capture_trace
from kinetoscope.readers.json import kineto, sniff
from kinetoscope.readers.json.merged import load_part
from kinetoscope.readers.reader import CandidateFile, Reader
from kinetoscope.readers.snapshot import alone, timeline_files

READERS: Final[dict[str, Reader]] = {
    kineto.READER.name: kineto.READER,
    parquet.READER.name: parquet.READER,
    alone.READER.name: alone.READER,
    timeline_files.READER.name: timeline_files.READER,
}
"""Readers by name. Where a folder holds traces of several formats, those of the first one count: others are copies."""


UNRECOGNISED: Final = kineto.READER.name
"""Reader of a file that none recognises: it says what the file is instead, and reads traces that are broken."""


def readers() -> dict[str, Reader]:
    """All readers by name: these, then those of extensions."""
    return READERS | {each.name: each for each in declared(Reader) if each.name not in READERS}


def recognised(name: str, head: bytes) -> Reader:
    """The reader of a file, by its name and the `HEAD_BYTES` of text that it begins with."""
    every = readers()
    return next((each for each in every.values() if each.recognises(name, head)), every[UNRECOGNISED])


MAX_KEPT_CAPTURE_FILES: Final = 4
"""Capture traces of a rank that are kept in memory between the choice of those that it replays and their use."""

MAX_KEPT_NODES: Final = 1 << 22
"""Nodes of captures that are kept for other ranks."""

MAX_BESIDE_BYTES: Final = 1 << 30
"""Bytes of text of a file beside a trace, such as a log of torch.compile, beyond which reading it stops."""


_GRAPHS: Final[SharedCache[list[CapturedGraph]]] = SharedCache(
    MAX_KEPT_NODES, lambda graphs: 1 + sum(len(graph.nodes) for graph in graphs)
)


def load(source: Source, *, progress: ProgressCallback | None = None) -> Trace:
    """The trace of a source, by the reader that it names, with the calls that its graphs were captured in."""
    read = partial(readers()[source.reader].load, progress=progress)
    trace = load_part(source, stamp(source), read) if source.part else read(source)
    if replays_graphs(trace):
        keeps = len(source.captures) <= MAX_KEPT_CAPTURE_FILES
        dump, traces = dict[int, Path](), list[str]()
        for url in source.captures:
            annotations = _dumped_annotations(url, source.options)
            if annotations is None:
                traces.append(url)
            else:
                dump |= annotations
        recordings = [_CaptureFile(Source(url, options=source.options), progress, keeps) for url in traces]
        trace = with_captured_calls(trace, recordings, dump)
    trace.opener = partial(_blocks, source.options)
    trace.snapshot_reader = partial(alone.snapshot_at, source, progress=progress)
    return trace


def _dumped_annotations(url: str, options: SourceOptions) -> dict[int, Path] | None:
    """The annotations in a file of them; None for a trace."""
    if is_capture_trace(url):
        return None
    with TextBlocks(url, max_size=MAX_BESIDE_BYTES, cache=cache_for(url, options), ahead=False) as blocks:
        if sniff.other_format(blocks.peek()) is not sniff.NODE_ANNOTATIONS:
            return None
        return dumped_paths(b"".join(blocks).decode("utf-8", "replace"), url)


class _CaptureFile:
    """A capture trace.

    Engines write one for each size, hundreds in all, of which a run replays a few. What tells which are kept, for other
    ranks may replay them; the traces are read again.
    """

    def __init__(self, source: Source, progress: ProgressCallback | None, keeps: bool) -> None:
        self._source, self._progress, self._keeps = source, progress, keeps
        self._trace: Trace | None = None

    def graphs(self) -> Sequence[CapturedGraph]:
        """Its captures."""
        return _GRAPHS.get((self._source.url, stamp(self._source)), self._graphs)

    def _graphs(self) -> list[CapturedGraph]:
        trace = self.trace()
        self._trace = trace if self._keeps else None
        return captured_graphs(trace, 0)

    def trace(self) -> Trace:
        """The trace."""
        return self._trace or readers()[self._source.reader].load(self._source, progress=self._progress)


def _blocks(options: SourceOptions, path: str) -> Iterator[bytes]:
    """The text of a file beside a trace."""
    with TextBlocks(path, max_size=MAX_BESIDE_BYTES, cache=cache_for(path, options), ahead=False) as blocks:
        yield from blocks


def stamp(trace: Source | CandidateFile) -> str:
    """A text that changes when the trace does: size and time of change; "" where a store tells nothing.

    Of a trace that is a folder it is that of the file that was written last.

    Raises:
        NotFoundError: it is not there, or cannot be looked at.
    """
    marker = readers()[trace.reader].marker if trace.reader else ""
    file = f"{trace.url.rstrip('/')}/{marker}" if marker else trace.url
    if is_url(file):
        location = remote.locate(file)
        with remote.one_line_errors(trace.url):
            return remote.facts_of(location.system.info(location.path)).version
    try:
        facts = os.stat(file)
    except FileNotFoundError as error:
        raise NotFoundError(f"{trace.url}: no such file") from error
    except OSError as error:
        raise NotFoundError(f"{trace.url}: cannot be read: {error.strerror or error}") from error
    return f"{facts.st_size} {facts.st_mtime_ns}"
