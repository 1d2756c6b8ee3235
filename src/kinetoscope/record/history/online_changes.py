"""Changes of a run that goes on, seen by the thread that writes its history: what the next windows are to show.

A new level of step time, memory that grows, single steps that take long and those after which others may (evaluations,
compilations). What comes back at even distances is wanted once more, when it is due again. Steps that were recorded,
and those in which a trace was written, do not count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Final

from kinetoscope.record.history import layout
from kinetoscope.record.history.layout import Mark
from kinetoscope.record.history.online_levels import LevelChange, OnlineCreep, OnlineLevel
from kinetoscope.record.history.wishes import CauseLimits, WindowWish

BLOCK: Final = 10
"""Steps of a block."""

SLOW_STEP_RATIO: Final = 1.5
"""Times the level that a slow step takes."""

_BLOCKS_UNTIL_AGAIN: Final = 20
"""Blocks after a change after which a window shows whether it lasts."""

_WINDOWS_OF_CHANGE: Final = 3
_SPIKE_SPREADS: Final = 6.0
_USUAL_TIMES: Final = 1.5
"""Times what a twentieth of the steps are above the level that a slow one is above it."""

_STEPS_REMEMBERED: Final = 200
_BLOCKS_REMEMBERED: Final = 256
_PARTS: Final = ("data", "gap", "forward", "optimizer", "backward")
"""Parts in the order in which ranks wait less for each other in them."""

_MIN_PERIOD: Final = 20
_STEPS_AFTER: Final = {"evaluation": "an evaluation", "compile": "a compilation"}
"""Kinds of marks after which steps may differ."""

_WORDS: Final = {"save": "a save", "collection": "garbage collection", "": "nothing says why"}


@dataclass
class _Block:
    """Steps that are not a block yet."""

    times: list[float] = field(default_factory=list)
    parts: list[tuple[float, ...]] = field(default_factory=list)
    first: int = 0
    used: float = 0.0
    resident: float = 0.0


class OnlineDetector:
    """A look at the rows of a process, as they come.

    Attributes:
        recorded: numbers of steps from which on windows, or the writing of their traces, are under way, and from which
            on not any more, in turns.
        step: number of the last one seen.
    """

    def __init__(self) -> None:
        self.recorded: list[int] = []
        self.step = self._end = 0
        self._level = OnlineLevel()
        self._used, self._resident = OnlineCreep(), OnlineCreep()
        self._block = _Block()
        self._usual: deque[tuple[float, ...]] = deque(maxlen=50)
        self._firsts: deque[int] = deque(maxlen=_BLOCKS_REMEMBERED)
        self._times: deque[float] = deque(maxlen=_STEPS_REMEMBERED)
        self._slow = float("inf")
        self._marks: deque[tuple[str, int, int]] = deque(maxlen=64)
        self._places: dict[str, deque[int]] = {}
        self._limits = CauseLimits()
        self._lasting: tuple[LevelChange, int, WindowWish] | None = None
        self._since: list[float] = []

    def see(self, rows: Iterable[tuple[Any, ...]], marks: Iterable[Mark]) -> list[WindowWish]:
        """The windows that are wanted after these rows, as `layout.FIELDS` has them, and marks."""
        wishes: list[WindowWish | None] = []
        for mark in marks:
            if mark[0] in _STEPS_AFTER and self._level.value:
                wishes.append(self._after(mark[0], mark[2]))
            if mark[0] != "window":
                self._marks.append((mark[0], mark[3], mark[4]))
        for row in rows:
            wishes += self._step(row)
        return [each for each in wishes if each is not None]

    def _step(self, row: tuple[Any, ...]) -> Iterator[WindowWish | None]:
        start, duration, data, forward, backward, optimizer, _, used, _, resident, _, step = row
        end, before = start + int(duration), self._end
        self.step, self._end = step, end
        if not before or bisect_right(self.recorded, step) % 2:
            return
        time = end - before
        known = (data, start - before, forward, optimizer, backward)
        parts = tuple(each if each == each else 0.0 for each in known)
        if time > self._slow:
            yield self._spike(step, before, time, parts)
        self._times.append(time)
        block = self._block
        block.first = block.first if block.times else step
        block.times.append(time)
        block.parts.append(parts)
        block.used, block.resident = _least(block.used, used, 512), _least(block.resident, resident, 1024)
        if len(block.times) == BLOCK:
            self._block = _Block()
            yield from self._whole(block, step)

    def _whole(self, block: _Block, step: int) -> Iterator[WindowWish | None]:
        """A block is whole."""
        parts = tuple(_middle(each) for each in zip(*block.parts, strict=True))
        time = _middle(block.times)
        change = self._level.add(time)
        self._firsts.append(block.first)
        self._usual.append(parts)
        if change is not None:
            yield self._change(change, step)
        elif self._lasting is not None:
            yield self._lasts(time, step)
        if len(self._times) >= _STEPS_REMEMBERED // 4 and step % (5 * BLOCK) < BLOCK:
            self._slow = self._slow_from()
        for creep, memory, name in ((self._used, block.used, "in use"), (self._resident, block.resident, "resident")):
            grown = creep.add(memory) if memory else None
            if grown is not None and self._limits.allows(f"memory {name}", step, 1):
                low, high = (f"{each / 1e9:.3g}" for each in grown)
                yield WindowWish(f"memory {name}", f"memory {name} grows: {low} → {high} GB by step {step:,}")

    def _change(self, change: LevelChange, step: int) -> WindowWish | None:
        since = self._firsts[-min(change.blocks, len(self._firsts))]
        count = min(change.blocks, len(self._usual) - 1)
        usual = list(self._usual)
        before, after = (
            [_middle(each) for each in zip(*some, strict=True)] for some in (usual[:-count], usual[-count:])
        )
        size = change.after - change.before
        part = _largest([new - old for old, new in zip(before, after, strict=True)], size)
        share = size / change.before
        said = f"steps take {abs(share):.0%} {'longer' if share > 0 else 'less'} from step {since:,} on"
        if change.is_drift:
            said = f"steps have come to take {abs(share):.0%} {'longer' if share > 0 else 'less'} by step {step:,}"
        if part:
            place = _PARTS.index(part)
            said += f": {part} {_ms(before[place])} → {_ms(after[place])} ms"
        cause = f"change {part} {'longer' if share > 0 else 'less'}"
        wish = WindowWish(cause, said, part=part, size=size, took=change.after / 1e9)
        self._lasting, self._since, self._slow = (change, since, wish), [], float("inf")
        self._times.clear()
        self._usual = deque(usual[-count:], self._usual.maxlen)
        if not self._limits.allows(cause, step, _WINDOWS_OF_CHANGE):
            self._lasting = None
            return None
        return wish

    def _lasts(self, time: float, step: int) -> WindowWish | None:
        """One more block after a change: a while later one more window is wanted, if it lasts."""
        assert self._lasting is not None
        self._since.append(time)
        if len(self._since) < _BLOCKS_UNTIL_AGAIN:
            return None
        (change, since, wish), self._lasting = self._lasting, None
        size, now = change.after - change.before, median(self._since) - change.before
        if now / size < 0.5 or not self._limits.allows(wish.cause, step, _WINDOWS_OF_CHANGE):
            return None
        share = now / change.before
        said = f"steps still take {abs(share):.0%} {'longer' if share > 0 else 'less'} than before step {since:,}"
        return replace(wish, reason=said, size=now, took=time / 1e9)

    def _slow_from(self) -> float:
        """The time from which on a step is slow."""
        times = sorted(self._times)
        middle = times[len(times) // 2]
        spread = 1.4826 * median(abs(each - middle) for each in times)
        usual = times[int(0.95 * (len(times) - 1))] - middle
        return max(SLOW_STEP_RATIO * middle, middle + _SPIKE_SPREADS * spread, middle + _USUAL_TIMES * usual)

    def _spike(self, step: int, before: int, time: float, parts: tuple[float, ...]) -> WindowWish | None:
        """A step that took long."""
        middle = median(self._times)
        excess = time - middle
        what = next(
            (
                kind
                for kind, start, end in reversed(self._marks)
                if min(end, self._end) - max(start, before) > excess / 2
            ),
            "",
        )
        if what in _STEPS_AFTER:
            return None  # the steps after it are looked at anyway
        usual = [_middle(each) for each in zip(*self._usual, strict=True)]
        what = what or _largest([now - old for old, now in zip(usual, parts, strict=True)], excess)
        said = f"slow step: step {step:,} took {time / middle:.2g} times as long ({_WORDS.get(what, what)})"
        now = WindowWish(f"spike {what}", said, size=excess, took=time / 1e9)
        again = f"slow steps: each {{period}} steps one takes longer ({_WORDS.get(what, what)}); step {{step}} is next"
        return self._recurs(now, step, again, ahead=1)

    def _after(self, kind: str, step: int) -> WindowWish | None:
        """The first steps after something."""
        again = (
            f"the first steps after {_STEPS_AFTER[kind]}, which comes each {{period}} steps, before step {{step}} next"
        )
        return self._recurs(
            WindowWish(f"after {kind}", f"the first steps after {_STEPS_AFTER[kind]}"), step, again, ahead=0
        )

    def _recurs(self, now: WindowWish, step: int, again: str, *, ahead: int) -> WindowWish | None:
        """The wish after the first time; when it is known at what distance it comes, one for the next time."""
        places = self._places.setdefault(now.cause, deque(maxlen=4))
        if not places or step > places[-1]:
            places.append(step)
        gaps = [after - before for before, after in zip(places, list(places)[1:], strict=False)]
        if len(gaps) == 3 and min(gaps) >= _MIN_PERIOD and max(gaps) - min(gaps) <= 1:
            if not self._limits.allows(f"{now.cause} again", step, 1):
                return None
            due = step + sorted(gaps)[1]
            said = again.format(period=f"{sorted(gaps)[1]:,}", step=f"{due:,}")
            return WindowWish(f"{now.cause} again", said, first=due - ahead, size=now.size, took=now.took)
        return now if self._limits.allows(now.cause, step, 1) else None


def _largest(changes: Sequence[float], size: float) -> str:
    """The first part that makes up half of a change; "" if none does."""
    return next((part for part, change in zip(_PARTS, changes, strict=True) if size and change / size >= 0.5), "")


def _least(least: float, value: int, unit: int) -> float:
    if value == layout.UNKNOWN_INTEGER:
        return least
    return min(least, value * unit) if least else value * unit


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def _ms(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.3g}"
