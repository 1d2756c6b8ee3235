"""One cycle of torch.profiler, started and stopped only in ways that torch survives.

Avoided are, as each ends a process or loses a trace in torch 2.13: a handler that raises (there is none: each
cycle is a fresh `profile` without schedule); stopping on another thread; starting while another profiler runs or warms
up on any thread; starting what was prepared before another profiler came; saving twice. Where another profiler is
started while ours runs, ours ends first and both keep what they recorded; where ours cannot end in time, as its thread
is busy elsewhere, what it recorded is lost, and the other's is whole.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any

from kinetoscope.record.output.guards import described
from kinetoscope.record.session import forks, others
from kinetoscope.record.session.options import RecordOptions


class ProfilerSession:
    """A cycle of a profiler: `prepare` (for a device), `start`, `stop`, `export`, each of which returns "" or a reason.

    Attributes:
        lost: "" or why what was recorded is gone.
    """

    def __init__(self, options: RecordOptions, *, light: bool = False, yielding: Callable[[], Any]) -> None:
        """`yielding` is called when another profiler is about to start, on its thread; it has this session stopped."""
        others.watch()
        self.lost = ""
        self._thread = threading.get_ident()
        self._yielding = yielding
        self._running = self._prepared = False
        self._stacks = options.with_stack and not light
        self._profiler: Any = _profiler(options, light)
        self._export: Any = self._profiler.export_chrome_trace
        # torch saves a cycle once, and that once is ours; a user's handler gets the exporter that can be asked again.
        self._profiler.export_chrome_trace = functools.partial(_again, self._export)

    @property
    def profiler(self) -> Any:
        """The profiler of torch."""
        return self._profiler

    def prepare(self) -> str:
        """Start what is slow to start (CUPTI and kin); its records are dropped until `start`."""
        if others.active():
            return others.PROBLEM
        if getattr(self._profiler, "use_device", None) is None:
            return ""
        self._prepared = True
        return self._begin(self._profiler.prepare_trace)

    def start(self) -> str:
        """Record from now on."""
        if others.active():
            return others.PROBLEM
        if self.lost:
            return self.lost
        start = self._profiler.start_trace if self._prepared else self._profiler.start
        self._running, self._prepared = True, False
        return self._begin(start)

    def _begin(self, function: Callable[[], Any]) -> str:
        forks.arm()
        others.listen(self._make_way)
        why = self._call(function)
        if why:
            self._running = self._prepared = False
            others.forget(self._make_way)
        return why

    def stop(self) -> str:
        """Record no more; only on the thread that started it."""
        others.forget(self._make_way)
        if self._prepared and not self.lost:
            # What was prepared cannot be dropped: torch wants it started and stopped.
            self._prepared = False
            return self._call(self._profiler.start_trace) or self._call(self._profiler.stop_trace)
        if not self._running:
            return self.lost or "it does not record"
        self._running = False
        if threading.get_ident() != self._thread:
            self.lost = "it was started on another thread"
        elif self.lost:
            forks.drop(self._profiler, stacks=self._stacks)
        elif not others.active():
            self.lost = "something else stopped torch's profiler"
        self.lost = self.lost or self._call(self._profiler.stop)
        return self.lost

    def _call(self, function: Callable[[], Any]) -> str:
        try:
            with others.ours(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function()
        except Exception as error:  # noqa: BLE001 - torch raises anything here
            return described(error)
        return ""

    def forked(self) -> None:
        """In a child of fork: this is the parent's."""
        import torch.autograd.profiler as autograd

        if self._running or self._prepared:
            self._running = self._prepared = False
            forks.drop(self._profiler, stacks=self._stacks and threading.get_ident() == self._thread, alone=True)
            autograd._is_profiler_enabled = False

    def export(self, path: str, *, plainly: bool = False) -> str:
        """Write the trace: once by the fast exporter, or `plainly` by the one in Python, which escapes names."""
        try:
            self._export(path, use_python_export=True) if plainly else self._export(path)
        except Exception as error:  # noqa: BLE001 - torch raises anything here
            return described(error)
        return ""

    def release(self) -> None:
        """Free the recorded events now, not when the garbage collector runs."""
        if self._profiler is not None:
            self._profiler.profiler = None
        self._profiler = self._export = None

    def _make_way(self) -> None:
        """Another profiler is about to start, on this thread: after this, nothing of ours may record."""
        self._yielding()
        if self._running or self._prepared:
            self.lost = "another profiler was started on another thread"


def _again(export: Any, path: str, use_python_export: bool = True) -> None:  # noqa: ARG001 - as torch has it
    export(path, use_python_export=True)


class ExportedCycle:
    """A cycle of a profiler that is not ours, to be exported as a session is."""

    def __init__(self, profiler: Any) -> None:
        # The user's profiler goes on to its next cycle while this one is being written.
        self._cycle: Any = profiler.profiler
        self._metadata = dict(getattr(profiler, "_trace_metadata", None) or {})
        self._export = profiler.export_chrome_trace

    def export(self, path: str, *, plainly: bool = False) -> str:
        """Write the trace, as `ProfilerSession.export` does."""
        try:
            if plainly:
                self._cycle.export_chrome_trace(path, self._metadata, use_python_export=True)
            else:
                self._fast(path)
        except Exception as error:  # noqa: BLE001 - torch raises anything here
            return described(error)
        return ""

    def _fast(self, path: str) -> None:
        try:
            self._export(path)
        except RuntimeError:  # it was saved before, by the user or by another handler
            self._cycle.export_chrome_trace(path, self._metadata, use_python_export=True)

    def release(self) -> None:
        """Let go of it."""
        self._cycle = self._export = None


def _profiler(options: RecordOptions, light: bool) -> Any:
    """A `torch.profiler.profile` of these options; a light one records as little as can be."""
    import torch.profiler

    extra: dict[str, Any] = {}
    config = options.experimental_config
    if options.all_threads and config is None:
        config = _all_threads()
    if config is not None:
        extra["experimental_config"] = config
    if options.execution_trace_observer is not None and not light:
        extra["execution_trace_observer"] = options.execution_trace_observer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.profiler.profile(
            activities=_activities(options.activities),
            record_shapes=options.record_shapes and not light,
            profile_memory=options.profile_memory and not light,
            with_stack=options.with_stack and not light,
            with_flops=options.with_flops and not light,
            with_modules=options.with_modules and not light,
            **extra,
        )


def _activities(asked: Any) -> Any:
    if asked is None:
        return None
    from torch.profiler import ProfilerActivity

    known = {name.lower(): value for name, value in ProfilerActivity.__members__.items()}
    return [known.get(each.lower(), each) if isinstance(each, str) else each for each in asked]


def _all_threads() -> Any:
    """A configuration under which threads of Python are recorded; None where this torch has none."""
    import torch

    kind = getattr(getattr(torch._C, "_profiler", None), "_ExperimentalConfig", None)
    try:
        return kind(profile_all_threads=True) if kind is not None else None
    except TypeError:
        return None
