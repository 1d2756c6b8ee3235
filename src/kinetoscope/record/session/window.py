"""One window of a recorder: its plan, what was seen of each step, and the facts that go with its trace."""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kinetoscope.record.output import guards, run_info
from kinetoscope.record.output.writing import Written
from kinetoscope.record.session.bounds import Bounds
from kinetoscope.record.session.collector import Collections
from kinetoscope.record.session.options import Options
from kinetoscope.record.session.session import Session


@dataclass
class Window:
    """What is being recorded.

    Attributes:
        session: torch's part of it.
        reason: why it is recorded.
        options: how.
        warmup: steps still to come before it records.
        active: steps to record.
        on_done: called with what became of it.
        steps: one entry a finished step, for the sidecar.
        began: the first step recorded; None while it warms up.
        span: the step's own span in the trace, while it is open.
        bounds: how far it may go.
        provisional: it is thrown away if a step ever ends.
        cut: why a provisional one records no more, though it may still be wanted.
        collections: spans of the garbage collector, while a step is recorded.
        on_ready, on_end: what to call once it is exported, and before it stops.
    """

    session: Session
    reason: str
    options: Options
    warmup: int
    active: int
    on_done: list[Callable[[Written], None]]
    resident: guards.Resident
    bounds: Bounds
    provisional: bool = False
    steps: list[dict[str, Any]] = field(default_factory=list)
    clocks: list[dict[str, Any]] = field(default_factory=list)
    began: int | None = None
    step_began: int = 0
    span: Any = None
    watch: guards.Watch | None = None
    start_seconds: float = 0.0
    on_ready: Callable[[Any], Any] | None = None
    on_end: Callable[[], Any] | None = None
    cut: str = ""
    collections: Collections = field(default_factory=Collections)

    def open_step(self, number: int) -> None:
        """A step begins: its span in the trace carries its number in the run."""
        import torch

        self.step_began = time.time_ns()
        self.span = torch.profiler.record_function(f"ProfilerStep#{number}")
        self.span.__enter__()
        self.collections.open()

    def close_step(self, number: int, samples: int | None, *, whole: bool) -> None:
        """It ended, or was cut off."""
        self.collections.close()
        span, self.span = self.span, None
        if span is not None:
            span.__exit__(None, None, None)
        if whole:
            facts: dict[str, Any] = {
                "step": number,
                "profiler_step": number,
                "start_ns": self.step_began,
                "end_ns": time.time_ns(),
                "samples": _count(samples),
                "resident_bytes": self.resident.bytes(),
            }
            memory = run_info.device_memory()
            if memory:
                facts["device_memory"] = memory
            self.steps.append(facts)

    def ended(self) -> None:
        """Nobody watches it any more, and whoever wants to know hears that it records no more."""
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            guards.harmless(None)(on_end)()
        if self.watch is not None:
            self.watch.end()

    def forked(self) -> None:
        """In a child of fork: it is the parent's. The span of the step stays open there, and here says nothing."""
        self.collections.close()
        self.session.forked()
        self.ended()

    def clock(self, at: str) -> None:
        """Note what the clocks say."""
        self.clocks.append({"at": at, **run_info.clocks()})


def _count(samples: object) -> int | None:
    """As an integer that JSON can hold: it may be one of NumPy's, or a tensor; None where it is none."""
    try:
        found = operator.index(samples)  # type: ignore[arg-type] # what is none raises
    except Exception:  # noqa: BLE001 - a user's own class may do anything
        return None
    return found if 0 <= found < 1 << 63 else None


class Run:
    """What holds for the whole run, found out once, and off the training thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Any] | None = None

    def about(self, window: Window, place: Any, name: str, written: Written, export_seconds: float) -> dict[str, Any]:
        """The sidecar of one window."""
        with self._lock:
            if self._known is None:
                self._known = run_info.collect(window.options, place)
        return run_info.fits(
            {
                **self._known,
                "rank": place.rank,
                "world": place.world,
                "options": run_info.recorded(window.options),
                "about": run_info.plain(window.options.about),
                "trace": name,
                "reason": run_info.plain(window.reason),
                "truncated": run_info.plain(written.truncated),
                "first_step": written.first_step,
                "last_step": written.last_step,
                "steps": window.steps[:100_000],
                "clocks": window.clocks,
                "costs": {
                    "start_seconds": window.start_seconds,
                    "stop_seconds": written.stop_seconds,
                    "export_seconds": export_seconds,
                },
                "export": "torch",
            }
        )
