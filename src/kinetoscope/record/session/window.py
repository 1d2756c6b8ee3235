"""One window of a recorder: its plan, its steps, and the facts that go with its trace."""

from __future__ import annotations

import contextlib
import gc
import operator
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kinetoscope.record.output import guards, run_info
from kinetoscope.record.output.writing import WindowOutcome
from kinetoscope.record.session.bounds import Bounds
from kinetoscope.record.session.options import RecordOptions
from kinetoscope.record.session.session import ProfilerSession

GC_NAME: Final = "Python GC"
"""Name that torch gives such spans, which it records with stacks only."""

_OLDEST_GENERATION: Final = 2
"""Generation whose collections look at all objects; those of the younger ones take microseconds and are many."""


class Collections:
    """Spans of Python's garbage collector, which stops the thread that it runs on and leaves no mark itself.

    While this is open, each collection of the oldest generation is a span.
    """

    def __init__(self) -> None:
        self._span: Any = None

    def open(self) -> None:
        """Begin."""
        gc.callbacks.append(self._happens)

    def close(self) -> None:
        """End."""
        with contextlib.suppress(ValueError):
            gc.callbacks.remove(self._happens)

    def _happens(self, phase: str, info: dict[str, int]) -> None:
        """The interpreter calls this before and after each collection, on its thread; only one is under way."""
        with contextlib.suppress(Exception):  # what is raised here nobody can catch
            if phase == "start" and info.get("generation") == _OLDEST_GENERATION:
                import torch

                self._span = torch.profiler.record_function(GC_NAME)
                self._span.__enter__()
            elif phase == "stop" and self._span is not None:
                span, self._span = self._span, None
                span.__exit__(None, None, None)


@dataclass
class RecordingWindow:
    """A window that is being recorded.

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

    session: ProfilerSession
    reason: str
    options: RecordOptions
    warmup: int
    active: int
    on_done: list[Callable[[WindowOutcome], None]]
    resident: guards.ResidentMemory
    bounds: Bounds
    provisional: bool = False
    steps: list[dict[str, Any]] = field(default_factory=list)
    clocks: list[dict[str, Any]] = field(default_factory=list)
    began: int | None = None
    step_began: int = 0
    span: Any = None
    watch: guards.LimitWatch | None = None
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
        """The step ended, or was cut off."""
        self.collections.close()
        span, self.span = self.span, None
        if span is not None:
            with contextlib.suppress(Exception), guards.untraced():
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
        """The window records no more: end its watch, and call `on_end`."""
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            guards.harmless(None)(on_end)()
        if self.watch is not None:
            self.watch.end()

    def forked(self) -> None:
        """In a child of fork the window is the parent's: the span of the step stays open there."""
        self.collections.close()
        self.session.forked()
        self.ended()

    def facts(self) -> dict[str, Any]:
        """Facts of the window for its sidecar."""
        return {
            "options": run_info.recorded(self.options),
            "reason": self.reason,
            "steps": self.steps[:100_000],
            "clocks": self.clocks,
        }

    def clock(self, at: str) -> None:
        """Note the time on both clocks."""
        self.clocks.append({"at": at, **run_info.clocks()})


def _count(samples: object) -> int | None:
    """Samples as an integer that JSON can hold; None where they are none. They may be NumPy's, or a tensor."""
    try:
        count = operator.index(samples)  # type: ignore[arg-type] # raises for what is no integer
    except Exception:  # noqa: BLE001 - a user's own class may do anything
        return None
    return count if 0 <= count < 1 << 63 else None
