"""Whether a file is still the one that was read: a text that changes when the file does."""

from __future__ import annotations

from pathlib import Path

from kinetoscope.errors import NotFoundError
from kinetoscope.model.tables import parquet
from kinetoscope.readers.files import remote
from kinetoscope.readers.files.stream import is_url

_MARKER = f"{parquet.FOLDER}/{parquet.EVENTS}.parquet"


def stamp(url: str) -> str:
    """Size and time of change of a file; for one in an object store what that says in their place, "" for nothing.

    Of a trace as Parquet it is that of the file that was written last.

    Raises:
        NotFoundError: it is not there, or cannot be looked at.
    """
    if is_url(url):
        return _remote(url)
    path = Path(url)
    try:
        facts = (path / _MARKER if path.is_dir() else path).stat()
    except FileNotFoundError as error:
        raise NotFoundError(f"{url}: no such file") from error
    except OSError as error:
        raise NotFoundError(f"{url}: cannot be read: {error.strerror or error}") from error
    return f"{facts.st_size} {facts.st_mtime_ns}"


def _remote(url: str) -> str:
    where = remote.place(url)
    with remote.blamed(url):
        facts = where.system.info(where.path)
        if facts.get("type") == "directory":
            facts = where.system.info(f"{where.path.rstrip('/')}/{_MARKER}")
    return remote.facts_of(facts).version
