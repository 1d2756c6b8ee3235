"""Content of a SQLite file as far as it is read: some columns of some tables, each read once for all processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.readers.sqlite.database import MISSING, Database

_NO_ROWS: Final = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Wanted:
    """Columns of a table, by what they hold."""

    integers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    bytes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _ReadColumns:
    integers: Mapping[str, Int64s] = field(default_factory=dict)
    texts: Mapping[str, pl.Series] = field(default_factory=dict)
    numbers: Mapping[str, Floats] = field(default_factory=dict)
    bytes: Mapping[str, Sequence[bytes]] = field(default_factory=dict)


class Content:
    """Columns of the tables of a file.

    Args:
        database: the file, which is read now.
        wanted: which columns, by table.
        counted: tables of which only the number of rows is asked for.
    """

    def __init__(self, database: Database, wanted: Mapping[str, Wanted], counted: Sequence[str] = ()) -> None:
        self.tables = database.tables
        self._read = {
            name: _ReadColumns(
                database.integers(name, columns.integers),
                {column: database.texts(name, column) for column in columns.texts},
                {column: database.numbers(name, column) for column in columns.numbers},
                {column: database.bytes(name, column) for column in columns.bytes},
            )
            for name, columns in wanted.items()
            if database.has(name)
        }
        self._counts = {name: database.count(name) for name in counted}

    def integers(self, table: str, columns: Sequence[str]) -> dict[str, Int64s]:
        """Columns of integers in the order of the file: all `MISSING` of what is not there, empty without the table."""
        read = self._read.get(table, _ReadColumns()).integers
        none = np.full(len(next(iter(read.values()), _NO_ROWS)), MISSING, np.int64)
        return {name: read.get(name, none) for name in columns}

    def texts(self, table: str, column: str) -> pl.Series:
        """A column of texts; "" in place of null and of what is no text."""
        return self._read.get(table, _ReadColumns()).texts.get(column, pl.Series([], dtype=pl.String))

    def numbers(self, table: str, column: str) -> Floats:
        """A column of numbers; NaN in place of null and of what is no number."""
        return self._read.get(table, _ReadColumns()).numbers.get(column, np.zeros(0))

    def bytes(self, table: str, column: str) -> Sequence[bytes]:
        """A column of bytes; none in place of null."""
        return self._read.get(table, _ReadColumns()).bytes.get(column, ())

    def count(self, table: str) -> int:
        """How many rows a table has that is only counted."""
        return self._counts.get(table, 0)
