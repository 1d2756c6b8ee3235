"""The history of a run as two tables, of any ranks and steps, and what is new in it since the last look."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.model.history.series import MARKS, STEPS
from kinetoscope.notes import Note
from kinetoscope.readers.history.files import HistoryFile, HistoryRows, Place, Records, history_files, read_rows
from kinetoscope.record.history.layout import UNKNOWN_INTEGER

_OF_FILE: Final = ("rank", "attempt")
_BOUND_OF_WHOLE_NUMBERS: Final = 1 << 52
"""Bound of numbers that are rounded at once: they are known, and have a place among whole ones."""

_FILES_AHEAD: Final = 4
"""Files that are read before they are asked for."""


@dataclass(frozen=True, slots=True)
class HistoryTables:
    """Rows of a history.

    Attributes:
        steps, marks: as `STEPS` and `MARKS` have them.
        notes: what is damaged.
    """

    steps: pl.DataFrame
    marks: pl.DataFrame
    notes: tuple[Note, ...] = ()


def read_history(
    path: Place | Sequence[Place],
    *,
    ranks: Collection[int] | None = None,
    steps: tuple[int, int] | None = None,
    columns: Sequence[str] = tuple(STEPS.names),
) -> HistoryTables:
    """The history of a run: its folder, that of the history, or a file.

    Args:
        path: of the run.
        ranks: only of these; None: all.
        steps: from the first to the last of these, inclusive, and the marks that start there; None: all.
        columns: of the table of steps.

    Raises:
        NotFoundError, BrokenTraceError: as `history_files` has it.
    """
    each = list(by_rank(path, ranks=ranks, steps=steps, columns=columns))
    return HistoryTables(
        pl.concat([tables.steps for tables in each]) if each else _no_steps(columns),
        pl.concat([tables.marks for tables in each]) if each else MARKS.frame([]),
        tuple(note for tables in each for note in tables.notes),
    )


def by_rank(
    path: Place | Sequence[Place],
    *,
    ranks: Collection[int] | None = None,
    steps: tuple[int, int] | None = None,
    columns: Sequence[str] = tuple(STEPS.names),
) -> Iterator[HistoryTables]:
    """The same for each rank and attempt, one after the other: no more than some ranks are in memory."""
    files = [file for file in history_files(path) if ranks is None or file.rank in ranks]

    def tables(file: HistoryFile) -> HistoryTables:
        return _tables(file, read_rows(file), steps, columns)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        waiting = [pool.submit(tables, file) for file in files[:_FILES_AHEAD]]
        for place in range(len(files)):
            done = waiting.pop(0).result()
            waiting += [pool.submit(tables, file) for file in files[place + _FILES_AHEAD : place + _FILES_AHEAD + 1]]
            yield done


@dataclass
class HistoryFollower:
    """Follows the history of a run that may still be going on.

    Attributes:
        path: of the run.
        read: bytes of each file that were read, by path: where the next look goes on.
    """

    path: Place | Sequence[Place]
    read: dict[str, int] = field(default_factory=dict)

    def new(self) -> HistoryTables:
        """The rows since the last look.

        Raises:
            NotFoundError, BrokenTraceError: as `history_files` has it.
        """
        each = list(self.by_file())
        return HistoryTables(
            pl.concat([tables.steps for tables in each]),
            pl.concat([tables.marks for tables in each]),
            tuple(note for tables in each for note in tables.notes),
        )

    def by_file(self, columns: Sequence[str] = tuple(STEPS.names)) -> Iterator[HistoryTables]:
        """The same for each file, one after the other, in the order of ranks and attempts.

        Each is opened anew: else a shared folder shows what is half a minute old.

        Raises: as `new`.
        """

        def tables(file: HistoryFile) -> tuple[HistoryFile, HistoryRows, HistoryTables]:
            rows = read_rows(file, self.read.get(file.path, 0))
            return file, rows, _tables(file, rows, None, columns)

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            files = history_files(self.path)
            for begin in range(0, len(files), _FILES_AHEAD):
                for file, rows, new in pool.map(tables, files[begin : begin + _FILES_AHEAD]):
                    self.read[file.path] = rows.until
                    yield new


def _tables(
    file: HistoryFile, rows: HistoryRows, steps: tuple[int, int] | None, columns: Sequence[str]
) -> HistoryTables:
    records = rows.records
    first, last = steps or (0, UNKNOWN_INTEGER)
    if steps is not None:
        records = records[(records["step"] >= max(first, 0)) & (records["step"] <= last)]
    if (np.diff(records["start"]) < 0).any():  # calls of several threads overlap
        records = records[np.argsort(records["start"], kind="stable")]
    marks = [mark for mark in rows.marks if first <= mark[2] <= last]
    marks.sort(key=lambda mark: mark[3:5])
    return HistoryTables(
        pl.DataFrame([_column(file, records, name) for name in columns]),
        MARKS.frame([(file.rank, file.attempt, *mark) for mark in marks]),
        tuple(_damage(file, rows)),
    )


def _damage(file: HistoryFile, rows: HistoryRows) -> Iterator[Note]:
    if rows.damaged:
        yield Note(
            "HISTORY_DAMAGED",
            f"{rows.damaged:,} bytes of the history of rank {file.rank} are damaged; what they had is missing.",
        )


def _column(file: HistoryFile, records: Records, name: str) -> pl.Series:
    """A column of `STEPS`."""
    if name in _OF_FILE:
        return pl.Series(name, [getattr(file, name)], pl.Int64).new_from_index(0, len(records))
    if name == "end":
        return pl.Series(name, records["start"] + _durations(records["duration"]))
    if name not in file.scales:
        return pl.Series(name, [None], pl.Int64).new_from_index(0, len(records))
    values, scale = np.ascontiguousarray(records[name]), file.scales[name]
    if values.dtype.kind == "f":
        return _rounded(name, values, scale)
    series = pl.Series(name, values.astype(np.int64) if scale == 1 else values.astype(np.int64) * scale)
    if values.dtype.kind == "u" and name != "step" and (unknown := values == UNKNOWN_INTEGER).any():
        return series.set(pl.Series(unknown), None)
    return series


def _rounded(name: str, values: NDArray[np.float32], scale: int) -> pl.Series:
    """Numbers times a scale as whole ones; NaN is null."""
    if np.isnan(values).all():
        return pl.Series(name, [None], pl.Int64).new_from_index(0, len(values))
    if not abs(values.min()) < _BOUND_OF_WHOLE_NUMBERS / scale > abs(values.max()):  # one is NaN, or large
        return pl.Series(name, values * np.float64(scale)).fill_nan(None).round().cast(pl.Int64, strict=False)
    whole = values.astype(np.float64)
    return pl.Series(name, np.rint(whole if scale == 1 else whole * scale).astype(np.int64))


def _durations(values: NDArray[np.float32]) -> NDArray[np.int64]:
    whole = np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    return np.clip(np.rint(whole), 0, 1 << 61).astype(np.int64)


def _no_steps(columns: Sequence[str]) -> pl.DataFrame:
    return STEPS.frame([]).select(columns)
