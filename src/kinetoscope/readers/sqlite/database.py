"""A SQLite file that nobody vouches for, read by columns: tables and columns are looked for, never expected.

Only plain tables are read, in read-only mode, without views, triggers and virtual tables, which may run what the file
says. A value of another type than its column's counts as none.
"""

from __future__ import annotations

import itertools
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.errors import BrokenTraceError, LimitError, NotATraceError, NotFoundError
from kinetoscope.model.trace.build import TraceBuilder
from kinetoscope.model.trace.source import Source
from kinetoscope.notes import Note
from kinetoscope.readers.files.stream import is_url, opened

MAGIC: Final = b"SQLite format 3\0"

MISSING: Final = -1
"""In a column of integers, in place of null and of what is no integer."""

_MAX_TEXT_BYTES: Final = 1 << 24
"""Bytes of one value beyond which a file is refused."""

T = TypeVar("T")


REPORTS: Final = (".nsys-rep", ".qdrep")
"""Endings of reports of Nsight Systems, which only its own program reads."""

EXPORT: Final = "nsys export --type sqlite --lazy=false"


@contextmanager
def local_file(source: Source, progress: Callable[[int], None] | None = None) -> Iterator[str]:
    """The path of a file on this machine that has the content of a source: a copy of what is remote or compressed.

    Raises:
        NotFoundError: it cannot be read.
        NotATraceError: it is a report of Nsight Systems, and `nsys` is not there to export it, or fails.
        LimitError: it is larger than the options of the source allow.
    """
    if source.url.endswith(REPORTS):
        with tempfile.TemporaryDirectory() as folder:
            yield _exported(source.url, folder)
        return
    if not is_url(source.url) and _begins(source.url) == MAGIC:
        yield source.url
        return
    with tempfile.NamedTemporaryFile(suffix=".sqlite") as copy, opened(source, progress=progress) as blocks:
        for block in blocks:
            copy.write(block)
        copy.flush()
        yield copy.name


def _exported(report: str, folder: str) -> str:
    """The path of the SQLite export of a report, which `nsys` writes into a folder."""
    program = shutil.which("nsys")
    if program is None or is_url(report):
        name = report.rpartition("/")[2]
        raise NotATraceError(
            f"{report}: a report of Nsight Systems, which only its own program reads; export it and open that: "
            f"{EXPORT} {name}"
        )
    file = f"{folder}/report.sqlite"
    done = subprocess.run(
        [program, *EXPORT.split()[1:], "--output", file, report],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode or not Path(file).is_file():
        said = next((line.strip() for line in reversed((done.stderr + done.stdout).splitlines()) if line.strip()), "")
        raise NotATraceError(f"{report}: `{EXPORT}` failed with exit code {done.returncode}: {said[:200]}")
    return file


def _begins(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC))
    except OSError as error:
        raise NotFoundError(f"{path}: {error.strerror or error}") from error


@dataclass(frozen=True)
class ReadProcess:
    """The content of a file about a process.

    Attributes:
        built: its events.
        metadata: facts of the run, as Kineto has them at the top level.
        notes: what was left out.
    """

    built: TraceBuilder
    metadata: Mapping[str, Any]
    notes: tuple[Note, ...]


