"""`trace_handler(dir)`: for those who keep their own torch.profiler.profile(on_trace_ready=...)."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kinetoscope.record.output import compile_log, memory_snapshots, run_info
from kinetoscope.record.output.delivery import TraceDelivery, resolved
from kinetoscope.record.output.guards import harmless, tell
from kinetoscope.record.output.writing import WindowOutcome
from kinetoscope.record.session.options import DEFAULTS, RecordOptions, rank_identity
from kinetoscope.record.session.session import ExportedCycle


def trace_handler(
    dir: str | os.PathLike[str],  # noqa: A002 - the name that users type
    options: RecordOptions = DEFAULTS,
    *,
    on_done: Callable[[WindowOutcome], None] | None = None,
) -> Callable[[Any], None]:
    """A handler for `torch.profiler.profile(on_trace_ready=...)` that never raises, and never leaves half a file.

    It has torch export plain JSON; the rest (check, compression, name with rank and step, sidecar) happens beside the
    training. An exception in a handler may end the process; here it is a line on standard error.

    Args:
        dir: where the traces go: a folder, or a URL that fsspec knows.
        options: `run` and `about` go into the sidecar; `keep_free` and `memory_snapshot` are honoured.
        on_done: called with what became of each trace, on the writer's thread.

    Example:
        >>> torch.profiler.profile(schedule=..., on_trace_ready=kinetoscope.trace_handler("runs/baseline"))
    """
    return _Handler(resolved(dir), options, on_done)


class _Handler:
    def __init__(self, folder: str, options: RecordOptions, on_done: Callable[[WindowOutcome], None] | None) -> None:
        self._folder, self._options = folder, options
        self._delivery = TraceDelivery(folder, options.keep_free, tell)
        if options.compile_log:
            compile_log.keep(folder)
        if options.memory_snapshot:
            harmless(None)(memory_snapshots.history.keep)(folder, options.max_memory_events)
        self._on_done = [on_done] if on_done is not None else []
        self._said = False
        self._lock = threading.Lock()
        self._pid = os.getpid()
        atexit.register(self._at_exit)

    @harmless(None)
    def __call__(self, profiler: Any) -> None:
        began = time.perf_counter()
        where, number = rank_identity(), int(getattr(profiler, "step_num", 0))
        name = self._delivery.name(where, number)
        part = self._delivery.writer.spool / f"{name}.part"
        cycle = ExportedCycle(profiler)
        why = self._delivery.ready() or self._delivery.export(cycle, part)
        written = WindowOutcome(None, last_step=number, stall_seconds=time.perf_counter() - began, reason="handler")
        if why:
            self._delivery.refuse(why, self._on_done, "handler", written)
            return
        written = replace(written, snapshot=self._delivery.snapshot(self._options, name) or None)
        file = f"{name}.pt.trace.json.gz"

        def about() -> dict[str, Any]:
            costs = {"export_seconds": written.stall_seconds}
            return run_info.sidecar(self._options, where, file, profiler_step=number, costs=costs)

        self._delivery.submit(part, file, written, {}, about, cycle, [self._done, *self._on_done])

    def _done(self, written: WindowOutcome) -> None:
        with self._lock:
            first, self._said = not self._said, True
        if written.problem:
            tell(written.problem)
        elif first:
            tell(f"trace: {written.path} (next: kinetoscope summary {self._folder})")

    def _at_exit(self) -> None:
        if os.getpid() == self._pid:
            self._delivery.writer.flush(self._options.wait_at_exit)
