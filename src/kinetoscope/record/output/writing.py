"""Writes traces: from the plain JSON that torch exported to a whole file under its final name, off the training thread.

torch writes plain JSON to `<name>.part` (the only thing that the training thread waits for; the interpreter's lock is
held meanwhile, so that another thread would not help). A thread of ours then has a process of low priority check,
compress, sync and rename it (`finishing`), so that none of this takes the lock from training. Where the text is no
valid JSON, torch's exporter in Python writes it again; where that is not valid either, events are mended or left out.
What a dead process left behind is finished in the same way, or removed.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from kinetoscope.record.output import leftovers
from kinetoscope.record.output import run_info as meta
from kinetoscope.record.output.finishing_process import FinishingProcess
from kinetoscope.record.output.guards import described, tell, trim
from kinetoscope.record.output.leftovers import remove
from kinetoscope.record.session.session import ExportedCycle, ProfilerSession

MAX_WAITING_TRACES: Final = 4
"""Traces not yet written, beyond which no window is started: each holds memory and disk."""

UNSENT_FOLDER: Final = "kinetoscope-unsent"
"""The folder, where the job runs, of traces that a store did not take."""

_SPOOL: Final = "kinetoscope-spool"


@dataclass(frozen=True)
class WindowOutcome:
    """The outcome of one window.

    Attributes:
        path: the trace's final name; None if it was not written.
        meta: its sidecar's.
        snapshot: that of the snapshot of memory beside it; None if there is none.
        problem: one sentence: why it was not written, or what is wrong with it; "" if nothing is.
        first_step: the first step recorded, counted over the run.
        last_step: the last, inclusive.
        truncated: "" or why it ended early.
        events: how many are in it.
        bytes: of the file.
        stop_seconds: what torch's own stop took.
        stall_seconds: what the training thread waited besides.
        reason: as it was asked for.
    """

    path: str | None
    meta: str | None = None
    problem: str = ""
    first_step: int = 0
    last_step: int = -1
    truncated: str = ""
    events: int = 0
    bytes: int = 0
    stop_seconds: float = 0.0
    stall_seconds: float = 0.0
    reason: str = ""
    snapshot: str | None = None


@dataclass
class WriteTask:
    """One exported window on its way."""

    plain: Path
    target: str
    written: WindowOutcome
    facts: dict[str, Any]
    about: Callable[[], dict[str, Any]] | None
    keep_free: int
    session: ProfilerSession | ExportedCycle | None = None
    on_done: list[Callable[[WindowOutcome], None]] = field(default_factory=list)


class Writer:
    """A queue and the thread that empties it. `submit` and `flush` are for any thread."""

    def __init__(self, folder: str, host: str = "", keep_free: int = 0) -> None:
        """Leftovers of `host` in the folder are swept; "": of none."""
        self.folder = folder
        self._host, self._keep_free = host, keep_free
        self._work: queue.SimpleQueue[WriteTask | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._waiting = 0
        self._finishing = FinishingProcess()
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """Traces not yet written."""
        return self._waiting

    @property
    def spool(self) -> Path:
        """The folder here that torch exports to: the target's, or a temporary one for a URL."""
        if "://" in self.folder:
            import tempfile

            return Path(tempfile.gettempdir()) / f"{_SPOOL}-{os.getuid()}"
        return Path(self.folder)

    def ready(self) -> str:
        """Make the folder; "" or why that cannot be done."""
        try:
            self.spool.mkdir(parents=True, exist_ok=True, mode=0o777 if "://" not in self.folder else 0o700)
            if not os.access(self.spool, os.W_OK | os.X_OK):
                return f"no permission to write to {self.spool}"
        except OSError as error:
            return f"{self.spool}: {error.strerror or error}"
        return ""

    def submit(self, work: WriteTask) -> None:
        """Have it written; `on_done` is called on the writer's thread."""
        with self._changed:
            self._waiting += 1
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="kinetoscope-writer", daemon=True)
                self._thread.start()
        self._work.put(work)

    def flush(self, seconds: float) -> bool:
        """Wait until nothing waits; False if that took too long."""
        with self._finishing.hurried(), self._changed:
            return self._changed.wait_for(lambda: self._waiting == 0, seconds)

    def _run(self) -> None:
        if self._host:
            self.salvage(leftovers.STALE_S)
        while True:
            work = self._work.get()
            if work is None:
                return
            try:
                written = self._write(work)
            except Exception as error:  # noqa: BLE001 - a trace may be lost, the job may not
                remove(work.plain)
                written = _lost(work, described(error))
            if work.session is not None:
                work.session.release()
                trim()
            for each in work.on_done:
                try:
                    each(written)
                except Exception as error:  # noqa: BLE001 - what is called is not ours
                    tell(f"on_done failed: {described(error)}")
            with self._changed:
                self._waiting -= 1
                self._changed.notify_all()

    # --- one trace ------------------------------------------------------------------------------------------------

    def _write(self, work: WriteTask) -> WindowOutcome:
        answer = self._finish(work)
        how = ""
        if answer["status"] == "invalid" and work.session is not None:
            how = "torch's exporter wrote invalid JSON; written again by its exporter in Python"
            again = work.plain.with_suffix(".again.part")
            if not work.session.export(str(again), plainly=True):
                answer = self._finish(work, again, how)
            remove(again)
        if answer["status"] == "invalid":
            how = "torch wrote invalid JSON; each event was mended or left out"
            answer = self._finish(work, work.plain, how, repair=True)
        kept = self._keep_here(work, answer["message"]) if answer["status"] == "failed" else None
        remove(work.plain)
        if kept is not None:
            return kept
        if answer["status"] == "ok":
            lost = answer["lost"]
            return replace(
                work.written,
                path=work.target,
                meta=meta.sidecar_name(work.target) if work.about is not None else None,
                events=answer["events"],
                bytes=answer["bytes"],
                problem=f"{lost} of its events could not be kept." if lost else "",
            )
        if answer["status"] == "full":
            return _lost(work, "the disk is full")
        return _lost(work, answer["message"])

    def _keep_here(self, work: WriteTask, why: str) -> WindowOutcome | None:
        """The trace that a store did not take, in a folder of the job's; None if that fails, too."""
        url, _, name = work.target.rpartition("/")
        if "://" not in url:
            return None
        folder = Path(UNSENT_FOLDER).absolute()
        try:
            folder.mkdir(exist_ok=True)
        except OSError:
            return None
        answer = self._finish(replace(work, target=str(folder / name)), repair=True)
        if answer["status"] != "ok":
            return None
        return replace(
            work.written,
            path=str(folder / name),
            meta=meta.sidecar_name(str(folder / name)) if work.about is not None else None,
            events=answer["events"],
            bytes=answer["bytes"],
            problem=f"{url} could not be written to ({why}), so the trace is in {folder}.",
        )

    def _finish(
        self, work: WriteTask, plain: Path | None = None, how: str = "", *, repair: bool = False
    ) -> dict[str, Any]:
        about = work.about() if work.about is not None else None
        if about is not None and how:
            about["export"] = how
        task = {
            "plain": str(plain or work.plain),
            "target": work.target,
            "facts": work.facts,
            "meta": about,
            "meta_target": meta.sidecar_name(work.target),
            "keep_free": work.keep_free,
            "repair": repair,
            "path": [each for each in sys.path if each] if "://" in work.target else [],
        }
        return self._finishing.finish(task)

    def salvage(self, stale: float = 0.0) -> tuple[int, int]:
        """Finish what processes of this host that are gone left in the folder, or remove it: how many of each.

        `stale` is how many seconds ago they must have touched it.
        """
        host, self._host = self._host, ""
        rescued = removed = 0
        for path in leftovers.of(self.spool, host, stale):
            name = path.name.removesuffix(".part") + ".pt.trace.json.gz"
            claimed = path.with_name(f"{path.name.removesuffix('.part')}.rescued{os.getpid()}.part")
            target = f"{self.folder.rstrip('/')}/{name}"
            done = "://" not in target and Path(target).exists()  # all was done but for this
            if done or not leftovers.is_whole(path):
                remove(path)
                removed += not done
                continue
            with contextlib.suppress(OSError):
                path.rename(claimed)
                facts = {"truncated": "its process ended before it was written"}
                self.submit(WriteTask(claimed, target, WindowOutcome(None), facts, None, self._keep_free))
                rescued += 1
        return rescued, removed


def _lost(work: WriteTask, why: str) -> WindowOutcome:
    return replace(work.written, path=None, problem=f"The trace was not written: {why}.")
