"""The way of a window once torch has stopped: export on the training thread, the rest by the writer."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kinetoscope.record.output import memory_snapshots, run_info
from kinetoscope.record.output.generated_files import keep_generated_files
from kinetoscope.record.output.guards import harmless
from kinetoscope.record.output.leftovers import ends_whole, remove
from kinetoscope.record.output.writing import MAX_WAITING_TRACES, WindowOutcome, Writer, WriteTask
from kinetoscope.record.session.options import RankIdentity, RecordOptions, rank_identity
from kinetoscope.record.session.recorded_events import FILE_BYTES
from kinetoscope.record.session.session import ExportedCycle, ProfilerSession
from kinetoscope.record.session.window import RecordingWindow

_BUSY_REASON: Final = f"{MAX_WAITING_TRACES} traces were still being written"


class TraceDelivery:
    """The delivery of a recorder's traces.

    Attributes:
        folder: the folder or URL.
        writer: what writes them.
    """

    def __init__(self, folder: str, keep_free: int, tell: Callable[[str], None]) -> None:
        self.folder = folder
        self.writer = Writer(folder, rank_identity().host, keep_free)
        self._keep_free = keep_free
        self._tell = tell

    @property
    def busy(self) -> bool:
        """True if as many traces are being written as may be: a window has to wait."""
        return self.writer.waiting >= MAX_WAITING_TRACES

    def ready(self) -> str:
        """Why no further trace can be taken; "" if one can."""
        if self.busy:
            return _BUSY_REASON
        return self.writer.ready() or self._room(0)

    def name(self, where: RankIdentity, step: int) -> str:
        """Name of the files of a trace, without their endings."""
        return f"{where.host}_{where.pid}.rank{where.rank}of{where.world}.step{step}.{time.time_ns()}"

    def deliver(self, window: RecordingWindow, why: str, truncated: str, events: int, stop_seconds: float) -> None:
        """Have torch export what a window recorded, unless `why` says that it is lost; hand the rest to the writer."""
        began = time.perf_counter()
        where = rank_identity()
        first = window.began or 0
        name = self.name(where, first)
        part = self.writer.spool / f"{name}.part"
        why = why or self.writer.ready() or self._room(events * FILE_BYTES) or self.export(window.session, part)
        seconds = time.perf_counter() - began
        last = window.steps[-1]["step"] if window.steps else first - 1
        written = WindowOutcome(None, None, "", first, last, truncated, 0, 0, stop_seconds, seconds, window.reason)
        if why:
            window.session.release()
            self.refuse(why, window.on_done, window.reason, written)
            return
        if window.on_ready is not None:
            harmless(None)(window.on_ready)(window.session.profiler)
        began = time.perf_counter()
        snapshot = self.snapshot(window.options, name, truncated)
        written = replace(written, snapshot=snapshot or None)
        snapshot_seconds = time.perf_counter() - began
        file = f"{name}.pt.trace.json.gz"
        facts = {"first_step": first, "last_step": last, "truncated": truncated}

        def about() -> dict[str, Any]:
            costs = {"start_seconds": window.start_seconds, "stop_seconds": stop_seconds, "export_seconds": seconds}
            snapshot_facts = {}
            if snapshot:
                costs["snapshot_seconds"] = snapshot_seconds
                snapshot_facts["memory_snapshot"] = f"{memory_snapshots.FOLDER}/{Path(snapshot).name}"
            return run_info.sidecar(
                window.options, where, file, **window.facts(), **facts, **snapshot_facts, costs=costs
            )

        self.submit(part, file, written, facts, about, window.session, window.on_done)

    @harmless("")
    def snapshot(self, options: RecordOptions, name: str, truncated: str = "") -> str:
        """Take a snapshot of memory, if the options want one; its path, or "". Where memory ran out, it is there."""
        if not options.memory_snapshot:
            return ""
        if truncated.startswith(memory_snapshots.OUT_OF_MEMORY) and memory_snapshots.history.last:
            return memory_snapshots.history.last
        return memory_snapshots.history.take(self.folder, name)

    def submit(
        self,
        part: Path,
        file: str,
        written: WindowOutcome,
        facts: dict[str, Any],
        about: Callable[[], dict[str, Any]] | None,
        session: ProfilerSession | ExportedCycle,
        on_done: list[Callable[[WindowOutcome], None]],
    ) -> None:
        """Have the writer make the file of what was exported."""
        target = f"{self.folder.rstrip('/')}/{file}"
        done = [*on_done, self._keep_generated]
        self.writer.submit(WriteTask(part, target, written, facts, about, self._keep_free, session, done))

    def _keep_generated(self, _: WindowOutcome) -> None:
        """On the writer's thread: what was compiled lies beside what was recorded."""
        keep_generated_files(self.folder, rank_identity().rank)

    def export(self, session: ProfilerSession | ExportedCycle, part: Path) -> str:
        """Have torch write plain JSON; "" or the reason why it failed."""
        why = session.export(str(part))
        if not why and not ends_whole(part):
            why = "the disk is full, or torch could not write to it"
        if why:
            remove(part)
        return why

    def refuse(
        self, why: str, on_done: list[Callable[[WindowOutcome], None]], reason: str, known: WindowOutcome | None = None
    ) -> None:
        """Report to `on_done` that there is no trace of a window."""
        nothing = "A window was skipped" if why == _BUSY_REASON else "Nothing was recorded"
        problem = f"The trace was not written: {why}." if known else f"{nothing}: {why}."
        self._tell(problem[0].lower() + problem[1:].rstrip("."))
        written = replace(known or WindowOutcome(None, reason=reason), problem=problem)
        for each in on_done:
            harmless(None)(each)(written)

    def _room(self, need: int) -> str:
        """Why the disk has no room for so many bytes; "" if it has."""
        return lacks_room(self.writer.spool, self._keep_free, need)


def lacks_room(folder: Path, keep_free: int, need: int = 0) -> str:
    """Why a local folder has no room for so many bytes; "" if it has."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:  # the system does not tell
        return ""
    if free < need + keep_free:
        kept = keep_free >> 20
        return f"only {free >> 20} MB are free on its disk ({need >> 20} MB needed, {kept} MB to be left alone)"
    return ""


def resolved(folder: str | os.PathLike[str]) -> str:
    """The folder as it is now, should the job change to another; a URL as it is."""
    path = os.fspath(folder)
    return path if "://" in path else os.path.abspath(path)  # noqa: PTH100 - a text is wanted
