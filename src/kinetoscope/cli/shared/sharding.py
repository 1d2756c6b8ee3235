"""`convert --shard i/N`: every Nth trace of a run, so that N processes anywhere convert all of it, each its share.

Whatever is there and complete is left as it is, so a shard may be run again, and twice at the same time. A trace is
written beside OUT and then moved there as a whole: what is in OUT can be read at any time.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from kinetoscope.errors import KinetoscopeError, UsageError

if TYPE_CHECKING:
    from kinetoscope.model.trace.source import Source

ORIGIN: Final = "origin.txt"
"""In each folder: of which file it was made, and how that looked."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` shares, from 0."""

    index: int
    count: int

    def of(self, targets: Sequence[T]) -> Sequence[T]:
        """Its share: neighbours in different shares, as they are alike in size."""
        return targets[self.index :: self.count]


def shard(text: str) -> Shard:
    """`3/16` → the fourth of 16 shares."""
    match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no shard: which one, from 0, and of how many, as 0/16")
    index, count = int(match[1]), int(match[2])
    if index >= count:
        raise ValueError(f"{text!r}: shards count from 0, so the last of {count} is {count - 1}/{count}")
    return Shard(index, count)


@dataclass(frozen=True, slots=True)
class Converted:
    """What became of a share: how many were written, how many were there, and what could not be read."""

    written: int
    there: int
    failed: tuple[str, ...]


def convert(targets: Sequence[tuple[Source, Path]], write: Callable[[Source, Path], object]) -> Converted:
    """Convert those that are not there yet; one that cannot be read does not keep the others from it."""
    from kinetoscope.readers.registry import stamp

    written = there = 0
    failed = []
    for source, target in targets:
        try:
            origin = json.dumps(
                {"url": source.url, "stamp": stamp(source)} | ({"part": source.part} if source.part else {})
            )
            if is_complete(target, origin):
                there += 1
                continue
            with _replacing(target) as folder:
                write(source, folder)
                (folder / ORIGIN).write_text(origin, encoding="utf-8")
            written += 1
        except KinetoscopeError as error:
            failed.append(f"rank {source.rank}: {error}")
    return Converted(written, there, tuple(failed))


def is_complete(folder: Path, origin: str) -> bool:
    """Is a whole trace there, made of the file as it is now? Of each file beginning and end are looked at."""
    try:
        if (folder / ORIGIN).read_text(encoding="utf-8") != origin:
            return False
        return all(_is_whole(folder / name) for name in _names())
    except (OSError, UnicodeDecodeError):
        return False


def _names() -> Iterator[str]:
    from kinetoscope.model.tables import parquet
    from kinetoscope.model.tables.tables import STORED_TABLES

    yield from (f"{name}.parquet" for name in STORED_TABLES)
    yield from (f"{parquet.FOLDER}/{name}.parquet" for name in parquet.FILES)


def _is_whole(file: Path) -> bool:
    import polars as pl

    try:
        pl.read_parquet_schema(file)
    except (pl.exceptions.PolarsError, OSError):
        return False
    return True


@contextmanager
def _replacing(target: Path) -> Iterator[Path]:
    """A folder to write into, which is then `target`, whole. Of two that do so at a time the later one's stays."""
    aside = target.parent.parent / f".{target.parent.name}.partial"
    fresh, old = (aside / f"{target.name}-{os.getpid()}-{os.urandom(4).hex()}{what}" for what in ("", ".old"))
    fresh.mkdir(parents=True)
    try:
        yield fresh
        target.parent.mkdir(parents=True, exist_ok=True)
        while True:
            with suppress(FileNotFoundError):
                target.rename(old)
            try:
                fresh.rename(target)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                shutil.rmtree(old, ignore_errors=True)  # another one was quicker; his is moved away, too
                continue
            return
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
        with suppress(OSError):  # others are still writing
            aside.rmdir()


def run_and_folder(paths: list[str], output: str | None) -> tuple[list[str], str | None]:
    """Of `convert RUN --shard 0/4 --to parquet OUT`: RUN, and OUT, which may also be named with -o.

    Raises:
        UsageError: OUT is a file, which an unquoted glob gives.
    """
    if output is None and len(paths) == 2:
        if Path(paths[1]).is_file():
            raise UsageError(f"{paths[1]} is a file: name the folder to write to, and put a glob in quotes")
        paths, output = paths[:1], paths[1]
    return paths, output
