"""The critical path on the timeline: a lane of its pieces, and the line that it takes through the other lanes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s
from kinetoscope.algorithms.layout.pyramid import Pyramid, pyramid
from kinetoscope.model.critical_path.path import CAUSES, critical_path
from kinetoscope.model.timeline.categories import MARK_KINDS
from kinetoscope.model.timeline.layout import REST, lane_of, timeline
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace
from kinetoscope.pages.critical_path import CAUSES as LABELS
from kinetoscope.server.timeline.answers import PathRun, PathRuns, TimelineGroup, TimelineLane

PATH_LANE: Final = "path"
"""The id of its lane."""

MAX_RUNS: Final = 400
"""Runs of the line in one answer."""

_NO_LANE: Final = -1


@dataclass(frozen=True)
class PathLane:
    """The pieces as a lane of one row: their pyramid, and the event of each piece, −1 for none: int32 [pieces]."""

    pyramid: Pyramid
    row: Int32s


@derived
def path_lane(trace: Trace) -> PathLane:
    """The lane of the critical paths of all steps; the kind of a piece is that of its cause."""
    path = critical_path(trace)
    kinds = np.array([_mark_kind(cause) for cause in CAUSES], np.uint8)
    order = np.arange(len(path), dtype=np.int32)
    return PathLane(
        pyramid(path.start, path.end, kinds[path.cause], order, np.array([0, len(path)], np.int64)), path.row
    )


def _mark_kind(cause: str) -> int:
    kind = LABELS[cause][0]
    return MARK_KINDS.index(kind if kind in MARK_KINDS else "other")


def path_group(trace: Trace) -> TimelineGroup:
    """The lane as one of the timeline's groups."""
    lane = TimelineLane(PATH_LANE, "critical path", 1, 0, "extra", len(path_lane(trace).row))
    return TimelineGroup(PATH_LANE, "critical path", "extra", [lane])


def path_answer(trace: Trace, begin: int, end: int) -> PathRuns:
    """The line of the path from `begin` to `end`, ns after the origin: runs of pieces in one lane, in order of time.

    Of more than MAX_RUNS the longest are told; `total` is their number before. A run is drawn at its longest piece. Its
    lane is None where nothing was recorded.
    """
    path, layout = critical_path(trace), timeline(trace)
    low, high = layout.origin + begin, layout.origin + end
    pieces = np.flatnonzero((path.end > low) & (path.start < high))
    row = path.row[pieces]
    lane = np.where(row >= 0, trace.track[row].astype(np.int64) * (REST + 1) + layout.layer[row], _NO_LANE)
    firsts = np.flatnonzero(np.diff(lane, prepend=_NO_LANE - 1) != 0)
    lengths = path.end[pieces] - path.start[pieces]
    lasts = np.append(firsts[1:], len(pieces)) - 1
    spans = path.end[pieces[lasts]] - path.start[pieces[firsts]]
    kept = np.sort(np.argsort(-spans, kind="stable")[:MAX_RUNS])
    runs = []
    for first, last in zip(firsts[kept].tolist(), lasts[kept].tolist(), strict=True):
        longest = first + int(np.argmax(lengths[first : last + 1]))
        event = int(row[longest])
        drawn = lane_of(trace, event) if event >= 0 else None
        runs.append(
            PathRun(
                row=event if event >= 0 else None,
                lane=drawn.id if drawn else None,
                depth=int(layout.depth[event]) if event >= 0 else 0,
                start=int(path.start[pieces[first]]) - layout.origin,
                end=int(path.end[pieces[last]]) - layout.origin,
                kind=LABELS[CAUSES[int(path.cause[pieces[longest]])]][0],
                pieces=last - first + 1,
            )
        )
    return PathRuns(len(firsts), runs)
