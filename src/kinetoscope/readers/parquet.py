"""Reads the folders of Parquet files that `convert --to parquet` writes: a trace as it was, without parsing JSON.

Whoever made the folder may mean ill: everything that is taken from it is checked before it is used as a place in an
array. The declared tables beside the trace are not read; they follow from it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Int32s, Int64s, UInt8s
from kinetoscope.algorithms.compiled import compiled, frozen
from kinetoscope.errors import BrokenTraceError, LimitError
from kinetoscope.model.tables import parquet
from kinetoscope.model.tables.parquet import Manifest
from kinetoscope.model.trace.shapes import (
    ARGS,
    CAT,
    DUR,
    IN_COLUMN,
    IN_TRACK,
    NOT_AN_OBJECT,
    NUMBER_TEXT,
    OPEN,
    PH,
    PID,
    RAW,
    SPECIAL_KEYS,
    STRING,
    TID,
    TIME_DECIMAL,
    TIME_INTEGER,
    TS,
    Item,
    Shapes,
    unpack_item,
)
from kinetoscope.model.trace.shapes import NAME as NAME_KEY
from kinetoscope.model.trace.source import DEFAULT_MAX_SIZE, Source
from kinetoscope.model.trace.strings import Strings
from kinetoscope.model.trace.trace import NO_TIME, Trace
from kinetoscope.model.trace.tracks import Tracks
from kinetoscope.readers.files.cache import Cache
from kinetoscope.readers.files.stream import MAX_RATIO, UNSUSPICIOUS_BYTES, cache_for, is_url, open_file
from kinetoscope.readers.json.columns import slots_of
from kinetoscope.readers.json.tokenizer import LONGEST_TIME
from kinetoscope.readers.reader import CandidateFile, Reader

NAME: Final = "parquet"

_MAX_SHAPE_ITEMS: Final = 1 << 22
_PLACES: Final = {PH: IN_COLUMN, CAT: IN_COLUMN, NAME_KEY: IN_COLUMN, PID: IN_TRACK, TID: IN_TRACK}
_TIMES: Final = (TIME_INTEGER, TIME_DECIMAL)
_WIDTHS: Final[dict[Any, int]] = {pl.UInt8: 1, pl.Int32: 4, pl.Int64: 8}


def probe(candidate: CandidateFile, text: bytes, cache: Cache | None) -> CandidateFile:  # noqa: ARG001 - see `Probe`
    """The candidate with what its manifest tells, which is all at once."""
    with _blamed(candidate.url):
        manifest = _manifest(candidate.url, cache)
    return replace(candidate, rank=manifest.rank, world=manifest.world, basis="text")


def load(source: Source, *, progress: Callable[[int], None] | None = None) -> Trace:
    """The trace in a folder.

    Args:
        source: which folder.
        progress: called with the bytes of its files read since.

    Raises:
        NotFoundError: a file cannot be read.
        BrokenTraceError: what is in them is no trace.
        LimitError: it is larger than `source.options.max_size` allows.
    """
    with _blamed(source.url):
        return _Folder(source, progress or (lambda _: None), cache_for(source.url, source.options)).trace()


@contextmanager
def _blamed(folder: str) -> Iterator[None]:
    """Errors in the content become one error that names the folder."""
    try:
        yield
    except (ValueError, OverflowError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise BrokenTraceError(f"{folder}: damaged: {reason}; convert the original trace again") from error


def _opened(folder: str, name: str, cache: Cache | None) -> tuple[Any, int]:
    """A file as Polars takes it, and its size."""
    path = f"{folder.rstrip('/')}/{parquet.FOLDER}/{name}.parquet"
    file, size = open_file(path, cache)
    with file:
        if not is_url(path):
            return path, size or 0
        data = file.read()
    return io.BytesIO(data), len(data)


def _manifest(folder: str, cache: Cache | None) -> Manifest:
    file, _ = _opened(folder, parquet.EVENTS, cache)
    text = pl.read_parquet_metadata(file).get(parquet.MANIFEST)
    if text is None:
        raise ValueError("it has no manifest")
    try:
        return Manifest.of(json.loads(text))
    except RecursionError as error:
        raise ValueError("its manifest is nested too deeply") from error


def _require(true: object, reason: str) -> None:
    if not true:
        raise ValueError(reason)


@dataclass(frozen=True, slots=True)
class _Folder:
    """The files of one trace, read and checked one after the other."""

    source: Source
    progress: Callable[[int], None]
    cache: Cache | None

    def trace(self) -> Trace:
        manifest = _manifest(self.source.url, self.cache)
        strings = self._strings(manifest)
        shapes, packed = self._shapes(strings)
        tracks = self._tracks()
        events = self._arrays(parquet.EVENTS)
        values = self._arrays(parquet.VALUES)["value"]
        _check_events(events, strings, shapes, tracks)
        _check_values(events["shape"], values, shapes, packed, strings)
        members = self._members()
        _require(manifest.members_before_events <= len(members), "more values before the events than there are")
        return Trace(
            source=self.source,
            columns={**events, "first": shapes.first_values(events["shape"])},
            values=values,
            strings=strings,
            shapes=shapes,
            tracks=tracks,
            members=members,
            members_before_events=manifest.members_before_events,
            reading=manifest.reading,
            text_bytes=manifest.text_bytes,
        )

    # --- the files

    def _frame(self, name: str) -> pl.DataFrame:
        """The columns of a file, of the types that they must have, without nulls."""
        wanted = parquet.FILES[name]
        file, size = _opened(self.source.url, name, self.cache)
        scan = pl.scan_parquet(file, glob=False)
        columns = dict(scan.collect_schema())
        _require(columns == wanted, f"{name} has the columns {columns}, not {wanted}")
        rows = int(scan.select(pl.len()).collect().item())
        self._within_limits(rows * sum(_WIDTHS.get(dtype, 16) for dtype in wanted.values()), size)
        if isinstance(file, io.BytesIO):
            file.seek(0)
        frame = pl.read_parquet(file, glob=False)
        _require(not any(frame.null_count().row(0)), f"{name} has missing values")
        self._within_limits(sum(map(_bytes_of_texts, frame)), size)  # a text repeated a million times is stored once
        self.progress(size)
        return frame

    def _within_limits(self, size: int, stored_size: int) -> None:
        limit = self.source.options.max_size
        suspicious = limit == DEFAULT_MAX_SIZE and size > max(UNSUSPICIOUS_BYTES, MAX_RATIO * stored_size)
        if size > limit or suspicious:
            raise LimitError(
                f"{self.source.url}: {stored_size:,} bytes of Parquet hold {size:,} bytes of columns; if it is "
                "genuine, set your own limit with --max-size"
            )

    def _arrays(self, name: str) -> dict[str, NDArray[Any]]:
        return {column.name: np.ascontiguousarray(column.to_numpy()) for column in self._frame(name)}

    def _strings(self, manifest: Manifest) -> Strings:
        pieces = self._frame(parquet.ARENA)["bytes"]
        used = int(pieces.bin.size().sum())
        _require(used <= manifest.arena_bytes <= max(4 * used, UNSUSPICIOUS_BYTES), "the arena has an impossible size")
        arena = np.zeros(manifest.arena_bytes, np.uint8)
        arena[:used] = np.frombuffer(b"".join(pieces.to_list()), np.uint8)
        columns = self._arrays(parquet.STRINGS)
        _check_strings(arena, used, columns["offset"])
        strings = Strings(arena, columns["offset"], columns["oddities"])
        special = tuple(strings.raw(code) for code in range(min(len(strings), len(SPECIAL_KEYS))))
        _require(special == tuple(key.encode() for key in SPECIAL_KEYS), "the special keys are not its first strings")
        return strings

    def _shapes(self, strings: Strings) -> tuple[Shapes, list[Int64s]]:
        column = self._frame(parquet.SHAPES)["items"]
        _require(int(column.list.len().sum() or 0) <= _MAX_SHAPE_ITEMS, "too many items in shapes")
        _require(not column.explode().has_nulls() or not column.len(), "shapes have missing values")
        packed = [np.array(items, np.int64) for items in column.to_list()]
        for items in packed:
            _check_shape([unpack_item(int(item)) for item in items], len(strings))
        return Shapes(packed), packed

    def _tracks(self) -> Tracks:
        frame = self._frame(parquet.TRACKS)
        try:
            pids, tids = ([json.loads(text) for text in frame[name].to_list()] for name in ("pid", "tid"))
        except RecursionError as error:
            raise ValueError("a pid or tid is nested too deeply") from error
        return Tracks.of_values(pids, tids)

    def _members(self) -> tuple[tuple[str, str], ...]:
        rows = self._frame(parquet.MEMBERS).rows()
        return tuple(
            (key.decode("utf-8", "surrogatepass"), text.decode("utf-8", "surrogatepass")) for key, text in rows
        )


def _bytes_of_texts(column: pl.Series) -> int:
    if column.dtype == pl.Binary:
        return int(column.bin.size().sum())
    return int(column.str.len_bytes().sum()) if column.dtype == pl.String else 0


# --- what must be true of the content


def _check_strings(arena: UInt8s, used: int, offsets: Int64s) -> None:
    """Each string lies in the arena, after its length, at a multiple of eight, and after the string before it."""
    _require(len(offsets) >= len(SPECIAL_KEYS), "there are too few strings")
    _require(((offsets >= 8) & (offsets % 8 == 0) & (offsets <= used)).all(), "a string begins where none can")
    lengths = arena[: arena.size // 8 * 8].view(np.int64)[(offsets - 8) // 8]
    _require(((lengths >= 0) & (lengths <= used - offsets)).all(), "a string ends where none can")
    _require((offsets[1:] >= (offsets + lengths)[:-1] + 8).all(), "strings overlap")


def _check_shape(items: list[Item], strings: int) -> None:
    """Members have keys that are there, and kinds that fit the key and the level."""
    opened = False
    for key, kind, level in items:
        _require(0 <= key < strings and 0 <= kind <= TIME_DECIMAL, "a shape has a key or kind that is none")
        opened |= kind == OPEN
        if level == NOT_AN_OBJECT:
            _require(len(items) == 1 and kind < OPEN, "a shape is an object and none")
        elif level == 1:
            _require(opened and kind < OPEN, "a shape has an argument before its arguments begin")
        else:
            fits = kind < OPEN or (key == ARGS if kind == OPEN else _PLACES.get(key) == kind)
            fits |= key in (TS, DUR) and kind in _TIMES
            _require(level == 0 and fits, "a shape has a member in a place where it cannot be")


def _check_events(events: dict[str, NDArray[Any]], strings: Strings, shapes: Shapes, tracks: Tracks) -> None:
    for name, least, end in (
        ("category", -1, len(strings)),
        ("name", -1, len(strings)),
        ("track", 0, len(tracks)),
        ("shape", 0, len(shapes)),
    ):
        column = events[name]
        _require(not len(column) or (least <= column.min() and column.max() < end), f"an event has no possible {name}")
    begins, ends = events["start"], events["end"]
    timed = begins != NO_TIME  # an event whose file had no possible time
    _require((np.abs(begins[timed].astype(np.float64)) <= LONGEST_TIME).all(), "an event has no possible start")
    _require((np.abs(ends[timed].astype(np.float64)) <= 2.0 * LONGEST_TIME).all(), "an event has no possible end")
    duration = ends - begins  # may wrap around; then it is beyond what is possible, too
    _require(((duration >= -LONGEST_TIME) & (duration <= LONGEST_TIME)).all(), "an event has no possible duration")


def _check_values(
    shape: Int32s,
    values: Int64s,
    shapes: Shapes,
    packed: list[Int64s],
    strings: Strings,
) -> None:
    """The number of values must be that of the events' shapes, and codes of strings must be valid."""
    counts = np.bincount(shape, minlength=len(shapes)) if len(shape) else np.zeros(len(shapes), np.int64)
    _require(sum(map(int.__mul__, counts.tolist(), shapes.sizes.tolist())) == len(values), "values and events disagree")
    slots = slots_of(packed, (STRING, RAW, NUMBER_TEXT))
    wrong = _impossible_codes(frozen(shape, np.int32), frozen(slots, np.int64), frozen(values, np.int64), len(strings))
    _require(not wrong, "a value is a string that is not there")


@compiled
def _impossible_codes(shape: Int32s, slots: Int64s, values: Int64s, strings: int) -> int:
    """Number of values that should be codes of strings and are not; see `columns.slots_of` for `slots`."""
    first = np.int64(0)
    wrong = 0
    for row in range(shape.size):
        s = np.int64(shape[row])
        where = slots[2 * s + 1]
        for j in range(slots[where]):
            code = values[first + slots[where + 1 + j]]
            if code < 0 or code >= strings:
                wrong += 1
        first += slots[2 * s]
    return wrong


READER: Final = Reader(NAME, load, probe=probe, marker=f"{parquet.FOLDER}/{parquet.EVENTS}.parquet")
