"""Limits of a window in memory, events and time, checked from outside the thread that records.

What counts is what the recording takes, not what the job grows by: the events so far (`recorded_events`), times the
memory of each once torch has stopped and exported, which is several times what it was before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from kinetoscope.record.session.options import RecordOptions
from kinetoscope.record.session.recorded_events import Recorded, RecordedEvents

MIN_LONG_STEP_S: Final = 5.0
"""Seconds below which no step is a long one."""

MAX_BYTES_PER_S: Final = 2_500_000_000
"""Memory for the events of one thread, in a second at most: 0.6 million of 3,700 bytes measured with torch 2.13."""

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
        events: RecordedEvents,
        resident: Callable[[], int],
        free: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`events` counts what is recorded, `resident` measures the process; `free` is what the machine could give."""
        self.ended = ""
        self._options, self._events, self._resident, self._clock = options, events, resident, clock
        self._most, self._free = options.max_memory, free
        self._before = resident()
        self._longest = 0.0
        self._began = self._step_began = clock()
        self._recording = False
        self._checked = 0
        self._checked_at = self._began
        self._rate = 0.0

    def begin(self) -> None:
        """The window records from now on."""
        self._recording = True
        self._events.begin()
        self._began = self._step_began = self._checked_at = self._clock()

    def step(self) -> str:
        """A step ended; "" or, in a few words, what is over its limit."""
        now = self._clock()
        self._longest, self._step_began = max(self._longest, now - self._step_began), now
        self._events.step()
        if not self._recording or self.ended:
            return self.ended
        return self._over(self._events.now(whole=False), 0.0)

    def check(self) -> str:
        """In the midst of a step: "" or what is over its limit."""
        if self.ended or not self._recording:
            return self.ended
        took = self._clock() - self._step_began
        # Of what C's heap grew by, what a step needs for itself is recorded only once the step is not like the others.
        return self._over(self._events.now(whole=took > _OVERDUE_RATIO * self._longest > 0), took)

    def pause(self) -> float:
        """Seconds until the next check: what is recorded up to then leaves half of the room below the limit."""
        room = self._most - self._checked if self._most else float("inf")
        return min(max(room / 2 / max(self._rate, MAX_BYTES_PER_S), MIN_PAUSE_S), MAX_PAUSE_S)

    def recorded(self) -> Recorded:
        """The amount that was recorded since it began."""
        return self._events.now(whole=False)

    def _over(self, recorded: Recorded, took: float) -> str:
        now, growth = self._clock(), max(recorded.bytes - self._checked, 0)
        ahead = recorded.bytes + growth  # by the next check
        self._rate = growth / max(now - self._checked_at, MIN_PAUSE_S)
        self._checked, self._checked_at = recorded.bytes, now
        what = f"its {recorded.events} events take some {_mega(recorded.bytes)} MB of memory to stop"
        if self._most and ahead > self._most:
            passed = "" if recorded.bytes > self._most else ", which the next would pass"
            return f"{what} (limit {_mega(self._most)} MB{passed})"
        free = self._free - max(self._resident() - self._before, 0)
        if self._free and recorded.bytes > max(free, 0) / 2:
            return f"{what}, and {_mega(free)} MB are free"
        most = self._options.max_events
        return f"more than {most} events" if most and recorded.events > most else self._time(took)

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
    return max(size, 0) // 1_000_000
