"""What lies in a folder of traces without a final name: files of a process that is writing them, or that has died."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import Final

from kinetoscope.record.daemon.processes import is_alive

_OURS: Final = re.compile(
    r"(?P<host>[\w-]+)_(?P<pid>\d+)\.rank\d+of\d+\.step\d+\.\d+(?P<kind>(?:\.\w+)*\.part(?:\.tmp)?)\Z"
)
STALE: Final = 120.0
"""Seconds since a leftover was touched last, after which whoever wrote it is gone."""

_SETTLED: Final = 1.0
"""Seconds without a change after which nobody is at work any more."""


def of(folder: Path, host: str, stale: float = 0.0) -> list[Path]:
    """Files that ended processes of this host left there, and touched so many seconds ago at the latest."""
    now = time.time()
    found = []
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            name = _OURS.match(path.name)
            if name is None or name["host"] != host or is_alive(int(name["pid"])):
                continue
            with contextlib.suppress(OSError):
                if now - path.stat().st_mtime >= stale:
                    found.append(path)
    return found


def settle(folder: Path, host: str, seconds: float) -> None:
    """Wait until what still works for processes that have ended is done with what they left; so long at most."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and len(of(folder, host)) > len(of(folder, host, _SETTLED)):
        time.sleep(0.1)


def is_whole(path: Path) -> bool:
    """It may be a whole export: worth finishing."""
    return re.search(r"\.step\d+\.\d+\.part\Z", path.name) is not None and ends_whole(path)


def ends_whole(path: Path) -> bool:
    """The file is there and ends as torch ends a trace."""
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - 64, 0))
            return file.read().rstrip().endswith(b"}")
    except OSError:
        return False


def remove(*paths: Path) -> None:
    """Remove files, and what torch may have left beside them."""
    for path in paths:
        for each in (path, path.with_name(path.name + ".tmp")):
            with contextlib.suppress(OSError):
                each.unlink()
