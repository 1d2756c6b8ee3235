"""Copies of remote files on this machine, bounded by bytes: what was used longest ago goes first.

A copy is named by where the file lies and by what its store says of the content (ETag, else size and time), so a file
that changed is another one. A copy appears whole or not at all. Several processes may share a folder: places are
given away under a lock, and what a killed process left half-written is known by the lock that it no longer holds.
Where a copy cannot be kept (no space, no right to write) there is none, and the file is read from afar.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from kinetoscope.errors import UsageError

FOLDER_VARIABLE: Final = "KINETOSCOPE_CACHE"
"""The environment variable that says which folder, or `off`."""

SIZE_VARIABLE: Final = "KINETOSCOPE_CACHE_SIZE"
"""The environment variable that says how many bytes at most: `20GB`; 0 turns the cache off."""

OFF_WORD: Final = "off"
DEFAULT_BYTES: Final = 10 * 10**9

_UNITS: Final = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_PART_SUFFIX: Final = ".part"


@dataclass(frozen=True, slots=True)
class Cache:
    """A folder of copies.

    Attributes:
        folder: where it is.
        limit: bytes that it holds at most, those that are being written included.
    """

    folder: Path
    limit: int

    def open(self, name: str) -> IO[bytes] | None:
        """The copy of that name, which counts as used now; None if there is none."""
        try:
            file = open(self.folder / name, "rb", buffering=0)  # noqa: SIM115 - the caller closes it
        except OSError:
            return None
        with suppress(OSError):  # somebody else's copy may be read and not touched
            os.utime(file.fileno())
        return file

    def begin(self, name: str, size: int) -> PartialCopy | None:
        """A place for a copy of that many bytes; None if there is none to be had. Others make room for it."""
        try:
            with self._locked():
                if not self._make_room(size):
                    return None
                path = self.folder / f"{name}.{os.getpid()}-{os.urandom(6).hex()}{_PART_SUFFIX}"
                file = open(path, "xb", buffering=0)  # noqa: SIM115 - closed with the PartialCopy
                fcntl.flock(file, fcntl.LOCK_EX)
                os.truncate(path, size)  # reserved: others count it as if it were written
                return PartialCopy(file, path, self.folder / name, size)
        except OSError:
            return None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self.folder / ".lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _make_room(self, size: int) -> bool:
        """Remove what was used longest ago until so many bytes fit; false if they never will."""
        copies: list[tuple[int, int, str]] = []
        held = 0
        for entry in os.scandir(self.folder):
            if entry.name.startswith("."):
                continue
            facts = entry.stat()
            if entry.name.endswith(_PART_SUFFIX):
                if not _abandoned(entry.path):
                    held += facts.st_size
                continue
            copies.append((facts.st_mtime_ns, facts.st_size, entry.path))
            held += facts.st_size
        limit = min(self.limit, held + shutil.disk_usage(self.folder).free // 2)  # the disk is not only ours
        if size > limit:
            return False
        for _, length, path in sorted(copies):
            if held + size <= limit:
                break
            Path(path).unlink(missing_ok=True)
            held -= length
        return held + size <= limit


def _abandoned(path: str) -> bool:
    """Whether a dead process left this half-written file, which is then removed."""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


@dataclass(slots=True)
class PartialCopy:
    """A copy that is being written, from front to back."""

    file: IO[bytes]
    path: Path
    final: Path
    size: int
    written: int = 0

    def write(self, data: bytes) -> bool:
        """Add to it; false if that fails, and then it is gone."""
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self.file.write(rest) :]
        except OSError:
            self.drop()
            return False
        self.written += len(data)
        return True

    def keep(self) -> None:
        """Give a complete copy its final name; drop an incomplete one."""
        if self.written != self.size:
            self.drop()
            return
        with suppress(OSError):
            os.replace(self.path, self.final)
        self.file.close()

    def drop(self) -> None:
        """Remove it."""
        self.path.unlink(missing_ok=True)
        self.file.close()


def name_of(url: str, version: str) -> str:
    """File name of a copy, by address and version."""
    return hashlib.sha256(f"{url}\0{version}".encode("utf-8", "surrogateescape")).hexdigest()


def cache_at(folder: str = "", size: int | None = None) -> Cache | None:
    """The cache in a folder; None where it is turned off or cannot be.

    Args:
        folder: where; `off` for none; "" for what the environment says, else a folder of the user's own.
        size: bytes at most; None for what the environment says.

    Raises:
        UsageError: the environment has a size that is none.
    """
    folder = folder or os.environ.get(FOLDER_VARIABLE, "")
    limit = _limit() if size is None else size
    if folder.lower() in (OFF_WORD, "0") or limit <= 0:
        return None
    try:
        own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kinetoscope" / "files"
        place = Path(folder).expanduser() if folder else own
        place.mkdir(mode=0o700, parents=True, exist_ok=True)  # traces tell about their owner's work
    except (OSError, RuntimeError):  # no home
        return None
    return Cache(place, limit)


def _limit() -> int:
    text = os.environ.get(SIZE_VARIABLE, "").strip()
    if not text:
        return DEFAULT_BYTES
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text)
    if match is None or match[2] not in _UNITS:
        raise UsageError(
            f"{SIZE_VARIABLE} is {text!r}, which is no size: a number with one of {', '.join([*_UNITS][1:])}"
        )
    return int(float(match[1]) * _UNITS[match[2]])
