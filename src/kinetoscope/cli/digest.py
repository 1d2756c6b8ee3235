"""What the summary says: a few numbers and sentences, found in the results of five analyses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """A share of the average step: the column of `step_breakdown`, its words, nanoseconds."""

    name: str
    label: str
    time: float


@dataclass(frozen=True, slots=True)
class Step:
    """A step, or a rank where there are many: its words and its nanoseconds."""

    label: str
    time: float


@dataclass(frozen=True, slots=True)
class Top:
    """A row of a short table: nanoseconds, and the share of the time of all rows of the whole table."""

    name: str
    kind: str
    calls: int
    time: float
    share: float


@dataclass(frozen=True, slots=True)
class Digest:
    """Everything on the screen, in the order of the screen."""

    name: str
    facts: tuple[str, ...]
    headline: str
    advice: str
    parts: tuple[Part, ...]
    steps_are: str
    steps: tuple[Step, ...]
    spread: str
    tops: tuple[tuple[str, tuple[Top, ...]], ...]
    health: tuple[tuple[str, str], ...]
    commands: tuple[tuple[str, str], ...]
