"""The files of a run's history: which process each is of, and its rows, as far as they are whole.

A file is opened anew each time, as on a shared folder only that shows what another machine has written. What lacks
bytes at the end is not there yet; what is damaged is passed over, and counted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.checked_blocks import gather
from kinetoscope.errors import BrokenTraceError, NotFoundError
from kinetoscope.record.history import layout
from kinetoscope.record.history.layout import Mark

WINDOW_ENDING: Final = layout.WINDOW_ENDING
"""The ending of the file of a window whose trace was deleted."""

_TRACE_ENDING: Final = ".pt.trace.json.gz"
_PIECE: Final = 1 << 26
"""Bytes that are read at once, several times the longest block."""

_HEAD_BYTES: Final = 1 << 16
_FIELDS: Final = {"q": "<i8", "f": "<f4", "I": "<u4"}
_NEEDED: Final = frozenset(("start", "duration", "step"))
_MOST_FIELDS: Final = 64
_MAX_TIME: Final = 1 << 62
_MAX_NUMBER: Final = 1 << 31
_MAX_DETAIL: Final = 4096

Records = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A file of the history of a process.

    Attributes:
        path: where it is.
        rank, world, local_rank, host, pid: the process.
        attempt: how often the run was started before this.
        began: when the history began, ns since 1970.
        record: what a record of a step consists of; scales: factors of its fields.
        body: where the blocks behind the head begin.
    """

    path: str
    rank: int
    world: int
    local_rank: int
    host: str
    pid: int
    attempt: int
    began: int
    record: np.dtype[np.void]
    scales: dict[str, int]
    body: int


@dataclass(frozen=True, slots=True)
class HistoryRows:
    """Rows of a file.

    Attributes:
        records: of its steps, in order, with the fields of its head.
        marks: kind, detail, step, start, end, reason.
        until: the bytes of the file that are read: where to go on.
        damaged: bytes that were passed over.
    """

    records: Records
    marks: list[Mark]
    until: int
    damaged: int


Place = str | os.PathLike[str]


def history_files(path: Place | Sequence[Place]) -> list[HistoryFile]:
    """The files of a run: by rank, attempt, and time; `path`: the folder of the run, that of its history, or files.

    Where a rank has several of one attempt, as a folder was recorded into again, later ones are later attempts.

    Raises:
        NotFoundError: there is none.
        BrokenTraceError: a file is something else; of a folder, all are.
    """
    if not isinstance(path, (str, os.PathLike)):
        several = [Path(each) for each in path]
        return _in_order(_readable(several[0].parent, several))
    place = Path(path)
    if place.is_file():
        file = _opened(place)
        if file is None:
            raise NotFoundError(f"{place}: the head of this history is not written yet; try again in a second")
        return [file]
    folder = place / layout.FOLDER if (place / layout.FOLDER).is_dir() else place
    return _in_order(_readable(folder, sorted(folder.glob(f"*{layout.ENDING}"))))


def _readable(folder: Path, places: Sequence[Path]) -> list[HistoryFile]:
    files: list[HistoryFile | None] = []
    error: BrokenTraceError | None = None
    for each in places:
        try:
            files.append(_opened(each))
        except BrokenTraceError as broken:
            error = broken
    if error is not None and not any(files):
        raise error
    if not files:
        raise NotFoundError(f"{folder}: no history of a run; `kinetoscope record --history -o DIR -- …` writes one")
    return [each for each in files if each is not None]


def _in_order(files: list[HistoryFile]) -> list[HistoryFile]:
    files.sort(key=lambda each: (each.rank, each.began, each.path))
    last: HistoryFile | None = None
    ordered = []
    for each in files:
        if last is not None and last.rank == each.rank and each.attempt <= last.attempt:
            each = replace(each, attempt=last.attempt + 1)
        ordered.append(each)
        last = each
    return ordered


def _opened(path: Path) -> HistoryFile | None:
    """The file by its head; None if that is not there yet."""
    try:
        with path.open("rb") as file:
            content = file.read(_HEAD_BYTES)
    except OSError as error:
        raise NotFoundError(f"{path}: {error.strerror or error}") from error
    return file_of(str(path), content)


