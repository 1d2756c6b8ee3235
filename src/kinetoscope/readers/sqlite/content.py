"""Content of a SQLite file as far as it is read: some columns of some tables, each read once for all processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.algorithms.grouping import group, reduce_by
from kinetoscope.readers.byte_ranges import Texts
from kinetoscope.readers.sqlite.database import MISSING, Database, ReadColumns, Wanted

_NO_ROWS: Final = np.zeros(0, np.int64)


def in_order(work: Iterable[Iterable[Int64s]], process: Callable[[Int64s], Int64s]) -> list[int]:
    """The processes that work on devices: by device, then by their first work.

    Args:
        work: identities of processes, devices and starts, of each table; work without either is not heeded.
        process: their numbers by their identities.
    """
    tables = [[*columns] for columns in work]
    identity, device, start = (np.concatenate([_NO_ROWS, *column]) for column in zip(*tables, strict=True))
    known = (identity != MISSING) & (device != MISSING)
    identity, device = identity[known], device[known]
    start = np.where(start == MISSING, np.iinfo(np.int64).max, start)[known]
    codes, first = group(identity, device)
    least = reduce_by(codes, len(first), start).least
    seen: dict[int, tuple[int, int]] = {}
    for each, *place in zip(process(identity[first]).tolist(), device[first].tolist(), least.tolist(), strict=True):
        seen[each] = min(seen.get(each, (place[0], place[1])), (place[0], place[1]))
    return sorted(seen, key=lambda each: (*seen[each], each))


class Content:
    """Columns of the tables of a file.

    Args:
        database: the file, which is read now.
        wanted: which columns, by table.
        counted: tables of which only the number of rows is asked for.
    """

    def __init__(self, database: Database, wanted: Mapping[str, Wanted], counted: Sequence[str] = ()) -> None:
        self.tables = database.tables
        self._read = {name: database.read(name, columns) for name, columns in wanted.items()}
        self._counts = {name: database.count(name) for name in counted}

    def integers(self, table: str, columns: Sequence[str]) -> dict[str, Int64s]:
        """Columns of integers in the order of the file: all `MISSING` of what is not there, empty without the table."""
        read = self._read.get(table, ReadColumns()).integers
        none = np.full(self._count(table), MISSING, np.int64)
        return {name: read.get(name, none) for name in columns}

    def texts(self, table: str, column: str) -> Texts:
        """A column of texts; "" in place of null and of what is no text, and of all where it is not there."""
        texts = self._read.get(table, ReadColumns()).texts.get(column)
        return Texts.empty(self._count(table)) if texts is None else texts

    def numbers(self, table: str, column: str) -> Floats:
        """A column of numbers; NaN in place of null and of what is no number."""
        numbers = self._read.get(table, ReadColumns()).numbers.get(column)
        return np.full(self._count(table), np.nan) if numbers is None else numbers

    def bytes(self, table: str, column: str) -> Texts:
        """A column of bytes; none in place of null, and no rows where it is not there."""
        return self._read.get(table, ReadColumns()).bytes.get(column, Texts.empty(0))

    def count(self, table: str) -> int:
        """How many rows a table has that is only counted."""
        return self._counts.get(table, 0)

    def _count(self, table: str) -> int:
        """How many rows were read of a table."""
        read = self._read.get(table, ReadColumns())
        columns: tuple[Sized, ...] = (
            *read.integers.values(),
            *read.texts.values(),
            *read.numbers.values(),
            *read.bytes.values(),
        )
        return len(columns[0]) if columns else 0
