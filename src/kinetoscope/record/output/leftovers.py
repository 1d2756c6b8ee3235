"""Files without a final name in a folder of traces: of a process that is writing them, or that has died."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import Final

_UNFINISHED_NAME: Final = re.compile(
    r"(?P<host>[\w-]+)_(?P<pid>\d+)\.rank\d+of\d+\.step\d+\.\d+(?P<kind>(?:\.\w+)*\.part(?:\.tmp)?)\Z"
)
STALE_S: Final = 120.0
"""Seconds since a leftover was touched last, after which whoever wrote it is gone."""

_SETTLED_S: Final = 1.0
"""Seconds without a change after which nobody is at work any more."""


def of(folder: Path, host: str, stale: float = 0.0) -> list[Path]:
    """Files that ended processes of this host left there, and touched so many seconds ago at the latest."""
    now = time.time()
    paths = []
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            name = _UNFINISHED_NAME.match(path.name)
            if name is None or name["host"] != host or is_alive(int(name["pid"])):
                continue
            with contextlib.suppress(OSError):
                if now - path.stat().st_mtime >= stale:
                    paths.append(path)
    return paths


def settle(folder: Path, host: str, seconds: float) -> None:
    """Wait, at most so long, until the helpers of processes that have ended are done with their files."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and len(of(folder, host)) > len(of(folder, host, _SETTLED_S)):
        time.sleep(0.1)


def is_whole(path: Path) -> bool:
    """True if it may be a whole export, worth finishing."""
    return re.search(r"\.step\d+\.\d+\.part\Z", path.name) is not None and ends_whole(path)


def ends_whole(path: Path) -> bool:
    """True if the file exists and ends as torch ends a trace."""
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - 64, 0))
            return file.read().rstrip().endswith(b"}")
    except OSError:
        return False


def remove(*paths: Path) -> None:
    """Remove files, and those that torch may have left beside them."""
    for path in paths:
        for each in (path, path.with_name(path.name + ".tmp")):
            with contextlib.suppress(OSError):
                each.unlink()


def is_alive(process: int) -> bool:
    """True if a process still runs. One that has ended may stay in the table: in containers nobody may wait for it."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError, IndexError):  # without /proc nobody knows
        return Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] != "Z"
    return True
