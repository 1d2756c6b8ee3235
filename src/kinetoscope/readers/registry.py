"""The file formats: one line each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Final

from kinetoscope.errors import NotFoundError
from kinetoscope.model.graphs.attach import replays_graphs, with_captured_calls
from kinetoscope.model.trace.source import Source, SourceOptions
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers import parquet
from kinetoscope.readers.files import remote
from kinetoscope.readers.files.stream import ProgressCallback, TextBlocks, cache_for, is_url
from kinetoscope.readers.json import kineto
from kinetoscope.readers.json.merged import load_part
from kinetoscope.readers.reader import CandidateFile, Reader

READERS: Final[dict[str, Reader]] = {
    kineto.READER.name: kineto.READER,
    parquet.READER.name: parquet.READER,
}
"""Readers by name. Where a folder holds traces of several formats, those of the first one count: others are copies."""


MAX_BESIDE_BYTES: Final = 1 << 30
"""Bytes of text of a file beside a trace, such as a log of torch.compile, beyond which reading it stops."""


def load(source: Source, *, progress: ProgressCallback | None = None) -> Trace:
    """The trace of a source, by the reader that it names, with the calls that its graphs were captured in."""
    read = partial(READERS[source.reader].load, progress=progress)
    trace = load_part(source, stamp(source), read) if source.part else read(source)
    if replays_graphs(trace):
        recordings = (Source(url, options=source.options) for url in source.captures)
        trace = with_captured_calls(trace, [READERS[each.reader].load(each, progress=progress) for each in recordings])
    trace.opener = partial(_blocks, source.options)
    return trace


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
    marker = READERS[trace.reader].marker
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
