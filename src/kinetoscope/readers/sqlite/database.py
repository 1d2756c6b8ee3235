"""A SQLite file that nobody vouches for, read by columns: tables and columns are looked for, never expected.

Only plain tables are read, in read-only mode, without views, triggers and virtual tables, which may run what the file
says. A value of another type than its column's counts as none.
"""

from __future__ import annotations

import itertools
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

import numpy as np

from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.errors import BrokenTraceError, LimitError, NotATraceError, NotFoundError
from kinetoscope.model.trace.build import TraceBuilder
from kinetoscope.model.trace.source import Source
from kinetoscope.notes import Note
from kinetoscope.readers.byte_ranges import Texts
from kinetoscope.readers.files.stream import is_url, opened
from kinetoscope.readers.sqlite import pages
from kinetoscope.readers.sqlite.pages import page_file

MAGIC: Final = b"SQLite format 3\0"

MISSING: Final = -1
"""In a column of integers, in place of null and of what is no integer."""

_MAX_TEXT_BYTES: Final = 1 << 24
"""Bytes of one value beyond which a file is refused."""

T = TypeVar("T")


REPORTS: Final = (".nsys-rep", ".qdrep")
"""Endings of reports of Nsight Systems, which only its own program reads."""

_DESCENDING: Final = re.compile(r"(?i)PRIMARY\s+KEY\s+DESC")
"""Such a column does not stand for the number of the row."""

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


@dataclass(frozen=True)
class Wanted:
    """Columns of a table, by what they hold."""

    integers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    bytes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadColumns:
    """Columns of a table in the order of the file, by name; one that is not there has no values.

    Attributes:
        integers: `MISSING` in place of null and of what is no integer.
        texts: "" in place of null and of what is no text.
        numbers: NaN in place of null and of what is no number.
        bytes: none in place of null and of what are no bytes.
    """

    integers: Mapping[str, Int64s] = field(default_factory=dict)
    texts: Mapping[str, Texts] = field(default_factory=dict)
    numbers: Mapping[str, Floats] = field(default_factory=dict)
    bytes: Mapping[str, Texts] = field(default_factory=dict)


@dataclass(frozen=True)
class _DefinedTable:
    """A plain table.

    Attributes:
        columns: the types that its columns declare, by name.
        root: the first of its pages.
        row_number: the column that stands for the number of the row; "" for none.
        with_defaults: columns that have a value where a record has none.
        is_plain: its pages can be read.
    """

    columns: Mapping[str, str]
    root: int
    row_number: str
    with_defaults: Collection[str]
    is_plain: bool


