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
from collections.abc import Iterable, Iterator, Sequence
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

_MAX_TRACES: Final = 16
"""Traces that wait of which summaries are made."""


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
        self._host = socket.gethostname()
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
        here = {name: list(self._files(note)) for name, note in notes.items() if note.get("host") == self._host}
        traces = [each for files in here.values() for each in files if each.name.endswith(_TRACE)]
        if traces:
            self._summarise(traces[:_MAX_TRACES])
        for name, files in here.items():
            for each in (*files, self._control / DROP / name):
                with contextlib.suppress(OSError):
                    each.unlink()

    def _files(self, note: dict[str, Any]) -> Iterator[Path]:
        """The files of a note that are in the folder of the run."""
        files = note.get("files")
        for each in files if isinstance(files, list) else ():
            if isinstance(each, str) and Path(each).resolve().is_relative_to(self._run.resolve()):
                yield Path(each)

    def _summarise(self, traces: Sequence[Path]) -> None:
        """Have one process do so, as most of its time is its start."""
        folder = self._run / layout.FOLDER / layout.WINDOWS_FOLDER
        command = [sys.executable, "-m", "kinetoscope.outputs.window_summary", "" if self._ends.is_set() else "low"]
        for each in traces:
            command += [str(each), str(folder / (each.name.removesuffix(_TRACE) + layout.WINDOW_ENDING))]
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
