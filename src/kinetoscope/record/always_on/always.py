"""A short window every so many steps, for as long as the job runs, at a cost that stays within a budget.

What a window costs is measured: the time of its steps beyond the median of those around it, with the start, the stop
and the export that happen between them. The next window waits until this, and as much again for the window itself, is
within 85 % of the budget of all the time since the first step; so the interval grows where windows are dear. What the
history of the run asks for comes first (`wanted_windows`): windows at intervals leave room for one more. Without a
history a step of more than 1.5 times the median opens a window: what slows one step often slows those after it.
"""

from __future__ import annotations

import contextlib
import math
import socket
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from kinetoscope.record.always_on import mailbox
from kinetoscope.record.history.wishes import WindowWish
from kinetoscope.record.output.dropped_windows import leave_to_drop

SLOW_STEP_RATIO: Final = 1.5
"""A step this many times longer than the median is slow."""

_MIN_STEPS: Final = 10
"""Steps whose median says something."""

_MAX_STEPS: Final = 101

_COSTS_REMEMBERED: Final = 8
"""Windows of which the dearest says what the next may cost."""

_BUDGET_SHARE: Final = 0.85
"""Share of the budget that is used: about a tenth of what windows cost cannot be seen from inside the job."""

_WINDOW_SHARE: Final = 0.5
"""Share of the budget that windows have even where the counting of steps takes more than the rest."""

LEAD_S: Final = 3.0
"""Seconds before a step that several ranks are asked to record it."""

AT_INTERVALS: Final = "every"
SLOW_STEP: Final = "slow step"

_MAX_LEFT: Final = 8
"""Windows that wait to be removed by somebody else, of a process."""

_MAX_DROP_NOTES: Final = 100
"""Windows that were dropped of which other ranks still find a note."""


class SamplingSchedule:
    """When to record.

    Attributes:
        every: steps between windows, at least.
        budget: share of the time that windows may cost.
        warmup, active: steps of a window.
        spent: seconds that windows have cost so far.
        counting: seconds that it took between windows to see that steps end.
        sees_changes: a history says what is wanted.
        wish: what it wants next; None for nothing.
        before: steps that the run had before this process.
        lead: seconds before its step that a wish is passed on.
    """

    def __init__(self, every: int, budget: float, warmup: int = 1, active: int = 3) -> None:
        self.every, self.budget, self.warmup, self.active = every, budget, warmup, active
        self.spent = self.counting = self.lead = 0.0
        self.sees_changes = False
        self.wish: WindowWish | None = None
        self.before = 0
        self._steps: deque[float] = deque(maxlen=_MAX_STEPS)
        self._usual = 0.0
        self._began: float | None = None
        self._last = 0
        self._open = False
        self._this = 0.0
        self._costs: deque[float] = deque(maxlen=_COSTS_REMEMBERED)

    def want(self, wish: WindowWish) -> None:
        """A window is wanted, as some other thread says; a change takes the place of what is none."""
        if self.wish is None or (wish.is_change and not self.wish.is_change):
            self.wish = wish

    def after_step(self, ended: int, took: float, *, recorded: bool, now: float) -> WindowWish | None:
        """The window that is to be opened after this step; None if none is.

        `ended` is the number of steps so far, `took` how long the last one took, s, with what was done for a window in
        it; `recorded`: a window was open in it; `now`: a clock, s.
        """
        if self._began is None:
            self._began = now
            return None  # how long the first took is not known
        if recorded:
            self._open = True
            self.charge(max(took - self._usual, 0.0))
            return None
        if self._open:
            self._close(ended)
        enough = len(self._steps) >= _MIN_STEPS and not self.sees_changes
        slow = enough and took > SLOW_STEP_RATIO * self._usual
        self._steps.append(took)
        if len(self._steps) <= _MIN_STEPS or ended % _MIN_STEPS == 0:  # a median of 101 numbers costs 10 µs
            self._usual = median(self._steps)
        if self.wish is not None and (wish := self._due(ended, now)) is not None:
            return wish
        if not (slow or ended - self._last >= self.every) or not self._can_afford(now, windows=2 if not slow else 1):
            return None
        self._last = ended
        kind = SLOW_STEP if slow else AT_INTERVALS
        return WindowWish(kind, kind, took=took)

    def _due(self, ended: int, now: float) -> WindowWish | None:
        """The wish, if its step has come and the budget allows it; what has a step and missed it is given up."""
        wish = self.wish
        if wish is None:
            return None
        left = wish.first - self.before - self.warmup - ended if wish.first else 0
        if left > (math.ceil(self.lead / self._usual) if self.lead and self._usual else 0):
            return None
        if left >= 0 and self._can_afford(now):
            self.wish, self._last = None, ended
            return wish
        if left < 0 or not wish.is_change:
            self.wish = None
        return None

    def note(self, now: float, *, ended: bool) -> dict[str, Any]:
        """The note of the cost up to now, to be left for `kinetoscope record`; `ended`: the program has."""
        return {
            "host": socket.gethostname(),
            "began": self._began,
            "now": now,
            "ended": ended,
            "spent": self.spent,
            "counting": self.counting,
            "step": self._usual,
        }

    def charge(self, seconds: float) -> None:
        """Add what the window costs, or has cost besides its steps."""
        self.spent += seconds
        self._this += seconds

    def _close(self, ended: int) -> None:
        self._costs.append(self._this)
        self._this = 0.0
        self._open = False
        self._last = ended

    def _can_afford(self, now: float, windows: int = 1) -> bool:
        """True if so many windows are within the budget, if they cost as much as the dearest of late.

        The counting of steps comes first; windows have half of the budget even if they then cannot keep to it.
        """
        whole = self.budget * (now - (self._began or now))
        room = max(_BUDGET_SHARE * whole - self.counting, _WINDOW_SHARE * whole)
        return self.spent + windows * max(self._costs, default=0.0) <= room


