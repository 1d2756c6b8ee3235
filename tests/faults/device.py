"""The device of a simulated program: streams in order, one queue of launches, waits for events. It only keeps times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

QUEUE: Final = 1024
"""Launches that may wait for the device before the next launch call waits, too."""

_WAY: Final = 2_500
"""ns from the end of a launch call to the start on an idle stream."""

_GAP: Final = 1_000
"""ns between two pieces of work on a stream."""


@dataclass
class Device:
    """When streams are free.

    Attributes:
        ends: of each stream, when its last work ends, ns.
        waits: of each stream, until when what is launched next on it has to wait for events.
    """

    ends: dict[int, int] = field(default_factory=dict)
    waits: dict[int, int] = field(default_factory=dict)
    _starts: list[int] = field(default_factory=list)

    def room(self, now: int) -> int:
        """When a launch call that begins now can put its work into the queue."""
        return max(now, self._starts[-QUEUE]) if len(self._starts) >= QUEUE else now

    def submit(self, called: int, stream: int, duration: int) -> tuple[int, int]:
        """Work whose launch call ends at `called`; when it starts and ends."""
        free = self.ends.get(stream)
        start = max(called + _WAY, self.waits.get(stream, 0), 0 if free is None else free + _GAP)
        end = start + duration
        self.ends[stream] = end
        self._starts.append(start)
        return start, end

    def follow(self, previous: int, stream: int, duration: int, gap: int) -> tuple[int, int]:
        """Work of a graph right behind other work of it."""
        start = previous + gap
        self.ends[stream] = start + duration
        return start, start + duration

    def wait(self, stream: int, until: int) -> None:
        """What comes next on a stream waits."""
        self.waits[stream] = max(self.waits.get(stream, 0), until)

    def end(self, stream: int | None = None) -> int:
        """When all that was launched on a stream, or anywhere, is over; 0 if there is nothing."""
        if stream is not None:
            return max(self.ends.get(stream, 0), self.waits.get(stream, 0))
        return max(self.ends.values(), default=0)
