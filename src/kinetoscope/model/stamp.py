"""Whether a file is still the one that was read: a text that changes when the file does."""

from __future__ import annotations

import os
from pathlib import Path

from kinetoscope.errors import NotFoundError
from kinetoscope.model import stored

_TELLS = ("ETag", "etag", "checksum", "md5Hash", "crc32c", "LastModified", "last_modified", "updated", "mtime")
"""What the file systems of fsspec call that which changes with the content."""


def stamp(url: str) -> str:
    """Size and time of change of a file, or what an object store says in place of the time.

    Of a trace as Parquet it is that of the file that was written last.

    Raises:
        NotFoundError: it is not there, or cannot be looked at.
    """
    if "://" in url:
        return _remote(url)
    path = Path(url)
    try:
        facts = (path / stored.FOLDER / f"{stored.EVENTS}.parquet" if path.is_dir() else path).stat()
    except FileNotFoundError as error:
        raise NotFoundError(f"{url}: no such file") from error
    except OSError as error:
        raise NotFoundError(f"{url}: cannot be read: {error.strerror or error}") from error
    return f"{facts.st_size} {facts.st_mtime_ns}"


def _remote(url: str) -> str:
    import fsspec

    try:
        system, inner = fsspec.core.url_to_fs(url)
        system.invalidate_cache()  # it may remember what was there when the worker began
        facts = system.info(inner)
        if facts.get("type") == "directory":
            facts = system.info(f"{inner.rstrip('/')}/{stored.FOLDER}/{stored.EVENTS}.parquet")
    except (OSError, ValueError, ImportError) as error:
        raise NotFoundError(f"{url}: cannot be read: {error}") from error
    return " ".join([str(facts.get("size")), *(str(facts[key]) for key in _TELLS if facts.get(key) is not None)])
