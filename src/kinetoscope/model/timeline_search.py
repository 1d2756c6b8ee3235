"""Events found by a part of their name, in order of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.packing import by_number
from kinetoscope.model.timeline import timeline, times
from kinetoscope.model.trace import Trace

Direction = Literal["next", "previous"]

BUCKETS: Final = 512

_CODE, _NAME = "code", "name"


@dataclass(frozen=True)
class Hits:
    """What was found.

    Attributes:
        rows: int32 [hits], by start, then by row; start: int64 [hits], ns as the file counts them.
        codes: int32 [names], the names that match, ascending.
    """

    rows: NDArray[np.int32]
    start: NDArray[np.int64]
    codes: NDArray[np.int32]


def hits(trace: Trace, text: str) -> Hits:
    """The events that are drawn and have `text` in their name, whatever the case. Ask by `trace.of`."""
    names, found = trace.of(_names), trace.of(_by_name)
    codes = names.filter(pl.col(_NAME).str.contains(text.lower(), literal=True))[_CODE].to_numpy()
    parts = [found.rows[found.offsets[code] : found.offsets[code + 1]] for code in codes.tolist()]
    rows = np.sort(np.concatenate([np.empty(0, np.int32), *parts]))
    start = times(trace)[0][rows]
    order = np.argsort(start, kind="stable")
    return Hits(rows[order], start[order], codes)


def near(trace: Trace, found: Hits, after: int | None, direction: Direction) -> int:
    """The place of the hit that follows a row in time, or comes before it; at the end it begins anew. −1 for none.

    Without a row it is the first one, or the last.
    """
    if not len(found.rows):
        return -1
    if after is None:
        return 0 if direction == "next" else len(found.rows) - 1
    time = times(trace)[0][after]
    low, high = (int(np.searchsorted(found.start, time, side)) for side in ("left", "right"))
    same = found.rows[low:high]  # of one instant, by row
    if direction == "next":
        place = low + int(np.searchsorted(same, after, side="right"))
    else:
        place = low + int(np.searchsorted(same, after, side="left")) - 1
    return place % len(found.rows)


def within(found: Hits, begin: int, end: int) -> Hits:
    """Those that start from `begin` to before `end`, ns as the file counts them."""
    low, high = np.searchsorted(found.start, [begin, end]).tolist()
    return Hits(found.rows[low:high], found.start[low:high], found.codes)


def by_bucket(trace: Trace, found: Hits) -> NDArray[np.int64]:
    """How many start in each of BUCKETS equal stretches of the timeline: int64 [BUCKETS]."""
    layout = trace.of(timeline)
    bucket = max(-(-layout.end // BUCKETS), 1)
    edges = layout.origin + bucket * np.arange(1, BUCKETS, dtype=np.int64)
    cuts = np.searchsorted(found.start, edges)
    return np.diff(np.concatenate([[0], cuts, [len(found.rows)]]))


@dataclass(frozen=True)
class _ByName:
    """The events that are drawn, by name: int32 [drawn]; int64 [strings + 1], where those of each name begin."""

    rows: NDArray[np.int32]
    offsets: NDArray[np.int64]


def _by_name(trace: Trace) -> _ByName:
    drawn = np.flatnonzero((trace.of(timeline).layer >= 0) & (trace.name >= 0)).astype(np.int32)
    return _ByName(*by_number(trace.name, drawn, len(trace.strings)))


def _names(trace: Trace) -> pl.DataFrame:
    """The names of what is drawn, in lower case."""
    codes = np.flatnonzero(np.diff(trace.of(_by_name).offsets)).astype(np.int32)
    texts = [trace.strings.glance(code).lower() for code in codes.tolist()]
    return pl.DataFrame({_CODE: codes, _NAME: pl.Series(texts, dtype=pl.String)})
