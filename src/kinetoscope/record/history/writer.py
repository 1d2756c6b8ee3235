"""Writes the history of a process from a thread of its own: about once a second, and at once where it ends.

Threads that add rows or marks append to a queue, and wait for nothing. Each time one `write` takes all that waits; what
has been written outlasts the process. Where that fails, a line says so, and the history ends there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Final

from kinetoscope.record.history import layout
from kinetoscope.record.history.layout import Mark
from kinetoscope.record.output.guards import ResidentMemory, described, tell

INTERVAL_S: Final = 1.0
_SYNC_S: Final = 5.0
"""Seconds after which what was written can be read on other machines of a shared folder."""

_DEVICE_S: Final = 2.0
"""Seconds after which a step is written without its time on the device, which then may hang."""

_END_S: Final = 5.0
"""Seconds that the end of the program waits for the last rows."""

_MOST_ROWS: Final = 1 << 18
"""Rows that wait to be written; of more, the oldest are lost."""


class PendingRow:
    """A row whose time on the device is not known yet."""

    __slots__ = ("added", "is_known", "record")

    def __init__(self, record: bytes) -> None:
        self.record, self.is_known, self.added = bytearray(record), False, time.monotonic()


class HistoryWriter:
    """Writes one file.

    Args:
        path: of the file, which is made.
        head: what it begins with.
        marks: those that wait to be written; times by `perf_counter_ns`.
        offset: what makes those times ns since 1970.
        keep_free: bytes of the disk that are left alone.

    Attributes:
        rows: those that wait to be written.
        resident: kilobytes that the process has in memory, asked once a second.
        over: nothing is written any more.
    """

    def __init__(
        self, path: Path, head: dict[str, Any], marks: deque[Mark], *, offset: int, keep_free: int = 0
    ) -> None:
        self.rows: deque[bytes | PendingRow] = deque(maxlen=_MOST_ROWS)
        self.resident = layout.UNKNOWN_INTEGER
        self.over = False
        self._path, self._marks, self._offset, self._keep_free = path, marks, offset, keep_free
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._append(layout.text_block(layout.HEAD_BLOCK, head))
        self._memory = ResidentMemory()
        self._ask_memory()
        self._synced = time.monotonic()
        self._wake = threading.Event()
        self._ends = False
        self._thread = threading.Thread(target=self._run, name="kinetoscope-history", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """Write all that waits, and write no more; waits some seconds for it at most."""
        self._ends = True
        self._wake.set()
        self._thread.join(_END_S)

    def forked(self) -> None:
        """In a child process: the file is the parent's."""
        self.over = True
        with contextlib.suppress(OSError):
            os.close(self._file)
        self._memory.close()

    def _run(self) -> None:
        try:
            while not self._ends:
                self._wake.wait(INTERVAL_S)
                self._write()
            self._write()
            os.fsync(self._file)
        except OSError as error:
            tell(f"the history of process {os.getpid()} ends here: {described(error)}")
        finally:
            self.over = True

    def _write(self) -> None:
        self._ask_memory()
        records, marks = self._records(), self._taken_marks()
        blocks = []
        if records:
            blocks.append(layout.block(layout.STEPS_BLOCK, layout.RECORD.size, b"".join(records)))
        if marks:
            blocks.append(layout.text_block(layout.MARKS_BLOCK, marks))
        if not blocks:
            return
        if self._keep_free and shutil.disk_usage(self._path.parent).free < self._keep_free:
            raise OSError(f"less than {self._keep_free >> 20} MB of the disk are free")
        self._append(b"".join(blocks))
        if time.monotonic() - self._synced > _SYNC_S:
            os.fsync(self._file)
            self._synced = time.monotonic()

    def _ask_memory(self) -> None:
        if kilobytes := self._memory.bytes() >> 10:
            self.resident = min(kilobytes, layout.UNKNOWN_INTEGER - 1)

    def _append(self, content: bytes) -> None:
        while content:
            content = content[os.write(self._file, content) :]

    def _records(self) -> list[bytes]:
        """Records of the rows that are complete, or have waited long enough, in order."""
        records: list[bytes] = []
        until = time.monotonic() - _DEVICE_S
        with contextlib.suppress(IndexError):
            while len(records) < layout.MAX_BODY // layout.RECORD.size:
                row = self.rows[0]
                if isinstance(row, PendingRow):
                    if not (row.is_known or self._ends or row.added < until):
                        break
                    records.append(bytes(row.record))
                else:
                    records.append(row)
                self.rows.popleft()
        return records

    def _taken_marks(self) -> list[Mark]:
        marks: list[Mark] = []
        with contextlib.suppress(IndexError):
            while True:
                kind, detail, step, start, end = self._marks.popleft()
                marks.append((kind, detail, step, start + self._offset, end + self._offset))
        return marks
