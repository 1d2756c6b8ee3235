"""Captured calls: the host's calls of the time when a graph was captured, as rows of the trace that replays it.

A replay is one launch and hundreds of pieces of device work without operator, shape or module. The calls that the work
was captured in stand behind the events of the file, once a replay, inside the launch: so what asks for the operator of
a kernel, for its shapes, its module or its call stack gets the same answer as for a kernel launched eagerly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s
from kinetoscope.notes import Note


class CaptureSource(IntEnum):
    """Records that tell the calls in which replayed device work was captured."""

    LAUNCH = 0
    """None does: the launch of the graph is all that is known."""
    CAPTURE = 1
    """A trace recorded while the graph was captured."""
    ANNOTATIONS = 2
    """Annotations of the nodes, by torch 2.12 and later, as arguments of the work."""
    BOTH = 3
    """Both: the annotations lie around the captured operators."""


@dataclass(frozen=True)
class CapturedCalls:
    """The captured calls of a trace.

    Attributes:
        recorded: how many rows of the trace stand in its file; those of captured calls follow.
        parent: int32 [captured calls], the row around each: a captured call, which comes first, or the launch.
        launch: int32 [captured calls], row of the launch of the replay that each belongs to.
        depth: int32 [captured calls], how many captured calls are around each.
        work: int32 [attributed work], ascending rows of device work.
        call: int32 [attributed work], row of the captured call that each was launched in.
        source: int8 [attributed work], a `CaptureSource`.
        grid, block: int64 [attributed work], codes of the launch configuration of the capture, −1 where it tells none.
        replay: int32 [attributed replays], ascending rows of their launches.
        label: int32 [attributed replays], place in `labels`.
        is_whole: bool [attributed replays], whose work is all that their capture recorded.
        labels: names of the annotations around captures, such as `capture_32_FULL`; "" for none.
        notes: sentences on what was joined, and what could not be.
    """

    recorded: int
    parent: Int32s
    launch: Int32s
    depth: Int32s
    work: Int32s
    call: Int32s
    source: Int8s
    grid: Int64s
    block: Int64s
    replay: Int32s
    label: Int32s
    is_whole: Bools
    labels: tuple[str, ...]
    notes: tuple[Note, ...] = ()

    def calls_of(self, work: Int32s) -> Int32s:
        """The captured call of some device work, −1 for none: int32, one for each row."""
        return np.append(self.call, np.int32(-1))[self._places(work)]

    def sources_of(self, work: Int32s) -> Int8s:
        """The `CaptureSource` of some device work: int8, one for each row."""
        return np.append(self.source, np.int8(CaptureSource.LAUNCH))[self._places(work)]

    def configuration_of(self, work: Int32s, name: str) -> Int64s:
        """Code of the grid or the block of some device work in its capture, −1 for none: int64, one for each row."""
        return np.append({"grid": self.grid, "block": self.block}[name], -1)[self._places(work)]

    def _places(self, work: Int32s) -> Int64s:
        """Places of some device work in `work`, −1 where it is not there."""
        place = np.searchsorted(self.work, work)
        there = place < len(self.work)
        there[there] = self.work[place[there]] == work[there]
        return np.where(there, place, -1)


def nothing_captured(recorded: int, notes: Iterable[Note]) -> CapturedCalls:
    """No captured calls, and why."""
    none = np.empty(0, np.int32)
    codes = none.astype(np.int64)
    return CapturedCalls(
        recorded=recorded,
        parent=none,
        launch=none,
        depth=none,
        work=none,
        call=none,
        source=none.astype(np.int8),
        grid=codes,
        block=codes,
        replay=none,
        label=none,
        is_whole=none.astype(np.bool_),
        labels=(),
        notes=tuple(notes),
    )
