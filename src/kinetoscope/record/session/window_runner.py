"""Where the windows of a recorder run, one at a time: from torch's start to what is handed over to be written."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, Final

from kinetoscope.record.output import guards
from kinetoscope.record.output.delivery import Delivery
from kinetoscope.record.session.bounds import Bounds
from kinetoscope.record.session.requests import Request
from kinetoscope.record.session.session import Session
from kinetoscope.record.session.signals import Interruption
from kinetoscope.record.session.window import Window

_HIDDEN: Final = 32 << 20
"""Free bytes of the heap that a window would take before the process is seen to grow."""


class Stage:
    """Everything here is done by the thread that records, in a section that no handler of signals cuts in two.

    Attributes:
        window: the window that runs.
        asked_to_stop: "" or why another thread wants it to end; it ends with the step.
    """

    def __init__(
        self,
        delivery: Delivery,
        interruption: Interruption,
        *,
        listen: Callable[[], None],
        make_way: Callable[[], None],
        tell: Callable[[str], None],
    ) -> None:
        """`listen` is called when a window begins to record, `make_way` when another profiler is about to."""
        self.window: Window | None = None
        self.asked_to_stop = ""
        self._delivery, self._interruption = delivery, interruption
        self._listen, self._make_way, self._tell = listen, make_way, tell
        self._resident = guards.Resident()

    def open(
        self,
        asked: Request,
        step: int,
        *,
        provisional: bool = False,
        on_ready: Callable[[Any], Any] | None = None,
        on_end: Callable[[], Any] | None = None,
    ) -> bool:
        """Begin a window with the step that is about to run; if it cannot be, whoever asked is told why."""
        on_done = [asked.on_done] if asked.on_done is not None else []
        why = "a window is running" if self.window is not None else self._delivery.ready()
        if not why:
            self.asked_to_stop = ""
            guards.trim(_HIDDEN)
            session = Session(asked.options, light=provisional, yielding=self._make_way)
            self.window = window = Window(
                session,
                asked.reason,
                asked.options,
                asked.warmup,
                asked.active,
                on_done,
                self._resident,
                Bounds(asked.options, self._resident.bytes, guards.free_memory()),
                provisional,
                on_ready=on_ready,
                on_end=on_end,
            )
            window.watch = guards.Watch(
                window.bounds.look, functools.partial(self._too_much, window), window.bounds.pause
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

    def advance(self, window: Window, ended: int, step: int, samples: int | None) -> None:
        """A step of the window ended, and the next is about to run."""
        if window.began is None:
            window.bounds.step()
            window.warmup -= 1
            why = self._begin(window, step) if window.warmup <= 0 else ""
            if why:
                self._delivery.refuse(why, window.on_done, window.reason)
            return
        window.close_step(ended, samples, whole=True)
        why = self.asked_to_stop or window.bounds.step(window.steps[-1]["resident_bytes"])
        if why or len(window.steps) >= window.active:
            self._end(window, "" if len(window.steps) >= window.active else why)
        else:
            window.open_step(step)

    def cut(self, window: Window, step: int, reason: str) -> None:
        """Record no more; whether what was recorded is wanted shows later."""
        window.cut = reason
        window.ended()
        window.close_step(step, None, whole=False)
        window.session.stop()

    def stop(self, window: Window, step: int, reason: str, *, keep: bool) -> None:
        """End the window in the midst of a step."""
        if window.began is None:
            self._forget(window)
            window.session.stop()
            window.session.release()
            if keep:
                self._delivery.refuse(reason or "its first step did not come", window.on_done, window.reason)
            return
        window.close_step(step, None, whole=False)
        self._end(window, reason, keep=keep)

    def forked(self) -> None:
        """In a child of fork, the window is the parent's."""
        window, self.window, self.asked_to_stop = self.window, None, ""
        if window is not None:
            window.forked()

    def close(self) -> None:
        """No window comes any more."""
        self._resident.close()

    def _begin(self, window: Window, step: int) -> str:
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

    def _too_much(self, window: Window, why: str) -> None:
        """Called on the thread that watches: the window is to end, in the midst of the step if that can be."""
        if self.window is window:
            self.asked_to_stop = why
            self._interruption.raise_for(why)

    def _forget(self, window: Window) -> None:
        """It is no longer the one that runs."""
        self.window, self.asked_to_stop = None, ""
        window.ended()

    def _end(self, window: Window, truncated: str, *, keep: bool = True) -> None:
        """Stop torch's profiler; what it recorded is delivered, or forgotten."""
        self._forget(window)
        self._interruption.rest()
        grown = window.bounds.grown()
        window.clock("stop")
        before = time.perf_counter()
        why = window.session.lost if window.cut else window.session.stop()
        truncated = window.cut or truncated
        if not keep:
            window.session.release()
            return
        if truncated:
            self._tell(f"recording ended early: {truncated}")
        self._delivery.deliver(window, why, truncated, grown, time.perf_counter() - before)
