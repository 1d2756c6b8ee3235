"""Limits of a window in memory, events and time, checked from outside the thread that records.

Torch does not say how many events it holds, so they are estimated from memory: resident bytes that the process has
grown by since the window began to record. Between two steps that is what was recorded. Within a step it may be what
the step itself needs; so it counts as recorded only once the step takes longer than those before it. To stop, torch
needs many times what recording took, and that belongs to what a window may take.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from kinetoscope.record.session.options import RecordOptions

BYTES_PER_EVENT: Final = 300
"""Resident bytes of an event while it is recorded: 210 without shapes to 470, as measured with torch 2.13."""

STOP_GROWTH_RATIO: Final = 12
"""Bytes of growth once torch has stopped and exported, for each byte of growth before: 7 to 11 measured."""

MIN_LONG_STEP_S: Final = 5.0
"""Seconds below which no step is a long one."""

MAX_GROWTH_BYTES_PER_S: Final = 300_000_000
"""Bytes by which the events of one thread grow in a second at most: 200 to 300 million measured with torch 2.13."""

TIME_OVER: Final = "the time that was to be recorded is over"
"""The reason for which a window of a fixed time ends: it is no early end."""

MAX_PAUSE_S: Final = 0.1
MIN_PAUSE_S: Final = 0.01
"""Seconds between two checks of a window."""

_OVERDUE_RATIO: Final = 2.0
"""Ratio to the longest step before it from which on a step is not like the others."""


class Bounds:
    """The limits of one window: the thread that records reports each step, the one that watches checks.

    Attributes:
        ended: "" or why the window is to end, whatever its limits; any thread may set it.
    """

    def __init__(
        self,
        options: RecordOptions,
        resident: Callable[[], int],
        free: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`resident` measures the memory of the process; `free` is what the machine could still give."""
        self.ended = ""
        self._options, self._resident, self._clock = options, resident, clock
        self._most = options.max_memory
        self._half = free // 2
        self._before = self._highest = resident()
        self._longest = 0.0
        self._began = self._step_began = clock()
        self._recording = False
        self._at_step = self._checked = 0
        self._checked_at = self._began
        self._rate = 0.0

    def begin(self) -> None:
        """The window records from now on."""
        self._recording = True
        self._before = self._resident()
        self._highest = max(self._highest, self._before)
        self._began = self._step_began = self._checked_at = self._clock()

    def step(self, resident: int | None = None) -> str:
        """A step ended; "" or, in a few words, what is over its limit."""
        now = self._clock()
        self._longest, self._step_began = max(self._longest, now - self._step_began), now
        if not self._recording or self.ended:
            return self.ended
        self._at_step = max((self._resident() if resident is None else resident) - self._before, 0)
        return self._over(self._at_step, self._at_step, 0.0)

    def check(self) -> str:
        """In the midst of a step: "" or what is over its limit."""
        if self.ended:
            return self.ended
        resident, took = self._resident(), self._clock() - self._step_began
        if not self._recording:
            self._highest = max(self._highest, resident)
            return ""
        grown = max(resident - self._highest, 0)
        if not self._longest:  # nothing is known of its steps: what it grew by may be what a step needs
            return self._over(grown, 0, took) or self._events(grown)
        return self._over(grown, grown if took > _OVERDUE_RATIO * self._longest else self._at_step, took)

    def pause(self) -> float:
        """Seconds until the next check: growth up to then leaves half of the room below the limits."""
        limits = (self._most / STOP_GROWTH_RATIO, self._options.max_events * BYTES_PER_EVENT)
        room = min((limit for limit in limits if limit), default=float("inf")) - self._checked
        return min(max(room / 2 / max(self._rate, MAX_GROWTH_BYTES_PER_S), MIN_PAUSE_S), MAX_PAUSE_S)

    def grown(self) -> int:
        """Bytes since it began to record."""
        return max(self._resident() - self._before, 0)

    def _over(self, grown: int, recorded: int, took: float) -> str:
        now, growth = self._clock(), max(recorded - self._checked, 0)
        ahead = recorded + growth  # by the next check
        self._rate = growth / max(now - self._checked_at, MIN_PAUSE_S)
        self._checked, self._checked_at = recorded, now
        if self._most and grown > self._most:
            return f"memory grew by {_mega(grown)} MB (limit {_mega(self._most)} MB)"
        if self._most and ahead * STOP_GROWTH_RATIO > self._most:
            whole = _mega(recorded * STOP_GROWTH_RATIO)
            return f"what it recorded takes some {whole} MB of memory to stop (limit {_mega(self._most)} MB)"
        if self._half and grown * STOP_GROWTH_RATIO > self._half:
            return f"memory grew by {_mega(grown)} MB, and {_mega(2 * self._half)} MB were free"
        return self._events(recorded) or self._time(took)

    def _events(self, recorded: int) -> str:
        most = self._options.max_events
        return f"more than {most} events" if most and recorded > most * BYTES_PER_EVENT else ""

    def _time(self, took: float) -> str:
        seconds = self._options.seconds
        if seconds:
            return TIME_OVER if self._clock() - self._began > seconds else ""
        most, longest = self._options.max_step, self._longest
        if most and longest and took > max(most * longest, MIN_LONG_STEP_S):
            return f"a step took longer than {took:.1f} s, {took / longest:.0f} times the longest before it"
        if self._clock() - self._began > self._options.max_seconds:
            return f"it took longer than {self._options.max_seconds:g} s"
        return ""


def _mega(size: int) -> int:
    return size // 1_000_000
