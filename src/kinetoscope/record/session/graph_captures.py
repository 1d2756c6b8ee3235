"""Captures of CUDA graphs: each that the program makes while nothing records it becomes a trace of its own.

A replay is one launch and no operators: which operators, shapes and modules its kernels come from is seen while the
graph is captured, mostly before any window. `torch.cuda.graph`, `make_graphed_callables` and torch.compile all capture
by `CUDAGraph.capture_begin` and `capture_end`, which are wrapped here. Where a profiler records already, the capture is
in its trace. Profilers start and stop outside of captures only: both wait for the device, which ends a capture.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, Protocol

from kinetoscope.record.output import guards
from kinetoscope.record.output.delivery import TraceDelivery, resolved
from kinetoscope.record.output.guards import harmless
from kinetoscope.record.output.writing import WindowOutcome
from kinetoscope.record.session import forks, others
from kinetoscope.record.session.options import RecordOptions, rank_identity
from kinetoscope.record.session.session import ProfilerSession

CAPTURE_FOLDER: Final = "capture_traces"
"""The folder of these traces in that of the run, as engines call theirs: whoever reads the run finds them."""

WRAPPED_MARK: Final = "__kinetoscope__"
"""An attribute of the functions that are wrapped."""

MAX_CAPTURE_TRACES: Final = 512
"""Captures that are recorded in a process."""

MAX_COST_S: Final = 60.0
"""Seconds that the program waits for their recording in all."""

MAX_WRITING_S: Final = 10.0
"""Seconds that the next one waits for those that are being written."""


class WarmingUp(Protocol):
    """A recorder that may be warming up for a window when the program captures: torch has one profiler at a time."""

    def cool_down(self) -> bool:
        """Let torch's profiler go; False if there is nothing to let go of."""
        ...

    def warm_up(self) -> None:
        """Warm up again."""
        ...


class Spans(Protocol):
    """Marks of modules."""

    def attach(self, *, record_shapes: bool) -> None:
        """Begin to mark."""
        ...

    def detach(self) -> None:
        """Mark no more."""
        ...


recorders: Final[weakref.WeakSet[WarmingUp]] = weakref.WeakSet()
"""Recorders of this process."""


class GraphCaptures:
    """Records captures into the folder of a run.

    Args:
        folder: of the run: a path or a URL.
        options: how to record.
        spans: marks modules meanwhile; None: nothing does.
        say: prints a line.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        options: RecordOptions,
        *,
        spans: Callable[[], Spans | None] = lambda: None,
        say: Callable[[str], None] = guards.tell,
    ) -> None:
        self._folder = f"{resolved(folder).rstrip('/')}/{CAPTURE_FOLDER}"
        self._options = replace(options, profile_memory=False, execution_trace_observer=None)
        self._new_spans, self._say = spans, guards.TellOnce(say)
        self._lock = threading.Lock()
        self._open = 0
        self._count = 0
        self._seconds = 0.0
        self._wrapped: dict[str, Callable[..., Any]] = {}
        self._delivery: TraceDelivery | None = None
        self._session: ProfilerSession | None = None
        self._spans: Spans | None = None
        self._cooled: list[WarmingUp] = []

    def attach(self) -> None:
        """Hear of captures from here on."""
        import torch

        kind = getattr(torch.cuda, "CUDAGraph", None)
        if kind is None or self._wrapped or hasattr(kind.capture_begin, WRAPPED_MARK):
            return
        for name, wrapped in (("capture_begin", self._around_begin), ("capture_end", self._around_end)):
            function = wrapped(getattr(kind, name))
            setattr(function, WRAPPED_MARK, True)  # two recorders would record it twice
            setattr(kind, name, function)
            self._wrapped[name] = function
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forked)
        atexit.register(self.flush)

    def detach(self) -> None:
        """Hear of captures no more."""
        import torch

        for name, function in self._wrapped.items():
            if getattr(torch.cuda.CUDAGraph, name) is function:
                setattr(torch.cuda.CUDAGraph, name, function.__wrapped__)
        self._wrapped = {}

    def flush(self) -> None:
        """Wait until what was recorded is written."""
        if self._delivery is not None:
            self._delivery.writer.flush(self._options.wait_at_exit)

    def forked(self) -> None:
        """In a child of fork what is open is the parent's."""
        if self._session is not None:
            self._session.forked()
        self._session, self._delivery, self._open, self._cooled = None, None, 0, []
        self._lock = threading.Lock()
        if forks.armed():
            self._seconds = MAX_COST_S

    # --- around torch's functions

    def _around_begin(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
            self._begins()
            try:
                return original(graph, *args, **kwargs)
            except BaseException:
                self._ended(complete=False)
                raise

        return capture_begin

    def _around_end(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def capture_end(graph: Any, *args: Any, **kwargs: Any) -> Any:
            complete = False
            try:
                result = original(graph, *args, **kwargs)
                complete = True
                return result
            finally:
                self._ended(complete=complete)

        return capture_end

    @harmless(None)
    def _begins(self) -> None:
        with self._lock:
            self._open += 1
            if self._open > 1 or self._session is not None or self._spent():
                return
        began = time.monotonic()
        self._cooled = [each for each in list(recorders) if each.cool_down()]
        why = "" if others.active() else self._start()
        if why:
            self._say(f"a capture of a CUDA graph was not recorded: {why}")
        if self._session is None:
            self._warm_up()
        self._seconds += time.monotonic() - began

    def _start(self) -> str:
        """Record from here on; "" or why not."""
        if self._delivery is None:
            self._delivery = TraceDelivery(self._folder, self._options.keep_free, self._say)
        if self._delivery.busy:
            self._delivery.writer.flush(MAX_WRITING_S)
        why = self._delivery.ready()
        if why:
            return why
        session = ProfilerSession(self._options, yielding=lambda: None)
        why = session.start()
        if not why:
            self._session, self._spans = session, self._new_spans()
            if self._spans is not None:
                self._spans.attach(record_shapes=self._options.record_shapes)
        return why

    @harmless(None)
    def _ended(self, *, complete: bool) -> None:
        with self._lock:
            self._open = max(self._open - 1, 0)
            session = self._session
            if self._open or session is None:
                return
            self._session = None
        began = time.monotonic()
        if self._spans is not None:
            self._spans.detach()
            self._spans = None
        why = session.stop()
        if complete and not why:
            why = self._deliver(session)
        else:
            session.release()
        if complete and why:
            self._say(f"a capture of a CUDA graph was not kept: {why}")
        self._warm_up()
        self._seconds += time.monotonic() - began

    def _deliver(self, session: ProfilerSession) -> str:
        assert self._delivery is not None
        self._count += 1
        name = self._delivery.name(rank_identity(), self._count)
        part = self._delivery.writer.spool / f"{name}.part"
        why = self._delivery.export(session, part)
        if why:
            session.release()
            return why
        outcome = WindowOutcome(None, reason="capture")
        self._delivery.submit(part, f"{name}.pt.trace.json.gz", outcome, {}, None, session, [self._written])
        return ""

    def _written(self, outcome: WindowOutcome) -> None:
        if outcome.problem:
            self._say(outcome.problem[0].lower() + outcome.problem[1:].rstrip("."))

    def _warm_up(self) -> None:
        cooled, self._cooled = self._cooled, []
        for each in cooled:
            each.warm_up()

    def _spent(self) -> bool:
        if self._count < MAX_CAPTURE_TRACES and self._seconds < MAX_COST_S:
            return False
        self._say("no more captures of CUDA graphs are recorded: there are too many, or they take too long")
        return True
