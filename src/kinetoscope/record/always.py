"""A short window every so many steps, for as long as the job runs, at a cost that stays within a budget.

What a window costs is measured: the time of its steps beyond that of the steps around it, with the start, the stop and
the export that happen between them. The next window waits until this cost, and the expected cost of the next, are
within the budget of all the time since the first step; so the interval grows where windows are dear. A step that takes
more than 1.5 times the median opens a window too, within the same budget: what slows a step often slows those after it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

SLOW: Final = 1.5
"""A step this many times longer than the median is slow."""

_FEW: Final = 10
"""Steps whose median says something."""

_MANY: Final = 101


@dataclass
class Always:
    """When to record: told of each step, it answers with a wish.

    Attributes:
        every: steps between windows, at least.
        budget: share of the time that windows may cost.
        spent: seconds that windows have cost so far.
        windows: how many there were.
    """

    every: int
    budget: float
    warmup: int = 1
    active: int = 3
    spent: float = 0.0
    windows: int = 0
    _steps: deque[float] = field(default_factory=lambda: deque(maxlen=_MANY))
    _began: float | None = None
    _cost: float = 0.0
    _last: int = 0

    def after_step(self, ended: int, took: float, *, recorded: bool, now: float) -> dict[str, Any] | None:
        """What to ask for after this step, if anything.

        `ended` is the number of steps so far, `took` how long the last one took, s, with what a window did in it;
        `recorded` if a window was open; `now` a clock, s.
        """
        if self._began is None:
            self._began = now
            return None  # how long the first took is not known
        if recorded:
            self._charge(took)
            return None
        usual = median(self._steps) if len(self._steps) >= _FEW else None
        if self._cost:
            self._close(ended)
        self._steps.append(took)
        reason = "slow step" if usual is not None and took > SLOW * usual else ""
        if not reason and ended - self._last >= self.every:
            reason = "every"
        if not reason or not self._affordable(now):
            return None
        self._last = ended
        return {"steps": self.active, "warmup": self.warmup, "reason": reason}

    def _charge(self, took: float) -> None:
        extra = max(took - median(self._steps), 0.0) if self._steps else took
        self.spent += extra
        self._cost += extra

    def charge(self, seconds: float) -> None:
        """Add what a window cost besides its steps."""
        self.spent += seconds
        self._cost += seconds

    def _close(self, ended: int) -> None:
        self.windows += 1
        self._expected = max(self._cost, self._expected / 2)
        self._cost = 0.0
        self._last = ended

    _expected: float = 0.0

    def _affordable(self, now: float) -> bool:
        elapsed = now - (self._began or now)
        return self.spent + self._expected <= self.budget * elapsed or (not self.windows and not self.spent)


@dataclass(frozen=True)
class Window:
    """A window that is on disk.

    Attributes:
        number: the step that it began at.
        slowest: the longest of its steps, or the step that opened it, s.
        files: its traces and what belongs to them.
    """

    number: int
    slowest: float
    files: tuple[str, ...]


class Kept:
    """The newest and the slowest windows; the rest is removed."""

    def __init__(self, keep: int, remove: Callable[[str], None]) -> None:
        self._keep, self._remove = keep, remove
        self._windows: list[Window] = []

    @property
    def windows(self) -> Sequence[Window]:
        """What is kept, the oldest first."""
        return tuple(self._windows)

    def add(self, window: Window) -> None:
        """Keep this one, and remove what is neither among the newest nor among the slowest any more."""
        self._windows.append(window)
        if not self._keep:
            return
        newest = sorted(self._windows, key=lambda each: each.number)[-self._keep :]
        slowest = sorted(self._windows, key=lambda each: (each.slowest, each.number))[-self._keep :]
        for each in [each for each in self._windows if each not in newest and each not in slowest]:
            self._windows.remove(each)
            for file in each.files:
                self._remove(file)
