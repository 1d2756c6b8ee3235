"""The windows of a recorder, one at a time: from torch's start to the trace that is handed over to be written."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from kinetoscope.record.output import guards
from kinetoscope.record.output.delivery import TraceDelivery
from kinetoscope.record.session.bounds import TIME_OVER, Bounds
from kinetoscope.record.session.recorded_events import RecordedEvents
from kinetoscope.record.session.requests import WindowRequest
from kinetoscope.record.session.session import ProfilerSession
from kinetoscope.record.session.signals import MidStepInterrupt
from kinetoscope.record.session.window import RecordingWindow


class WindowRunner:
    """Runs windows, on the thread that records, in sections that no handler of signals cuts in two.

    Attributes:
        window: the window that runs.
        asked_to_stop: "" or why another thread wants it to end; it ends with the step.
    """

    def __init__(
        self,
        delivery: TraceDelivery,
        interruption: MidStepInterrupt,
        *,
        listen: Callable[[], None],
        make_way: Callable[[], None],
        tell: Callable[[str], None],
    ) -> None:
        """`listen` is called when a window begins to record, `make_way` when another profiler is about to."""
        self.window: RecordingWindow | None = None
        self.asked_to_stop = ""
        self._delivery, self._interruption = delivery, interruption
        self._listen, self._make_way, self._tell = listen, make_way, tell
        self._resident = guards.ResidentMemory()

    def open(
        self,
        asked: WindowRequest,
        step: int,
        *,
        provisional: bool = False,
        on_ready: Callable[[Any], Any] | None = None,
        on_end: Callable[[], Any] | None = None,
    ) -> bool:
        """Begin a window with the step that is about to run; if that fails, `on_done` gets the reason."""
        on_done = [asked.on_done] if asked.on_done is not None else []
        why = "a window is running" if self.window is not None else self._delivery.ready()
        if not why:
            self.asked_to_stop = ""
            session = ProfilerSession(asked.options, light=provisional, yielding=self._make_way)
            self.window = window = RecordingWindow(
                session,
                asked.reason,
                asked.options,
                asked.warmup,
                asked.active,
                on_done,
                self._resident,
                Bounds(
                    asked.options,
                    RecordedEvents(asked.options, light=provisional),
                    self._resident.bytes,
                    guards.free_memory(),
                ),
                provisional,
                on_ready=on_ready,
                on_end=on_end,
            )
            window.watch = guards.LimitWatch(
                window.bounds.check, functools.partial(self._too_much, window), window.bounds.pause
            )
            if asked.warmup <= 0:
                why = self._begin(window, step)
            else:
                why = session.prepare()
                if why:
                    self._forget(window)
        if why:
            self._delivery.refuse(why, on_done, asked.reason)
        return not why

    def advance(self, window: RecordingWindow, ended: int, step: int, samples: int | None) -> None:
        """A step of the window ended, and the next is about to run."""
        if window.began is None:
            window.bounds.step()
            window.warmup -= 1
            why = self._begin(window, step) if window.warmup <= 0 else ""
            if why:
                self._delivery.refuse(why, window.on_done, window.reason)
            return
        window.close_step(ended, samples, whole=True)
        why = self.asked_to_stop or window.bounds.step()
        if why or len(window.steps) >= window.active:
            self._end(window, "" if len(window.steps) >= window.active else why)
        else:
            window.open_step(step)

    def cut(self, window: RecordingWindow, step: int, reason: str) -> None:
        """Stop recording; whether the trace is wanted shows later."""
        window.cut = reason
        window.ended()
        window.close_step(step, None, whole=False)
        window.session.stop()

    def stop(self, window: RecordingWindow, step: int, reason: str, *, keep: bool) -> None:
        """End the window in the midst of a step."""
        reason = self.asked_to_stop or window.bounds.ended or reason
        if window.began is None:
            self._forget(window)
            window.session.stop()
            window.session.release()
            if keep:
                self._delivery.refuse(reason or "its first step did not come", window.on_done, window.reason)
            return
        window.close_step(step, None, whole=False)
        self._end(window, reason, keep=keep)

    def cool_down(self) -> bool:
        """Let torch's profiler go, if a window warms up or is provisional; False if none is."""
        window = self.window
        if window is None or window.cut or (window.began is not None and not window.provisional):
            return False
        if window.began is not None:  # it begins anew: what it has so far is worth less than a capture
            window.close_step(window.began, None, whole=False)
        window.session.stop()
        window.session.release()
        return True

    def warm_up(self) -> None:
        """Warm up again for the window that did, and begin a provisional one anew."""
        window = self.window
        if window is None or window.cut or (window.began is not None and not window.provisional):
            return
        window.session = ProfilerSession(window.options, light=window.provisional, yielding=self._make_way)
        if window.began is None:
            why = window.session.prepare()
        else:
            why = window.session.start()
            if not why:
                window.bounds.begin()
                window.open_step(window.began)
        if why:
            self._forget(window)
            self._delivery.refuse(why, window.on_done, window.reason)

    def forked(self) -> None:
        """In a child of fork, the window is the parent's."""
        window, self.window, self.asked_to_stop = self.window, None, ""
        if window is not None:
            window.forked()

    def close(self) -> None:
        """No window comes any more."""
        self._resident.close()

    def _begin(self, window: RecordingWindow, step: int) -> str:
        """Record from here on; "" or why not."""
        began = time.perf_counter()
        window.clock("start")
        why = window.session.start()
        if why:
            self._forget(window)
            return why
        window.began = step
        window.bounds.begin()
        self._listen()
        window.start_seconds = time.perf_counter() - began
        window.open_step(step)
        return ""

    def _too_much(self, window: RecordingWindow, why: str) -> None:
        """End the window, in the midst of the step if possible; called on the watching thread."""
        if self.window is window:
            self.asked_to_stop = why
            self._interruption.raise_for(why)

    def _forget(self, window: RecordingWindow) -> None:
        """The window is no longer the one that runs."""
        self.window, self.asked_to_stop = None, ""
        window.ended()

    def _end(self, window: RecordingWindow, truncated: str, *, keep: bool = True) -> None:
        """Stop torch's profiler; its trace is delivered, or dropped."""
        self._forget(window)
        self._interruption.rest()
        events = window.bounds.recorded().events
        window.clock("stop")
        before = time.perf_counter()
        why = window.session.lost if window.cut else window.session.stop()
        truncated = window.cut or ("" if truncated == TIME_OVER else truncated)
        if not keep:
            window.session.release()
            return
        if truncated:
            self._tell(f"recording ended early: {truncated}")
        self._delivery.deliver(window, why, truncated, events, time.perf_counter() - before)
