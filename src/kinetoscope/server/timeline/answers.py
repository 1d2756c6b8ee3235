"""Answers of the timeline's endpoints, besides tiles and events. Times are ns after the first event of the rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class TimelineLane:
    """A lane: rows of marks, or the curve of a counter.

    Attributes:
        id: unique in its rank.
        title: in words.
        depth: rows of marks, one beneath the other.
        sort: its place in the group.
        kind: the group's kind; of a counter the kind of mark that has its colour.
        events: number of its events; of a counter 0.
        outer: the first rows that are almost empty: the frames around the training loop.
        slices: of a stream that replays graphs the depth at which each replay is one slice, all that is seen of the
            folded lane. Deeper ones, of replays and of the calls in them, stand above the work itself.
        unit: of a counter's levels.
        max: of a counter: the level at the top of the lane; None where there is no greatest one.
    """

    id: str
    title: str
    depth: int
    sort: int
    kind: str
    events: int = 0
    outer: int = 0
    slices: int | None = None
    unit: str = ""
    max: float | None = None


@dataclass(frozen=True, slots=True)
class TimelineGroup:
    """Lanes with a common title; `extra` is not in the trace as a lane. `collapsed`: folded until it is asked for."""

    id: str
    title: str
    kind: Literal["steps", "counter", "host", "device", "extra"]
    lanes: Sequence[TimelineLane] = ()
    collapsed: bool = False


@dataclass(frozen=True, slots=True)
class TimelineStep:
    """A step as the device sees it, and when the host was in it; `steady`: neither a warm-up nor an empty last one."""

    step: int
    start: int
    end: int
    host_start: int
    host_end: int
    steady: bool


@dataclass(frozen=True, slots=True)
class RankLanes:
    """The lanes of a rank; `offset` is added to its times so that clocks agree, `more` lanes are not listed."""

    rank: int
    offset: int
    groups: Sequence[TimelineGroup]
    more: int
    steps: Sequence[TimelineStep]


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A stretch of time, in ns."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Minimap:
    """The share of each bucket of `bucket` ns that each kind of device work fills; host work where there is none."""

    start: int
    bucket: int
    busy: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class TimelineLanes:
    """The lanes of some ranks on one clock, and what is shown `home`, at first; None: all of it."""

    version: str
    ranks: Sequence[RankLanes]
    start: int
    end: int
    home: TimeSpan | None
    minimap: Minimap
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class PathRun:
    """A stretch of the critical path in one lane, at its longest piece; nothing was recorded where `lane` is None."""

    row: int | None
    lane: str | None
    depth: int
    start: int
    end: int
    kind: str
    pieces: int


@dataclass(frozen=True, slots=True)
class PathRuns:
    """The line of the critical path: the longest of `total` runs, in order of time."""

    total: int
    runs: Sequence[PathRun]


@dataclass(frozen=True, slots=True)
class KindTime:
    """Time of a kind of device work, the mean of the devices."""

    kind: str
    ns: int


@dataclass(frozen=True, slots=True)
class TopOfRange:
    """A name that takes much of the time of a range; `label` is its short form, `row` its longest event."""

    name: str
    label: str
    kind: str
    ns: int
    calls: int
    row: int
    side: Literal["device", "host"]
    hue: int


@dataclass(frozen=True, slots=True)
class ModuleTime:
    """Time of a class of modules, and its colour."""

    name: str
    hue: int
    ns: int


@dataclass(frozen=True, slots=True)
class RangeAnswer:
    """A range: a sentence, facts, the busy share of each device, and what took the most time.

    `modules` are those with the most time; none where colours are not by module.
    """

    sentence: str
    facts: Sequence[str]
    busy: Mapping[str, float]
    by_kind: Sequence[KindTime]
    top: Sequence[TopOfRange]
    modules: Sequence[ModuleTime] = ()


@dataclass(frozen=True, slots=True)
class RankOccurrence:
    """An event of a rank among those of its name and kind in an area: its place in time, and their number."""

    rank: int
    row: int
    place: int
    total: int