class Database:
    """A SQLite file; a context manager, which closes it.

    Args:
        path: the file.
        url: what to call it in messages.

    Raises:
        BrokenTraceError: it is no SQLite file, or damaged (during any call).
        LimitError: a value in it is too large (during any call).
    """

    def __init__(self, path: str, url: str) -> None:
        self._url = url
        self._connection = sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)
        try:
            self._tables = dict(self._plain_tables())
        except BaseException:
            self._connection.close()
            raise

    def _plain_tables(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Names of the plain tables, and of their columns."""
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_TEXT_BYTES)
        self._connection.text_factory = _text
        self._run("PRAGMA trusted_schema = OFF")
        self._run("PRAGMA cell_size_check = ON")
        for name, sql in self._listed("SELECT name, sql FROM sqlite_master WHERE type = 'table'"):
            if isinstance(sql, str) and sql.lstrip().upper().startswith("CREATE TABLE"):
                yield name, tuple(column for _, column, *_ in self._listed(f"PRAGMA table_info({_quoted(name)})"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._connection.close()

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of all plain tables."""
        return tuple(self._tables)

    def has(self, table: str, *columns: str) -> bool:
        """True if there is such a table, and it has these columns."""
        return table in self._tables and {*columns} <= {*self._tables[table]}

    def count(self, table: str) -> int:
        """How many rows a table has; 0 where it is not there."""
        return int(self._listed(f"SELECT count(*) FROM {_quoted(table)}")[0][0]) if self.has(table) else 0

    def integers(self, table: str, columns: Sequence[str]) -> dict[str, Int64s]:
        """Columns of integers, by name, in the order of the file.

        Args:
            table: which; without it all are empty.
            columns: their names; one that is not there is all `MISSING`.
        """
        if not self.has(table):
            return {name: np.zeros(0, np.int64) for name in columns}
        there = [name for name in columns if self.has(table, name)]
        fields = ", ".join(f"iif(typeof({_quoted(name)}) = 'integer', {_quoted(name)}, {MISSING})" for name in there)
        rows = self._run(f"SELECT {fields or '1'} FROM {_quoted(table)}")
        flat = self._guarded(lambda: np.fromiter(itertools.chain.from_iterable(rows), np.int64))
        grid = flat.reshape(-1, max(len(there), 1))
        none = np.full(len(grid), MISSING, np.int64)
        return {name: grid[:, there.index(name)].copy() if name in there else none for name in columns}

    def texts(self, table: str, column: str) -> pl.Series:
        """A column of texts; "" in place of null and of what is no text."""
        return pl.Series(column, self._column(table, column, "typeof({0}) = 'text'", "''"), pl.String)

    def numbers(self, table: str, column: str) -> Floats:
        """A column of numbers; NaN in place of null and of what is no number."""
        values = self._column(table, column, "typeof({0}) IN ('integer', 'real')", "NULL")
        return np.array([np.nan if value is None else value for value in values], np.float64)

    def bytes(self, table: str, column: str) -> list[bytes]:
        """A column of bytes; none in place of null and of what are no bytes."""
        return self._column(table, column, "typeof({0}) = 'blob'", "x''")

    def least(self, table: str, by: Sequence[str], column: str) -> list[tuple[int, ...]]:
        """The distinct integers in some columns, and the least integer of another with each; `MISSING` for none."""
        if not self.has(table, *by, column):
            return []
        name, groups = _quoted(column), [_quoted(each) for each in by]
        least = f"coalesce(min(iif(typeof({name}) = 'integer', {name}, NULL)), {MISSING})"
        integers = " AND ".join(f"typeof({each}) = 'integer'" for each in groups)
        listed = ", ".join(groups)
        return self._listed(f"SELECT {listed}, {least} FROM {_quoted(table)} WHERE {integers} GROUP BY {listed}")

    def _column(self, table: str, column: str, condition: str, otherwise: str) -> list[Any]:
        """The values of a column that meet a condition, and another in place of those that do not."""
        if not self.has(table, column):
            return self._listed_values(f"SELECT {otherwise} FROM {_quoted(table)}") if self.has(table) else []
        name = _quoted(column)
        return self._listed_values(f"SELECT iif({condition.format(name)}, {name}, {otherwise}) FROM {_quoted(table)}")

    def _listed_values(self, statement: str) -> list[Any]:
        rows = self._run(statement)
        return self._guarded(lambda: list(itertools.chain.from_iterable(rows)))

    def _listed(self, statement: str) -> list[tuple[Any, ...]]:
        return self._guarded(lambda: [*self._run(statement)])

    def _run(self, statement: str) -> Iterator[tuple[Any, ...]]:
        return self._guarded(lambda: self._connection.execute(statement))

    def _guarded(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except sqlite3.DataError as error:
            raise LimitError(f"{self._url}: {error}; no profiler writes such values") from error
        except UnicodeError as error:  # SQLite quotes a damaged definition
            raise BrokenTraceError(f"{self._url}: damaged: a name in it is no text; export it again") from error
        except (sqlite3.Error, OverflowError) as error:
            raise BrokenTraceError(f"{self._url}: damaged: {error}; export it again") from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
