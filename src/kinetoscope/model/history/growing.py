"""A run that may still be going on: its step times at any scale, its marks, and how far it is."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from kinetoscope.model.history.bands import Bands, RankLevels, bands, step_times
from kinetoscope.model.history.series import MARKS

COLUMNS: Final = ("rank", "attempt", "step", "start", "end", "backward")
"""Columns of STEPS that are needed."""

END: Final = "end"
"""The kind of the mark with which a rank ends."""


@dataclass
class GrowingRun:
    """The steps of all ranks so far; threads may add and ask at the same time.

    Attributes:
        rows: steps and marks that were added: the cursor of who follows it.
        newest: when the last one of them ended, ns since 1970; 0 where there is none.
    """

    rows: int = 0
    newest: int = 0
    _ranks: dict[int, RankLevels] = field(default_factory=dict)
    _before: dict[tuple[int, int], int] = field(default_factory=dict)
    _marks: list[pl.DataFrame] = field(default_factory=lambda: [MARKS.empty()])
    _ended: set[tuple[int, int]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, steps: pl.DataFrame, marks: pl.DataFrame) -> None:
        """Add new rows of one rank and attempt, in order of time.

        Raises:
            BrokenTraceError: the numbers of its steps are none.
        """
        with self._lock:
            self.rows += steps.height + marks.height
            if marks.height:
                self._marks = [pl.concat([*self._marks, marks])]
                self._ended |= {*marks.filter(kind=END).select("rank", "attempt").iter_rows()}
            if steps.height:
                rank = int(steps["rank"][0])
                self._ranks.setdefault(rank, RankLevels(rank)).add(*step_times(steps, self._before))
                self.newest = max(self.newest, int(steps["end"][-1]))

    @property
    def ranks(self) -> list[RankLevels]:
        """The ranks that have steps, by number."""
        return [self._ranks[rank] for rank in sorted(self._ranks)]

    @property
    def first(self) -> int:
        """Number of the first step."""
        return min((each.first for each in self._ranks.values()), default=0)

    @property
    def end(self) -> int:
        """Number of the step after the last one."""
        return max((each.end for each in self._ranks.values()), default=0)

    @property
    def settled(self) -> int:
        """Number of the step up to which all ranks have come."""
        return min((each.end for each in self._ranks.values()), default=0)

    @property
    def has_ended(self) -> bool:
        """Test for a mark of the end of the last attempt of each rank."""
        last: dict[int, int] = {}
        for rank, attempt in self._before:
            last[rank] = max(last.get(rank, 0), attempt)
        return bool(last) and {*last.items()} <= self._ended

    def bands(self, size: int, low: int, high: int, rows: int) -> Bands | None:
        """Buckets over all ranks, see `bands.bands`; None without a step."""
        with self._lock:
            return bands(self.ranks, size, low, high, rows) if self._ranks else None

    def marks(self, first: int = 0, last: int = 1 << 62) -> pl.DataFrame:
        """The marks that start in the steps from `first` to `last`."""
        return self._marks[0].filter(pl.col("step").is_between(first, last))
