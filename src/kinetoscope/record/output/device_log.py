"""A log of power and clocks for as long as a program runs, written by the vendor's own program beside the traces.

That program runs beside the job, never in it. It writes into a pipe of ours, so it ends with us whatever happens: what
writes into a pipe that nobody reads is ended by the system.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
import time
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import Final, Self, cast

FOLDER: Final = "device_log"
"""The folder beside the traces, where readers look for such logs."""

_FIELDS: Final = (
    "timestamp,index,power.draw,clocks.sm,clocks.max.sm,clocks.mem,temperature.gpu,utilization.gpu,utilization.memory,"
    "clocks_throttle_reasons.active"
)
COMMANDS: Final = (
    (
        "nvidia-smi",
        f"--query-gpu={_FIELDS}",
        "--format=csv",
        "-lms",
        "100",
    ),
    ("amd-smi", "metric", "--power", "--clock", "--temperature", "--usage", "--csv", "--watch", "1"),
)
"""Programs that write such a log, with the least time between two samples that they take; the first that is there runs.
`clocks_throttle_reasons` is known to all drivers, `clocks_event_reasons` to newer ones only."""

MAX_BYTES: Final = 1 << 28
"""Size at which a log ends: nine hours of eight devices ten times a second."""

_PATIENCE_S: Final = 2.0
_BLOCK: Final = 1 << 16


class DeviceLogger:
    """A context in which a log is written.

    Attributes:
        path: the log.
        problem: "" or why there is none, or why it ended early, in a few words.
    """

    def __init__(self, folder: Path, host: str, *, max_bytes: int = MAX_BYTES) -> None:
        """`host` is the first word of the traces' names: only those of the same machine get this log."""
        self.path = folder / FOLDER / f"{host}.{int(time.time())}.csv"
        self.problem = ""
        self._max_bytes = max_bytes
        self._program = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._pump: threading.Thread | None = None

    def __enter__(self) -> Self:
        command = next((each for each in COMMANDS if shutil.which(each[0])), None)
        if command is None:
            self.problem = f"neither {' nor '.join(each[0] for each in COMMANDS)} is on this machine"
            return self
        self._program = command[0]
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self.problem = f"{self._program}: {error.strerror or error}"
            return self
        self._pump = threading.Thread(target=self._copy, args=(self._process,), daemon=True)
        self._pump.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process, pump = self._process, self._pump
        if process is None or pump is None:
            return
        ended = process.poll()
        with contextlib.suppress(OSError):
            process.terminate()
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
        pump.join(_PATIENCE_S)
        if not self.problem and ended:
            self.problem = f"{self._program} ended with code {ended}"
        if self._lines() < 2:  # a head alone is no log
            self.path.unlink(missing_ok=True)
            self.problem = self.problem or "it has no line"

    def _lines(self) -> int:
        with contextlib.suppress(OSError), self.path.open("rb") as file:
            return file.read(_BLOCK).count(b"\n")
        return 0

    def _copy(self, process: subprocess.Popen[bytes]) -> None:
        """Write what comes; on its own thread, which must not raise."""
        size, pipe = 0, cast(BufferedReader, process.stdout)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with pipe, self.path.open("wb") as file:
                while size <= self._max_bytes and (block := pipe.read1(_BLOCK)):
                    size += file.write(block)
                    file.flush()
            if size > self._max_bytes:
                self.problem = f"it ended at {self._max_bytes >> 20} MB"
        except (OSError, ValueError) as error:
            self.problem = f"{self.path}: {error}"
        with contextlib.suppress(OSError):
            process.terminate()
