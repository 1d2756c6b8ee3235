"""Files that are written: to a folder here or to a URL; and how large those are that are read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from kinetoscope.errors import InputError
from kinetoscope.model.tables.parquet import FOLDER
from kinetoscope.model.trace.source import Source
from kinetoscope.readers.files.stream import is_url
from kinetoscope.schema import Result
from kinetoscope.views.exports.formats import form_of
from kinetoscope.views.exports.target import spare_half_url, written


def stored(sources: Sequence[Source]) -> int | None:
    """Bytes of the files, as their folder lists them; None where that does not say."""
    try:
        return sum(_size(source.url) if source.size is None else source.size for source in sources)
    except OSError:
        return None


def _size(path: str) -> int:
    """Bytes of a file; of a trace as Parquet, of the files that are read."""
    place = Path(path)
    return sum(file.stat().st_size for file in (place / FOLDER).iterdir()) if place.is_dir() else place.stat().st_size


def save(result: Result, path: str | os.PathLike[str]) -> None:
    """Write a result to a file or a URL, in the format of its ending.

    Raises:
        UsageError: the ending is of no format, or there are too many rows for a sheet.
        MissingExtraError: what writes it is not installed.
        InputError: it cannot be written.
    """
    from kinetoscope.views.exports.files import to_bytes

    write_file(to_bytes(result, form_of(path)), path)


def write_file(data: bytes, output: str | os.PathLike[str]) -> None:
    """Write a file of a name or a URL.

    Raises:
        InputError: it cannot be written.
    """
    with destination(output) as target, written(target) as file:
        file.write(data)


@contextmanager
def destination(output: str | os.PathLike[str]) -> Iterator[Path]:
    """The file to write for an output of a name or a URL; of a URL a file here, which is sent when it is complete.

    Raises:
        InputError: it cannot be written, or not be sent.
    """
    name = os.fspath(output)
    if not is_url(name):
        spare_half_url(name)
        with _blamed(name):
            yield Path(name)
        return
    from kinetoscope.readers.files.remote import locate, one_line_errors

    where = locate(name)
    with TemporaryDirectory(prefix="kinetoscope-") as folder:
        file = Path(folder) / (where.path.rstrip("/").rpartition("/")[2] or "out")
        with _blamed(name):
            yield file
        with one_line_errors(name):
            where.system.put_file(str(file), where.path)


@contextmanager
def _blamed(output: str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # whoever reads it has enough
        raise
    except OSError as error:
        hint = "; does its folder exist?" if isinstance(error, FileNotFoundError) else ""
        raise InputError(f"{output}: cannot be written: {error.strerror or error}{hint}") from error
