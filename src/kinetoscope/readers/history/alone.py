"""The history of a run opened by itself: a trace without events, as nothing is known but whole steps.

All that is asked of a history is asked of all its files together (`series`), so a rank's trace has nothing to read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kinetoscope.errors import BrokenTraceError, InputError
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.readers.files.stream import is_url, opened
from kinetoscope.readers.reader import HEAD_BYTES, CandidateFile, Reader
from kinetoscope.record.history import layout

if TYPE_CHECKING:
    from kinetoscope.readers.files.cache import Cache
    from kinetoscope.readers.history.files import HistoryFile
    from kinetoscope.readers.history.history import HistoryTables

NAME: Final = "history"
FOLDER, ENDING = layout.FOLDER, layout.ENDING
"""Where its files lie in the folder of a run, and how their names end."""


def is_history(head: bytes) -> bool:
    """True if a file that begins like this is a history."""
    return head.startswith(layout.MAGIC)


def series(
    trace: Trace, ranks: Collection[int] | None = None, steps: tuple[int, int] | None = None
) -> Iterator[HistoryTables]:
    """The rows of the history that belongs to a trace, rank by rank; see `by_rank`.

    Raises:
        InputError: the history lies in a store.
        NotFoundError, BrokenTraceError: as `history_files` has it.
    """
    from kinetoscope.readers.history.history import by_rank

    files = trace.source.files(NAME)
    if far := [each for each in files if is_url(each)]:
        raise InputError(f"{far[0]}: a history is read from a folder of this machine; copy the run here")
    yield from by_rank(files, ranks=ranks, steps=steps) if files else ()


def head_at(source: Source, url: str) -> HistoryFile | None:
    """The head of a file; None where it is not written yet.

    Raises:
        NotFoundError, BrokenTraceError: it cannot be read, or is something else.
    """
    from kinetoscope.readers.history.files import file_of

    with opened(source, url=url) as blocks:
        return file_of(url, bytes(next(iter(blocks), b"")))


def load(source: Source, *, progress: Callable[[int], None] | None = None) -> Trace:
    """A trace without events.

    Raises:
        NotFoundError, BrokenTraceError: it cannot be read, or is something else.
    """
    from kinetoscope.model.trace.build import TraceBuilder

    del progress
    head = head_at(source, source.url)
    facts = {"distributedInfo": {"rank": source.rank, "world_size": head.world}} if head else {}
    return TraceBuilder().build(source, metadata=facts)


def probe(candidate: CandidateFile, text: bytes, cache: Cache | None) -> CandidateFile:  # noqa: ARG001 - see `Probe`
    """A candidate with the rank and the world of its head."""
    from kinetoscope.readers.history.files import file_of

    try:
        head = file_of(candidate.url, text[:HEAD_BYTES])
    except BrokenTraceError:
        return replace(candidate, other_format="a history that this version does not read")
    return (
        candidate
        if head is None
        else replace(candidate, rank=head.rank, world=head.world, host=head.host, basis="text")
    )


READER: Final = Reader(NAME, load, lambda _, head: is_history(head), probe, suffixes=(ENDING,))
