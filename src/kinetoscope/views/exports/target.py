"""A file that is written whole or not at all, in the place and with the mode of one that is there.

What is no plain file (a device, a FIFO, standard output under /dev) is written through: to put a file in its place
would take it from everybody. Of a link it is the file behind it that is replaced; the link stays.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from kinetoscope.errors import UsageError

_NOT_STORED: Final = ("/dev/", "/proc/")
"""Below these a name is a thing of the system, even where it leads to a plain file that is somebody's output."""


@contextmanager
def written(path: str | Path) -> Iterator[IO[bytes]]:
    """A file to write to; what is written is at `path` when this ends without an error.

    Raises:
        OSError: it cannot be written.
    """
    path = Path(path)
    status = _status(path)
    if status is not None and (not stat.S_ISREG(status.st_mode) or str(path.absolute()).startswith(_NOT_STORED)):
        with path.open("wb") as file:
            yield file
        return
    target = path.resolve()
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        file = part.open("wb")
    except PermissionError:
        if status is None:
            raise
        with target.open("wb") as file:  # the folder takes no new file, but this one may be changed
            yield file
        return
    try:
        with file:
            if status is not None:
                _like(file, status)
            yield file
        part.replace(target)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()


def spare_half_url(output: str) -> None:
    """Refuse `s3:/bucket`, which would be a folder here of the name `s3:`.

    Raises:
        UsageError: it is such a name.
    """
    if match := re.match(r"([A-Za-z][\w+.-]+):/(?!/)", output):
        raise UsageError(f"{output} would be a folder called {match[1]}: on this machine; a store is {match[1]}://…")


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _like(file: IO[bytes], status: os.stat_result) -> None:
    """Give a file the owner, where that is allowed, and the mode of the file that it replaces."""
    with suppress(OSError, AttributeError):  # Windows has neither
        os.fchown(file.fileno(), status.st_uid, status.st_gid)
    with suppress(OSError, AttributeError):
        os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
