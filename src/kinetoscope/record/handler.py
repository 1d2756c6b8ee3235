"""`trace_handler(dir)`: for those who keep their own torch.profiler.profile(on_trace_ready=...)."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kinetoscope.record import guards, meta
from kinetoscope.record.guards import harmless, tell
from kinetoscope.record.options import DEFAULTS, Options, Place, place
from kinetoscope.record.session import Exported
from kinetoscope.record.writing import MOST_WAITING, Work, Writer, Written, ends_whole, remove


def trace_handler(
    dir: str | os.PathLike[str],  # noqa: A002 - the name that users type
    options: Options = DEFAULTS,
    *,
    on_done: Callable[[Written], None] | None = None,
) -> Callable[[Any], None]:
    """A handler for `torch.profiler.profile(on_trace_ready=...)` that never raises, and never leaves half a file.

    It has torch export plain JSON; the rest (check, compression, name with rank and step, sidecar) happens beside the
    training. An exception in a handler may end the process; here it is a line on standard error.

    Args:
        dir: where the traces go: a folder, or a URL that fsspec knows.
        options: `run` and `about` go into the sidecar; `keep_free` is honoured.
        on_done: called with what became of each trace, on the writer's thread.

    Example:
        >>> torch.profiler.profile(schedule=..., on_trace_ready=kinetoscope.trace_handler("runs/baseline"))
    """
    folder = os.fspath(dir)
    if "://" not in folder:
        folder = os.path.abspath(folder)  # noqa: PTH100 - the job may change its folder
    return _Handler(folder, options, on_done)


class _Handler:
    def __init__(self, folder: str, options: Options, on_done: Callable[[Written], None] | None) -> None:
        self._folder, self._options = folder, options
        self._writer = Writer(folder, place().host, options.keep_free)
        self._on_done = on_done
        self._told = False
        self._lock = threading.Lock()
        self._pid = os.getpid()
        atexit.register(self._at_exit)

    @harmless(None)
    def __call__(self, profiler: Any) -> None:
        began = time.perf_counter()
        where = place()
        number = int(getattr(profiler, "step_num", 0))
        name = f"{where.host}_{where.pid}.rank{where.rank}of{where.world}.step{number}.{time.time_ns()}"
        part = self._writer.spool / f"{name}.part"
        cycle = Exported(profiler)
        why = self._not_now()
        if not why:
            why = cycle.export(str(part))
            if not why and not ends_whole(part):
                why = "the disk is full, or torch could not write to it"
            if why:
                remove(part)
        written = Written(None, last_step=number, stall_seconds=time.perf_counter() - began, reason="handler")
        if why:
            self._done(replace(written, problem=f"The trace was not written: {why}."))
            return
        file = f"{name}.pt.trace.json.gz"
        about = lambda: self._about(where, file, number, written)  # noqa: E731
        keep_free = self._options.keep_free
        work = Work(part, f"{self._folder.rstrip('/')}/{file}", written, {}, about, keep_free, cycle, [self._done])
        self._writer.submit(work)

    def _not_now(self) -> str:
        if self._writer.waiting >= MOST_WAITING:
            return f"{self._writer.waiting} traces are still being written"
        why = self._writer.ready()
        free = None if why else guards.free_disk(str(self._writer.spool))
        if free is not None and free < self._options.keep_free:
            return f"only {free >> 20} MB are free on its disk"
        return why

    def _about(self, where: Place, file: str, number: int, written: Written) -> dict[str, Any]:
        known = meta.collect(self._options, where)
        del known["options"]  # the profiler is not ours; the trace says what it recorded
        costs = {"export_seconds": written.stall_seconds}
        return meta.fits({**known, "trace": file, "profiler_step": number, "costs": costs, "export": "torch"})

    def _done(self, written: Written) -> None:
        with self._lock:
            first, self._told = not self._told, True
        if written.problem:
            tell(written.problem)
        elif first:
            tell(f"trace: {written.path} (next: kinetoscope summary {self._folder})")
        if self._on_done is not None:
            self._on_done(written)

    def _at_exit(self) -> None:
        if os.getpid() == self._pid:
            self._writer.flush(self._options.wait_at_exit)
