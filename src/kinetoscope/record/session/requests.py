"""Windows that are requested, from any thread: one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from kinetoscope.record.output.writing import WindowOutcome
from kinetoscope.record.session.options import RecordOptions

OnDone = Callable[[WindowOutcome], None] | None
"""Called with the outcome of a window."""


@dataclass(frozen=True)
class WindowRequest:
    """A window that is requested.

    Attributes:
        active: steps to record.
        warmup: steps before them.
        at_step: the first step to record, counted over the run; None: as soon as may be.
        reason: why.
        options: how to record.
        on_done: called with its outcome.
    """

    active: int
    warmup: int
    at_step: int | None
    reason: str
    options: RecordOptions
    on_done: OnDone

    def due(self, step: int) -> bool:
        """True if the window begins with the step that is about to run."""
        return self.at_step is None or step >= self.at_step - self.warmup

    def at(self, step: int) -> WindowRequest:
        """The same, begun with this step: if that is late, there is less warm-up."""
        late = 0 if self.at_step is None else step - (self.at_step - self.warmup)
        return replace(self, warmup=max(self.warmup - max(late, 0), 0))


class WindowRequests:
    """The one request that waits.

    Attributes:
        waiting: it, if there is one. Reading it is all that a step costs.
    """

    def __init__(self) -> None:
        self.waiting: WindowRequest | None = None
        self._lock = threading.Lock()

    def put(self, request: WindowRequest) -> bool:
        """Add a request; False if another one waits."""
        with self._lock:
            if self.waiting is not None:
                return False
            self.waiting = request
        return True

    def take_due(self, step: int) -> WindowRequest | None:
        """The request, if it is to begin with this step; it waits no more."""
        waiting = self.waiting
        if waiting is None or not waiting.due(step):
            return None
        with self._lock:
            waiting, self.waiting = self.waiting, None
        return None if waiting is None else waiting.at(step)

    def forget(self) -> None:
        """Drop the request. The lock is a new one: in a child of fork the old one may be held for ever."""
        self.waiting = None
        self._lock = threading.Lock()
