"""Ranges of NVTX as what they were in the program: operators of torch (`emit_nvtx`), markers of pyprof, and others.

`torch.autograd.profiler.emit_nvtx` and `nsys profile --pytorch=autograd-nvtx` write the operator's name, and behind it
any of seq, op_id, sizes and input_op_ids: `aten::mm, seq = 12, op_id = 34, sizes = [[4, 8], [8, 2]]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.algorithms.compiled import compiled, frozen, inlined
from kinetoscope.model.trace.build import Coded
from kinetoscope.readers.byte_ranges import ByteRanges, Texts
from kinetoscope.readers.sqlite.database import MISSING

_KEYS: Final = np.frombuffer(b", seq =, op_id =, sizes =, input_op_ids =", np.uint8)
_BOUNDS: Final = np.array([0, 7, 16, 25, 41])
"""Begins of what stands behind the name; parsed from the right, as names may have commas."""

_MARKER: Final = re.compile(r"""\{.*['"]op['"]\s*:\s*['"]([^'"]+)['"]""")
_MODULE: Final = re.compile(r"""\{.*['"]mod['"]\s*:\s*['"]([^'"]+)['"]""")
_MAX_SIZES_BYTES: Final = 1 << 12


@dataclass(frozen=True, slots=True)
class NvtxRanges:
    """Texts of ranges, taken apart; one row each.

    Attributes:
        name: of the operator or the range.
        is_operator: bool, torch recorded it.
        sequence: int64, that joins an operator with its backward; `MISSING` for none.
        operator_id: int64, `op_id`; `MISSING` for none.
        sizes: lists of the sizes of its inputs; an empty list where unknown.
    """

    name: Coded
    is_operator: Bools
    sequence: Int64s
    operator_id: Int64s
    sizes: Coded


def ranges(texts: Texts) -> NvtxRanges:
    """The parts of the texts of ranges."""
    count = len(texts)
    name_end, sequence, operator = np.empty(count, np.int64), *(np.full(count, MISSING, np.int64) for _ in range(2))
    is_operator, sizes = np.zeros(count, np.bool_), np.zeros((2, count), np.int64)
    starts, ends = (frozen(bound, np.int64) for bound in (texts.ranges.start, texts.ranges.end))
    _take_apart(
        frozen(texts.data, np.uint8), starts, ends, name_end, is_operator, sequence, operator, sizes[0], sizes[1]
    )
    sizes[1] = np.where(sizes[1] - sizes[0] > _MAX_SIZES_BYTES, sizes[0], sizes[1])
    codes, names = Texts(texts.data, ByteRanges(texts.ranges.start, name_end)).distinct()
    of_sizes, written = Texts(texts.data, ByteRanges(sizes[0], sizes[1])).distinct()
    markers = [*_markers(names)]
    of_marker = np.array([marker is not None for marker in markers], np.bool_)[codes]
    return NvtxRanges(
        name=Coded(codes, [marker or name for marker, name in zip(markers, names, strict=True)]),
        is_operator=is_operator | of_marker,
        sequence=sequence,
        operator_id=operator,
        sizes=Coded(of_sizes, [_sizes(text) for text in written]),
    )


def _markers(names: list[str]) -> Iterator[str | None]:
    """The operator that each text of pyprof is about, with its module; None for other texts."""
    for name in names:
        marker, module = (_MARKER.match(name), _MODULE.match(name)) if name.startswith("{") else (None, None)
        yield f"{module[1]}.{marker[1]}" if marker and module else marker and marker[1]


@inlined
def _begin(data, start, end, key):  # type: ignore[no-untyped-def]
    """Where a key begins that ends at a place; −1 if another does."""
    size = _BOUNDS[key + 1] - _BOUNDS[key]
    if end - size < start:
        return np.int64(-1)
    for byte in range(size):
        if data[end - size + byte] != _KEYS[_BOUNDS[key] + byte]:
            return np.int64(-1)
    return np.int64(end - size)


@inlined
def _number(data, start, end, otherwise):  # type: ignore[no-untyped-def]
    """The number of up to 18 digits that stands at a place, before a comma or the end; another where there is none."""
    value = np.int64(0)
    at = start
    while at < end and 48 <= data[at] <= 57:
        value = value * 10 + (np.int64(data[at]) - 48)
        at += 1
        if at - start > 18:
            return otherwise
    if at == start or (at < end and data[at] != 44):
        return otherwise
    return value


@compiled
def _take_apart(  # type: ignore[no-untyped-def]
    data, starts, ends, name_end, is_operator, sequence, operator, sizes_start, sizes_end
):
    """Fill the parts of each text: from the right, each `, KEY = VALUE` without `=` in the value."""
    for each in range(starts.size):
        start = starts[each]
        until = ends[each]
        end = until
        at = until - 1
        while at > start:
            if data[at] != 61:  # =
                at -= 1
                continue
            if at + 2 > until or data[at + 1] != 32:
                break
            begin = np.int64(-1)
            which = 0
            for key in range(4):
                place = _begin(data, start, at + 1, key)
                if place >= 0:
                    begin = place
                    which = key
            if begin < 0:
                break
            value = at + 2
            if which == 0:
                sequence[each] = _number(data, value, until, sequence[each])
            elif which == 1:
                is_operator[each] = True
                operator[each] = _number(data, value, until, operator[each])
            elif which == 2 and value + 2 <= until and data[value] == 91 and data[until - 1] == 93:  # [ ]
                sizes_start[each] = value
                sizes_end[each] = until
            until = begin
            end = begin
            at = begin - 1
        name_end[each] = end


def _sizes(text: str) -> list[list[int]]:
    inside = text.strip()[1:-1]
    return [
        [int(number) for number in part.split(",") if number.strip().isdecimal() and len(number) < 20]
        for part in inside.replace("[", "").split("]")[:-1]
    ]
