"""The answers about a run that goes on, as the page gets them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinetoscope.pages.blocks import RunMark


@dataclass(frozen=True, slots=True)
class HistoryState:
    """How far a run is.

    Attributes:
        rows: steps and marks of all ranks that are read; the cursor of everything else.
        reading: files that are not read yet for the first time.
        ranks: how many have steps.
        first, end: number of the first step, and of the one after the last.
        age: seconds since the newest step ended; None without one.
        ended: every rank has said that it ended.
        error: why no more can be read; "" where nothing is wrong.
    """

    rows: int
    reading: int
    ranks: int
    first: int
    end: int
    age: float | None
    ended: bool
    error: str


@dataclass(frozen=True, slots=True)
class HistoryTile:
    """Buckets of step times; null where there is no step.

    Attributes:
        size: steps of a bucket; first: number of the first step of the first one.
        fastest, median, slowest: of each bucket, ns; rank: whose step took longest, −1 for none.
        ranks: words for each row of `behind`.
        behind: of each row the thousandths by which its slowest rank is above the median, by bucket.
        marks: what happened in these steps.
        whole: nothing can come any more that changes it.
    """

    size: int
    first: int
    fastest: Sequence[float | None]
    median: Sequence[float | None]
    slowest: Sequence[float | None]
    rank: Sequence[int]
    ranks: Sequence[str]
    behind: Sequence[Sequence[int | None]]
    marks: Sequence[RunMark]
    whole: bool