def file_of(path: str, content: bytes) -> HistoryFile | None:
    """The file whose beginning this is, by its head; None if that is not there yet.

    Raises:
        BrokenTraceError: it is something else.
    """
    first = layout.block_at(content, 0)
    if first is None and layout.lacks_bytes(content):
        return None
    try:
        if first is None or first[0] != layout.HEAD_BLOCK:
            raise ValueError("it does not begin with a head")
        return _by_head(str(path), json.loads(first[2]), layout.HEAD_BYTES + len(first[2]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BrokenTraceError(f"{path}: no history that this version reads: {error}") from error


def _by_head(path: str, head: Any, body: int) -> HistoryFile:
    if head["format"] != layout.FORMAT:
        raise ValueError(f"its format is {str(head['format'])[:80]!r}")
    fields = _fields(head["fields"])
    numbers = {name: _integer(head[name]) for name in ("rank", "world", "local_rank", "pid", "attempt")}
    return HistoryFile(
        path=path,
        host=str(head["host"])[:64],
        began=_integer(head["began"], _MAX_TIME),
        record=np.dtype([(name, _FIELDS[code]) for name, code, _ in fields]),
        scales={name: scale for name, _, scale in fields},
        body=body,
        **numbers,
    )


def _fields(value: Any) -> Sequence[tuple[str, str, int]]:
    fields = [(str(name), str(code), _integer(scale)) for name, code, scale in value]
    names = {name for name, _, _ in fields}
    if len(fields) > _MOST_FIELDS or len(names) < len(fields) or not names >= _NEEDED:
        raise ValueError("its records have other fields")
    return fields


def _integer(value: Any, most: int = _MAX_NUMBER) -> int:
    if type(value) is not int or not 0 <= value < most:
        raise ValueError(f"{str(value)[:80]} is no number of its head")
    return value


def read_rows(file: HistoryFile, since: int = 0) -> HistoryRows:
    """The rows of a file behind the first `since` bytes, which an earlier call has read.

    Raises:
        NotFoundError: it cannot be read any more.
    """
    records, marks = [], []
    began = at = max(since, file.body)
    whole, size = 0, file.record.itemsize
    try:
        with open(file.path, "rb") as stream:
            while True:
                stream.seek(at)
                content = stream.read(min(_PIECE, max(os.fstat(stream.fileno()).st_size - at, 0)))
                blocks = gather(
                    np.frombuffer(content, np.uint8), layout.MAGIC, layout.STEPS_BLOCK, size, layout.MAX_BODY
                )
                records.append(_plausible(blocks.records.view(file.record)))
                marks += [mark for place in blocks.others.tolist() for mark in _marks(layout.block_at(content, place))]
                whole += blocks.whole
                at += blocks.until
                if len(content) < _PIECE:
                    break
    except OSError as error:
        raise NotFoundError(f"{file.path}: {error.strerror or error}") from error
    return HistoryRows(records[0] if len(records) == 1 else np.concatenate(records), marks, at, at - began - whole)


def _plausible(records: Records) -> Records:
    good = (records["start"] >= 0) & (records["start"] < _MAX_TIME)
    return records if good.all() else records[good]


def _marks(block: tuple[int, int, bytes] | None) -> Iterator[Mark]:
    """The marks of a block; what is no mark is left out."""
    if block is None or block[0] != layout.MARKS_BLOCK:
        return
    try:
        values = json.loads(block[2])
    except (ValueError, RecursionError):
        return
    for value in values if isinstance(values, list) else ():
        if (mark := _mark(value)) is not None:
            yield mark


def _mark(value: Any) -> Mark | None:
    try:
        kind, detail, step, start, end, *more = value
        reason = more[0] if more else None
        numbers = _integer(step), _integer(start, _MAX_TIME), _integer(end, _MAX_TIME)
    except (ValueError, TypeError):
        return None
    if kind not in layout.KINDS or not isinstance(detail, str | None) or not isinstance(reason, str | None):
        return None
    return (kind, detail and detail[:_MAX_DETAIL], *numbers, reason and reason[:_MAX_DETAIL])


def window_files(path: str | os.PathLike[str]) -> Mapping[str, Path]:
    """The file of each window, by the name that its mark has as `detail`: its trace, else its summary."""
    run = Path(path)
    left = {
        each.name.removesuffix(layout.WINDOW_ENDING) + _TRACE_ENDING: each
        for each in (run / layout.FOLDER / layout.WINDOWS_FOLDER).glob(f"*{layout.WINDOW_ENDING}")
    }
    return left | {each.name: each for each in run.glob(f"*{_TRACE_ENDING}")}
