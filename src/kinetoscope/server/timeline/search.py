"""The next or previous event whose name holds a text, and where all of them are."""

from __future__ import annotations

from typing import Any, Final

from kinetoscope.algorithms.layout.pyramid import LONGEST
from kinetoscope.model.timeline.layout import lane_of, timeline, times
from kinetoscope.model.timeline.search import Direction, by_bucket, hits, near, within
from kinetoscope.model.trace.trace import Trace

_CODES: Final = 10_000


def search_answer(
    trace: Trace, text: str, after: int | None, direction: Direction, begin: int | None, end: int | None
) -> dict[str, Any]:
    """The hit that is asked for: `at` is its place among all of `total`, from 0; −1 and null where there is none."""
    layout = timeline(trace)
    every = hits(trace, text)
    found = every
    if begin is not None or end is not None:
        low, high = (-LONGEST if begin is None else begin), (LONGEST if end is None else end)
        found = within(trace, every, layout.origin + low, layout.origin + high)
    place = near(trace, found, after, direction)
    answer: dict[str, Any] = {
        "total": len(found.rows),
        "at": place,
        "row": None,
        "matches_by_bucket": by_bucket(trace, every).tolist(),
        "codes": every.codes[:_CODES].tolist(),
    }
    if place >= 0:
        row = int(found.rows[place])
        start, stop = times(trace)
        first = int(start[row])
        lane = lane_of(trace, row)
        answer |= {
            "row": row,
            "name": trace.strings.label(int(trace.name[row])),
            "start": first - layout.origin,
            "end": max(int(stop[row]), first) - layout.origin,
            "lane": lane.id if lane else None,
            "depth": int(layout.depth[row]),
        }
    return answer
