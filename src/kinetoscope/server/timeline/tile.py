"""A tile of the timeline as bytes: what the browser draws of some lanes in a stretch of time, and no more.

The bytes are the length of a header (uint32), the header (JSON, padded with spaces to a multiple of 8 bytes from the
beginning), and arrays, little-endian, each from a multiple of 8 bytes on. Times are in units of the tile, 2^z ns, from
its beginning; a tile has 1024 of them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Float32s, Int32s, Int64s, UInt8s
from kinetoscope.algorithms.layout.pyramid import LONGEST_SPAN, MAX_SCALE, UNITS, Marks, marks
from kinetoscope.algorithms.layout.sampling import sample
from kinetoscope.model.timeline.categories import MARK_KINDS
from kinetoscope.model.timeline.counters import Counter, counter_curve
from kinetoscope.model.timeline.layout import Lane, timeline
from kinetoscope.model.timeline.replays import replay_rows
from kinetoscope.model.trace.trace import Trace
from kinetoscope.server.errors import BadValueError
from kinetoscope.server.timeline.hues import NO_HUE, module_hues, name_hues
from kinetoscope.server.timeline.path import PATH_LANE, path_lane

FORM: Final = "3"
"""Version of the form of tiles: part of their addresses, so that a browser does not use those of another one."""

MIN_NAMED_UNITS: Final = 24
"""Marks of so many units or more have room for a name."""

_MAX_NAME_CHARACTERS: Final = 240
"""Characters of a name that can be seen in the widest mark."""


class TileSlice(TypedDict):
    """The marks of a lane, or the points of a counter, in the columns."""

    id: str
    offset: int
    count: int


class TileColumn(TypedDict):
    """An array: its type, as NumPy calls it, its place in bytes after the header, and its length."""

    dtype: str
    offset: int
    count: int


class TileHeader(TypedDict):
    """The header; the tile `i` of units of 2^`z` ns. `kinds` and `names` are what numbers in the columns mean.

    These three are dictionaries, as tiles are asked for by the dozen: dataclasses take a tenth of the time of a tile.
    """

    z: int
    i: int
    lanes: Sequence[TileSlice]
    counters: Sequence[TileSlice]
    kinds: Sequence[str]
    names: Mapping[str, str]
    arrays: Mapping[str, TileColumn]


def tile(
    trace: Trace,
    scale: int,
    number: int,
    lanes: Sequence[Lane],
    counters: Sequence[Counter],
    *,
    by_module: bool = False,
    with_path: bool = False,
) -> bytes:
    """The tile `number` of units of 2^`scale` ns; the hues of its marks are of their names, or of their modules.

    `with_path` adds the lane of the critical path.

    Raises:
        BadValueError: there cannot be such a tile.
    """
    begin = begin_of(scale, number)
    layout = timeline(trace)
    at = {"origin": layout.origin, "scale": scale, "tile": number}
    rows, place, depths = _rows([(lane.first, lane.rows, 0) for lane in lanes])
    drawn = marks(layout.pyramid, rows, **at)
    parts = [_columns(trace, drawn, place, depths, drawn.span, by_module=by_module)]
    ids, titles = [lane.id for lane in lanes], dict[int, str]()
    if (replayed := replay_rows(trace)) is not None:
        slices = [(*replayed.of_lane.get(lane.id, (0, 0)), lane.rows) for lane in lanes]
        rows, place, depths = _rows(slices)
        drawn = marks(replayed.pyramid, rows, **at)
        columns = _columns(trace, drawn, place, depths, replayed.event[drawn.span], by_module=by_module)
        parts.append({**columns, "name": replayed.name[drawn.span]})
        titles = dict(enumerate(replayed.titles, len(trace.strings)))
    if with_path:
        of_path = path_lane(trace)
        pieces = marks(of_path.pyramid, np.zeros(1, np.int64), **at)
        event = np.where(pieces.span >= 0, of_path.row[pieces.span], -1).astype(np.int32)
        parts.append(_columns(trace, pieces, np.array([len(ids)]), np.zeros(1, np.int64), event, by_module=by_module))
        ids.append(PATH_LANE)
    columns = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    of_lane = columns.pop("lane")
    if len(parts) > 1:  # the marks of a lane stand together, by row
        order = np.argsort(of_lane, kind="stable")
        columns = {key: column[order] for key, column in columns.items()}
    ends = [0, *np.cumsum(np.bincount(of_lane, minlength=len(ids))).tolist()]
    names = columns["name"][columns["end"] - columns["start"] >= MIN_NAMED_UNITS]
    sampled = [_sampled(trace, counter, layout.origin + begin, 1 << scale) for counter in counters]
    for which, key in enumerate(("time", "mean", "max")):
        columns[key] = np.concatenate([each[which] for each in sampled] or [np.empty(0, np.float32)])
    points = np.cumsum([0, *(len(each[0]) for each in sampled)]).tolist()
    arrays, contents = packed(columns)
    header = TileHeader(
        z=scale,
        i=number,
        lanes=_slices(ids, ends),
        counters=_slices([counter.id for counter in counters], points),
        kinds=MARK_KINDS,
        names=_names(trace, np.unique(names[names >= 0]), titles),
        arrays=arrays,
    )
    return headed(header, contents)


def _rows(lanes: Sequence[tuple[int, int, int]]) -> tuple[Int64s, Int64s, Int64s]:
    """The rows of a pyramid that lanes have, the lane of each, and its depth there.

    A lane is its first row in the pyramid, how many it has, and the depth of the first.
    """
    first, count, depth = np.array(lanes, np.int64).reshape(-1, 3).T
    inside = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(first, count) + inside, np.repeat(np.arange(len(lanes)), count), np.repeat(depth, count) + inside


def _columns(
    trace: Trace, drawn: Marks, lane: Int64s, depth: Int64s, event: Int32s, *, by_module: bool
) -> dict[str, NDArray[Any]]:
    """The columns of some marks, of rows with these lanes and depths; those of event −1 are no events."""
    known, sizes = event >= 0, np.diff(drawn.rows)
    hues = module_hues(trace) if by_module else name_hues(trace)
    return {
        "start": drawn.start,
        "end": drawn.end,
        "depth": np.repeat(depth, sizes).astype(np.uint16),
        "row": event,
        "count": drawn.count,
        "kind": drawn.kind,
        "name": np.where(known, trace.name[event], -1).astype(np.int32),
        "hue": np.where(known, hues[event], NO_HUE).astype(np.uint8),
        "cover": _cover(drawn),
        "lane": np.repeat(lane, sizes),
    }


def begin_of(scale: int, number: int) -> int:
    """The beginning of a tile, ns after the origin.

    Raises:
        BadValueError: there cannot be such a tile.
    """
    if not 0 <= scale <= MAX_SCALE:
        raise BadValueError(f"z is {scale}; it can be 0 to {MAX_SCALE}")
    begin = (number * UNITS) << scale
    if abs(begin) > LONGEST_SPAN:
        raise BadValueError(f"tile {number} of z {scale} begins beyond all times")
    return begin


def packed(columns: Mapping[str, NDArray[Any]]) -> tuple[dict[str, TileColumn], list[bytes]]:
    """Arrays as bytes, and where each of them is."""
    arrays: dict[str, TileColumn] = {}
    parts, offset = [], 0
    for name, column in columns.items():
        content = column.astype(column.dtype.newbyteorder("<"), copy=False).tobytes()
        content += b"\0" * (-len(content) % 8)
        arrays[name] = {"dtype": column.dtype.name, "offset": offset, "count": len(column)}
        parts.append(content)
        offset += len(content)
    return arrays, parts


def headed(header: TileHeader, arrays: Sequence[bytes]) -> bytes:
    """A tile: the length of the header, the header, the arrays."""
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-(4 + len(text)) % 8)
    return b"".join([struct.pack("<I", len(text)), text, *arrays])


def _slices(names: Iterable[str], ends: Sequence[int]) -> list[TileSlice]:
    return [
        TileSlice(id=name, offset=low, count=high - low)
        for name, low, high in zip(names, ends[:-1], ends[1:], strict=True)
    ]


def _cover(drawn: Marks) -> UInt8s:
    """The busy share of each mark, 1 to 255."""
    share = np.where(drawn.extent > 0, drawn.busy / np.maximum(drawn.extent, 1), 1.0)
    cover: UInt8s = np.clip(np.ceil(share * 255), 1, 255).astype(np.uint8)
    return cover


def _names(trace: Trace, codes: Int32s, titles: Mapping[int, str]) -> dict[str, str]:
    texts = ((code, titles.get(code) or trace.strings.label(code)) for code in codes.tolist())
    return {
        str(code): text if len(text) <= _MAX_NAME_CHARACTERS else text[: _MAX_NAME_CHARACTERS - 1] + "…"
        for code, text in texts
    }


def _sampled(trace: Trace, counter: Counter, first: int, unit: int) -> tuple[Float32s, ...]:
    """The places in the tile where a counter's level changes, with its mean and greatest value from there on."""
    curve = counter_curve(trace, counter.source, counter.place)
    mean, greatest = sample(curve, first, unit, UNITS)
    with np.errstate(over="ignore"):
        columns = np.stack([mean, greatest]).astype(np.float32)
    same = (columns[:, 1:] == columns[:, :-1]) | (np.isnan(columns[:, 1:]) & np.isnan(columns[:, :-1]))
    changes = np.flatnonzero(np.concatenate([[True], ~same.all(axis=0)]))
    return changes.astype(np.float32), columns[0, changes], columns[1, changes]
