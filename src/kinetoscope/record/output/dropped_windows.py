"""Windows that a run with `--keep` has no room for: a summary of each is written, and then its trace deleted.

The job may have nothing that reads traces, and has other things to do. So its processes leave notes of what is to be
deleted (`drop/RANK.PID.STEP`), and `kinetoscope record`, which waits for it on the same machine, has a process of low
priority read and summarise each trace. Where nobody takes the notes away, the job deletes by itself.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from kinetoscope.record.always_on import mailbox
from kinetoscope.record.history import layout
from kinetoscope.record.session.child_config import RecordPlan

DROP: Final = "drop"
"""The folder of these notes, among those of the run."""

_TRACE: Final = ".pt.trace.json.gz"
_POLL_S: Final = 1.0
_SUMMARY_S: Final = 300.0
"""Seconds that a summary may take beside the job."""

_END_S: Final = 30.0
"""Seconds that all that are left may take once it has ended."""

_MOST_WAITING: Final = 16
"""Windows that wait; of more no summaries are made."""


def leave_to_drop(control: Path, name: str, files: Iterable[str]) -> Path:
    """Leave a note that these files are to be deleted.

    Raises:
        OSError: it cannot be written.
    """
    note = control / DROP / name
    mailbox.leave(note, {"host": socket.gethostname(), "files": list(files)})
    return note


class DroppedWindows:
    """A context in which windows of a run are summarised and deleted, as its processes ask for it."""

    def __init__(self, plan: RecordPlan) -> None:
        self._run, self._control = Path(plan.dir), Path(plan.control)
        self._ends = threading.Event()
        self._until = 0.0
        self._thread = threading.Thread(target=self._work, name="kinetoscope-windows", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._until = time.monotonic() + _END_S
        self._ends.set()
        self._thread.join(_END_S + _POLL_S)

    def _work(self) -> None:
        while not self._ends.wait(_POLL_S):
            self._look()
        self._look()

    def _look(self) -> None:
        notes = mailbox.read_all(self._control / DROP)
        here = {name: note for name, note in notes.items() if note.get("host") == socket.gethostname()}
        for name, note in here.items():
            files = list(self._files(note))
            trace = next((each for each in files if each.name.endswith(_TRACE)), None)
            if trace is not None and len(here) <= _MOST_WAITING:
                self._summarise(trace)
            for each in files:
                with contextlib.suppress(OSError):
                    each.unlink()
            with contextlib.suppress(OSError):
                (self._control / DROP / name).unlink()

    def _files(self, note: dict[str, Any]) -> Iterator[Path]:
        """Those that are in the folder of the run."""
        files = note.get("files")
        for each in files if isinstance(files, list) else ():
            if isinstance(each, str) and Path(each).resolve().is_relative_to(self._run.resolve()):
                yield Path(each)

    def _summarise(self, trace: Path) -> None:
        name = trace.name.removesuffix(_TRACE) + layout.WINDOW_ENDING
        target = self._run / layout.FOLDER / layout.WINDOWS_FOLDER / name
        goes_on = [] if self._ends.is_set() else ["low"]
        command = [sys.executable, "-m", "kinetoscope.outputs.window_summary", str(trace), str(target), *goes_on]
        until = time.monotonic() + _SUMMARY_S
        with contextlib.suppress(OSError):
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            while time.monotonic() < (min(until, self._until) if self._until else until):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_S)
                    return
            process.kill()
            process.wait()