def _table(sql: str, root: int, columns: Sequence[tuple[Any, ...]]) -> _DefinedTable:
    """The table that a statement defines.

    Args:
        sql: the statement.
        root: where its pages begin.
        columns: number, name, type, not null, default, place in the key, kind; as `table_xinfo` lists them.
    """
    keys = {name: declared.upper() for _, name, declared, _, _, key, _ in columns if key}
    return _DefinedTable(
        {name: declared.upper() for _, name, declared, *_, hidden in columns if hidden == 0},
        root,
        next(iter(keys)) if [*keys.values()] == ["INTEGER"] else "",
        {name for _, name, _, _, default, *_ in columns if default is not None},
        all(row[6] == 0 for row in columns) and _DESCENDING.search(sql) is None,
    )


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
            self._pages = page_file(path, self._listed("PRAGMA page_count")[0][0])
        except BaseException:
            self._connection.close()
            raise

    def _plain_tables(self) -> Iterator[tuple[str, _DefinedTable]]:
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_TEXT_BYTES)
        self._connection.text_factory = _text
        self._run("PRAGMA trusted_schema = OFF")
        self._run("PRAGMA cell_size_check = ON")
        for name, sql, root in self._listed("SELECT name, sql, rootpage FROM sqlite_master WHERE type = 'table'"):
            if isinstance(sql, str) and sql.lstrip().upper().startswith("CREATE TABLE"):
                yield (
                    name,
                    _table(
                        sql, root if isinstance(root, int) else 0, self._listed(f"PRAGMA table_xinfo({_quoted(name)})")
                    ),
                )

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
        return table in self._tables and {*columns} <= {*self._tables[table].columns}

    def count(self, table: str) -> int:
        """How many rows a table has; 0 where it is not there."""
        return int(self._listed(f"SELECT count(*) FROM {_quoted(table)}")[0][0]) if self.has(table) else 0

    def read(self, table: str, wanted: Wanted) -> ReadColumns:
        """Columns of a table: out of its pages where that can be, else by SQLite."""
        if not self.has(table):
            return ReadColumns()
        there = Wanted(
            *(
                tuple(name for name in names if self.has(table, name))
                for names in (wanted.integers, wanted.texts, wanted.numbers, wanted.bytes)
            )
        )
        return self._out_of_pages(self._tables[table], there) or self._by_sqlite(table, there)

    def _out_of_pages(self, table: _DefinedTable, wanted: Wanted) -> ReadColumns | None:
        """Columns of a plain table; None where something is not as usual."""
        has_odd_integers = any(_is_real(table.columns[name]) for name in wanted.integers)
        if self._pages is None or not table.is_plain or has_odd_integers:
            return None
        kinds = [0] * len(table.columns)
        places = {name: place for place, name in enumerate(table.columns)}
        for kind, names in (
            (pages.INTEGER, wanted.integers),
            (pages.NUMBER, wanted.numbers),
            (pages.TEXT, wanted.texts),
            (pages.BYTES, wanted.bytes),
        ):
            for name in names:
                kinds[places[name]] = kind | (pages.ROW_NUMBER if name == table.row_number else 0)
        fewest = max(
            (places[name] + 1 for name in (*table.with_defaults, table.row_number) if name and kinds[places[name]]),
            default=0,
        )
        rows = pages.rows(self._pages, table.root, kinds, fewest)
        if rows is None:
            return None
        integers, numbers = (sorted(names, key=places.__getitem__) for names in (wanted.integers, wanted.numbers))
        ranged = dict(
            zip(
                sorted((*wanted.texts, *wanted.bytes), key=places.__getitem__),
                (Texts(rows.data, ranges) for ranges in rows.ranges),
                strict=True,
            )
        )
        return ReadColumns(
            dict(zip(integers, rows.integers, strict=True)),
            {name: ranged[name] for name in wanted.texts},
            dict(zip(numbers, rows.numbers, strict=True)),
            {name: ranged[name] for name in wanted.bytes},
        )

    def _by_sqlite(self, table: str, wanted: Wanted) -> ReadColumns:
        return ReadColumns(
            self._integers(table, wanted.integers),
            {name: self._texts(table, name) for name in wanted.texts},
            {name: self._numbers(table, name) for name in wanted.numbers},
            {name: self._bytes(table, name) for name in wanted.bytes},
        )

    def _integers(self, table: str, columns: Sequence[str]) -> dict[str, Int64s]:
        fields = ", ".join(f"iif(typeof({_quoted(name)}) = 'integer', {_quoted(name)}, {MISSING})" for name in columns)
        rows = self._run(f"SELECT {fields or '1'} FROM {_quoted(table)}")
        flat = self._guarded(lambda: np.fromiter(itertools.chain.from_iterable(rows), np.int64))
        grid = flat.reshape(-1, max(len(columns), 1))
        return {name: grid[:, place].copy() for place, name in enumerate(columns)}

    def _texts(self, table: str, column: str) -> Texts:
        return Texts.of(self._column(table, column, "typeof({0}) = 'text'", "''"))

    def _numbers(self, table: str, column: str) -> Floats:
        values = self._column(table, column, "typeof({0}) IN ('integer', 'real')", "NULL")
        return np.array([np.nan if value is None else value for value in values], np.float64)

    def _bytes(self, table: str, column: str) -> Texts:
        return Texts.of(self._column(table, column, "typeof({0}) = 'blob'", "x''"))

    def _column(self, table: str, column: str, condition: str, otherwise: str) -> list[Any]:
        """The values of a column that meet a condition, and another in place of those that do not."""
        name = _quoted(column)
        rows = self._run(f"SELECT iif({condition.format(name)}, {name}, {otherwise}) FROM {_quoted(table)}")
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


def _is_real(declared: str) -> bool:
    """True for a column whose integers SQLite gives as real numbers, by the type that it declares."""
    is_other = any(word in declared for word in ("INT", "CHAR", "CLOB", "TEXT", "BLOB"))
    return not is_other and any(word in declared for word in ("REAL", "FLOA", "DOUB"))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