@dataclass(frozen=True)
class RecordingCost:
    """The cost of recording for a process since its first step.

    Attributes:
        seconds: since then.
        windows: share of the time that went to windows: to start, stop and export, and their slower steps.
        counting: share of the time that went to seeing where steps end.
        step: the usual time of a step, s.
    """

    seconds: float
    windows: float
    counting: float
    step: float

    @property
    def share(self) -> float:
        """All of it."""
        return self.windows + self.counting

    def said(self, budget: float) -> str:
        """The end of a sentence about the traces; where the budget was not kept to, why."""
        cost = f"which cost {self.share:.2%} of the time"
        if self.share <= budget:
            return cost
        if self.counting > _WINDOW_SHARE * budget:
            why = f"steps of {1e3 * self.step:.3g} ms are so short that counting them takes {self.counting:.2%}"
        else:
            took = self.windows * self.seconds
            needed = took / (budget - self.counting)
            why = f"windows took {took:.2g} s, for which the job would have to last {needed:,.0f} s"
        return f"{cost}, more than the {100 * budget:.3g}% allowed: {why}"


def cost_of(note: Mapping[str, Any], ended: float) -> RecordingCost | None:
    """The cost that a process left a note of; None if it took no two steps.

    A process that was killed could not say how long it ran: its last note is of its last window, `ended` when whoever
    had started it saw it end, by the same clock.
    """
    began, now = note.get("began"), note.get("now")
    if not isinstance(began, float) or not isinstance(now, float) or now <= began:
        return None
    last = now if note.get("ended") or note.get("host") != socket.gethostname() else max(now, ended)
    return RecordingCost(
        last - began,
        float(note["spent"]) / (last - began),
        float(note["counting"]) / (now - began),
        float(note["step"]),
    )


@dataclass(frozen=True)
class KeptWindow:
    """A window that is on disk.

    Attributes:
        number: the first step that it recorded.
        took: the step that opened it, s.
        files: its trace, what belongs to it, and the note that it is there.
        cause: what it was opened for.
    """

    number: int
    took: float
    files: tuple[str, ...]
    cause: str = AT_INTERVALS

    @property
    def is_wanted(self) -> bool:
        """True if it was opened for more than its turn, or a step that was slow, which its time says."""
        return self.cause not in (AT_INTERVALS, SLOW_STEP)


class KeptWindows:
    """The windows of a run that are kept: the newest, the slowest, and the newest of changes.

    The leader's choice holds for all ranks.
    """

    def __init__(self, control: Path, keep: int, *, leads: bool, name: str = "") -> None:
        """`name`: of the process, where `kinetoscope record` summarises what is to be removed; else ""."""
        self._dropped, self._keep, self._leads = control / "dropped", keep, leads
        self._control, self._name = control, name
        self._left: deque[tuple[Path, KeptWindow]] = deque()
        self._kept: dict[int, KeptWindow] = {}
        self._drop_notes: deque[Path] = deque()

    @property
    def kept(self) -> Sequence[KeptWindow]:
        """The windows that are kept, the oldest first."""
        return tuple(self._kept.values())

    def add(self, window: KeptWindow) -> None:
        """Keep this one, and remove what is among none of the newest, the slowest and those of changes any more."""
        self._kept[window.number] = window
        if not self._keep:
            return
        if self._leads:
            newest = sorted(self._kept)[-self._keep :]
            slowest = sorted(self._kept, key=lambda number: (self._kept[number].took, number))[-self._keep :]
            wanted = [number for number in sorted(self._kept) if self._kept[number].is_wanted][-self._keep :]
            for number in sorted(set(self._kept) - {*newest, *slowest, *wanted}):
                self._note_drop(number)
                self._remove(number)
        else:
            for name in mailbox.read_all(self._dropped):
                if name.isdecimal() and int(name) in self._kept:
                    self._remove(int(name))

    def _note_drop(self, number: int) -> None:
        """Leave a note for the other ranks, and take an old one away."""
        self._drop_notes.append(self._dropped / str(number))
        with contextlib.suppress(OSError):
            mailbox.leave(self._drop_notes[-1], {})
            if len(self._drop_notes) > _MAX_DROP_NOTES:
                self._drop_notes.popleft().unlink()

    def _remove(self, number: int) -> None:
        window = self._kept.pop(number)
        if not self._name:
            remove_files(window.files)
            return
        with contextlib.suppress(OSError):
            note = leave_to_drop(self._control, f"{self._name}.{number}", window.files)
            self._left.append((note, window))
        while len(self._left) > _MAX_LEFT:
            note, window = self._left.popleft()
            if note.exists():  # nobody has looked for long
                remove_files((*window.files, str(note)))


def remove_files(files: Iterable[str]) -> None:
    """Remove files by path or URL; those that cannot be removed stay."""
    for file in files:
        if "://" in file:
            _remove_remote(file)
        else:
            with contextlib.suppress(OSError):
                Path(file).unlink()


def _remove_remote(url: str) -> None:
    import fsspec

    with contextlib.suppress(Exception):  # a store raises what it likes; the trace stays then
        fsspec.core.url_to_fs(url)[0].rm(url)
