"""What a question about the timeline names: a rank or several, an event, whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kinetoscope.model.trace.recording import has_timeline, no_timeline
from kinetoscope.model.trace.trace import Trace
from kinetoscope.server.errors import BadValueError, MissingError
from kinetoscope.server.http.endpoint import ApiRequest
from kinetoscope.server.query import integer, run_part
from kinetoscope.server.runs.run import Run

MAX_RANKS: Final = 64
"""Ranks that are drawn beneath one another."""


def trace_of(run: Run, request: ApiRequest) -> Trace:
    """The trace of the rank that is named; of the first one if none is."""
    part = run_part(request.query)
    return _drawn(run.trace(part.ranks[0] if part.ranks else None, part.cycle or 0))


def traces_of(run: Run, request: ApiRequest) -> Sequence[Trace]:
    """The traces of the ranks that are named, at most MAX_RANKS."""
    part = run_part(request.query)
    if part.ranks is None:
        return [_drawn(run.trace(None, part.cycle or 0))]
    if len(part.ranks) > MAX_RANKS:
        raise BadValueError(f"{len(part.ranks):,} ranks are too many to be drawn; {MAX_RANKS} are possible")
    return [_drawn(run.trace(rank, part.cycle or 0)) for rank in part.ranks]


def _drawn(trace: Trace) -> Trace:
    """The trace, if it has a timeline.

    Raises:
        BadValueError: it has none.
    """
    if not has_timeline(trace):
        raise BadValueError(str(no_timeline(trace)))
    return trace


def whole(request: ApiRequest, name: str, low: int | None = None, high: int | None = None) -> int:
    """A parameter that is a whole number."""
    bounds = {key: value for key, value in (("low", low), ("high", high)) if value is not None}
    return integer(name, request.query.get(name, ""), **bounds)


def row_of(request: ApiRequest, trace: Trace, name: str) -> int:
    """A parameter that is the row of an event."""
    row = whole(request, name)
    if not 0 <= row < len(trace):
        raise MissingError(f"rank {trace.source.rank} has no event {row}; it has {len(trace):,}")
    return row
