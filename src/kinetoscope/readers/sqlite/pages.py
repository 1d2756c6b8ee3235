"""Rows of a SQLite table out of the pages of its file: as columns, without an object of Python for each value.

Read is what programs write that only add rows to a plain table: a tree of pages by row number, whose records may go on
in other pages. Whatever else is there, and all that does not fit (`rows` is None), is for SQLite itself to read or to
refuse. The format: https://www.sqlite.org/fileformat2.html
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Floats, Int64s, UInt8s
from kinetoscope.algorithms.compiled import compiled, inlined
from kinetoscope.readers.byte_ranges import ByteRanges

INTEGER, NUMBER, TEXT, BYTES, ROW_NUMBER = 1, 2, 4, 8, 16
"""What is wanted of a column; ROW_NUMBER is added where the column is the number of the row."""

_MAX_SPILLED: Final = 1 << 24
"""Bytes of a record that goes on in other pages beyond which SQLite shall say what it is."""

_MAX_FILE_BYTES: Final = 4 << 30
_HEADER_BYTES, _ENCODING_AT, _LEAST_USABLE = 100, 56, 480
"""Of the header of a file."""


@dataclass(frozen=True)
class PageFile:
    """The pages of a file.

    Attributes:
        data: uint8, all bytes.
        size: bytes of a page.
        usable: bytes of a page that are used.
        count: pages of the database.
    """

    data: UInt8s
    size: int
    usable: int
    count: int


def page_file(path: str, count: int) -> PageFile | None:
    """The pages of a file; None of one that is too large for the memory, or whose texts are not UTF-8.

    Args:
        path: where it is.
        count: of its pages, as SQLite says.
    """
    if Path(path).stat().st_size > _MAX_FILE_BYTES:
        return None
    data = np.fromfile(path, np.uint8)  # not mapped: a file that is cut meanwhile would end the process
    if data.size < _HEADER_BYTES or data[_ENCODING_AT : _ENCODING_AT + 4].tolist() != [0, 0, 0, 1]:
        return None
    size = int(data[16]) << 8 | int(data[17])
    size = 1 << 16 if size == 1 else size
    is_size = 512 <= size <= 1 << 16 and not size & (size - 1) and size - int(data[20]) >= _LEAST_USABLE
    return PageFile(data, size, size - int(data[20]), count) if is_size and 0 < count <= data.size // size else None


@dataclass(frozen=True)
class TableRows:
    """Columns of a table, in the order of its rows, by the place among those that are wanted of a kind.

    Attributes:
        integers: int64 [columns, rows]; −1 in place of null and of what is no integer.
        numbers: float64 [columns, rows]; NaN in place of null and of what is no number.
        data: uint8, content of texts and bytes.
        ranges: of each column of texts or bytes; empty ones in place of null and of values of other types.
    """

    integers: Int64s
    numbers: Floats
    data: UInt8s
    ranges: list[ByteRanges]


def rows(file: PageFile, root: int, wanted: list[int], fewest: int = 0) -> TableRows | None:
    """The wanted columns of the table that begins at a page; None where something is not as in plain tables.

    Args:
        file: the pages.
        root: number of the first page, from 1.
        wanted: what is wanted of each column of the table, 0 for nothing.
        fewest: values of a record; what shorter ones lack is not null, but what the column's definition says.
    """
    kinds = np.array(wanted, np.uint8)
    is_range = kinds & (TEXT | BYTES) > 0
    seen, leaves, stack = np.zeros(file.count, np.uint8), np.empty(file.count, np.int64), np.empty(file.count, np.int64)
    pages, count = _leaves(file.data, file.size, file.usable, root, seen, stack, leaves)
    if pages < 0:
        return None
    slots = np.zeros(len(kinds), np.int64)
    sizes = []
    for chosen in (kinds & INTEGER > 0, kinds & NUMBER > 0, is_range):
        slots[chosen] = np.arange(int(chosen.sum()))
        sizes.append(int(chosen.sum()))
    integers, numbers = np.full((sizes[0], count), -1, np.int64), np.full((sizes[1], count), np.nan)
    bounds = np.zeros((2 * sizes[2], count), np.int64)
    content = np.empty(file.data.size if sizes[2] else 0, np.uint8)  # memory that is not written to is not used
    end = _rows(
        *(file.data, file.size, file.usable, leaves, pages, count, seen, kinds, slots, fewest),
        *(integers.ravel(), numbers.ravel(), numbers.ravel().view(np.int64), bounds.ravel()),
        *(content, np.empty(_MAX_SPILLED, np.uint8)),
    )
    if end < 0:
        return None
    ranges = [ByteRanges(bounds[2 * each], bounds[2 * each + 1]) for each in range(sizes[2])]
    return TableRows(integers, numbers, content[:end], ranges)


@inlined
def _big(data, at, size):  # type: ignore[no-untyped-def]
    """An unsigned number of some bytes."""
    value = np.int64(0)
    for byte in range(size):
        value = (value << 8) | np.int64(data[at + byte])
    return value


@inlined
def _varint(data, at, end):  # type: ignore[no-untyped-def]
    """A number of up to nine bytes and where it ends; −1 for the latter where it is cut."""
    value = np.int64(0)
    for byte in range(9):
        if at >= end:
            return value, np.int64(-1)
        own = np.int64(data[at])
        at += 1
        if byte == 8:
            return (value << 8) | own, at
        value = (value << 7) | (own & 127)
        if own < 128:
            return value, at
    return value, np.int64(-1)


@compiled
def _leaves(data, page_size, usable, root, seen, stack, leaves):  # type: ignore[no-untyped-def]
    """The pages that have rows, in order, and the number of rows; −1 for damage. Each page is seen once."""
    pages = seen.size
    if root < 1 or root > pages or data.size < pages * page_size:
        return -1, 0
    seen[root - 1] = 1
    stack[0] = root
    depth = 1
    count = 0
    total = 0
    while depth > 0:
        depth -= 1
        page = stack[depth]
        base = (page - 1) * page_size
        head = base + (100 if page == 1 else 0)
        kind = data[head]
        cells = _big(data, head + 3, 2)
        first = head + (8 if kind == 13 else 12)
        if (kind != 13 and kind != 5) or first + 2 * cells > base + usable:
            return -1, 0
        if kind == 13:
            if cells == 0 and page != root:
                return -1, 0
            leaves[count] = page
            count += 1
            total += cells
            continue
        if cells == 0:
            return -1, 0
        for cell in range(cells, -1, -1):  # the last is in the head of the page
            at = head + 8 if cell == cells else base + _big(data, first + 2 * cell, 2)
            if at + 4 > base + usable or at < head + 8:
                return -1, 0
            child = _big(data, at, 4)
            if child < 1 or child > pages or seen[child - 1]:
                return -1, 0
            seen[child - 1] = 1
            stack[depth] = child
            depth += 1
    return count, total


@inlined
def _gathered(data, page_size, usable, seen, at, local, size, spilled):  # type: ignore[no-untyped-def]
    """Copy a record that goes on in other pages; False for damage."""
    for byte in range(local):
        spilled[byte] = data[at + byte]
    filled = local
    page = _big(data, at + local, 4)
    while filled < size:
        if page < 1 or page > seen.size or seen[page - 1]:
            return False
        seen[page - 1] = 1
        base = (page - 1) * page_size
        more = min(size - filled, usable - 4)
        for byte in range(more):
            spilled[filled + byte] = data[base + 4 + byte]
        filled += more
        page = _big(data, base, 4)
    return True


@inlined
def _values(  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912 - one type of values after the other
    source, at, end, number, row, count, kinds, slots, fewest, integers, numbers, bits, bounds, content, filled
):
    """Give the values of a record to the columns: where the content ends then; −1 for damage."""
    header, place = _varint(source, at, end)
    if place < 0 or header < 1 or header > end - at:
        return np.int64(-1)
    until = at + header
    value_at = until
    column = 0
    while place < until:
        serial, place = _varint(source, place, until)
        if place < 0 or serial < 0 or serial == 10 or serial == 11 or serial > 4294967295:
            return np.int64(-1)
        size = np.int64(0)
        if serial >= 12:
            size = (serial - 12) >> 1
        elif serial <= 4:
            size = serial
        elif serial == 5:
            size = np.int64(6)
        elif serial <= 7:
            size = np.int64(8)
        if size > end - value_at:
            return np.int64(-1)
        kind = kinds[column] if column < kinds.size else np.uint8(0)
        if kind:
            slot = slots[column] * count + row
            if kind & 16:
                if kind & 1:
                    integers[slot] = number
                elif kind & 2:
                    numbers[slot] = number
            elif serial >= 12:
                if kind & (4 if serial & 1 else 8):
                    if size > content.size - filled:
                        return np.int64(-1)
                    for byte in range(size):
                        content[filled + byte] = source[value_at + byte]
                    bound = 2 * slots[column] * count + row
                    bounds[bound] = filled
                    bounds[bound + count] = filled + size
                    filled += size
            elif serial == 7:
                if kind & 2:
                    bits[slot] = _big(source, value_at, 8)
            elif serial > 0:
                value = np.int64(serial - 8)
                if serial < 7:
                    shift = 64 - 8 * size
                    value = (_big(source, value_at, size) << shift) >> shift
                if kind & 1:
                    integers[slot] = value
                elif kind & 2:
                    numbers[slot] = value
        value_at += size
        column += 1
    if value_at != end or column < fewest:
        return np.int64(-1)
    return np.int64(filled)


@inlined
def _cell(data, base, head, cells, cell, limit):  # type: ignore[no-untyped-def]
    """The bytes of a record, the number of its row, and where it begins; −1 for the latter for damage."""
    at = base + _big(data, head + 8 + 2 * cell, 2)
    if at < head + 8 + 2 * cells:
        return np.int64(0), np.int64(0), np.int64(-1)
    size, at = _varint(data, at, limit)
    if at < 0 or size < 0 or size > 2147483647:
        return np.int64(0), np.int64(0), np.int64(-1)
    number, at = _varint(data, at, limit)
    return size, number, at


@inlined
def _local(size, usable):  # type: ignore[no-untyped-def]
    """The bytes of a record that stand in its page, with the number of the page in which it goes on."""
    most = usable - 35
    if size <= most:
        return size
    least = (usable - 12) * 32 // 255 - 23
    local = least + (size - least) % (usable - 4)
    return (least if local > most else local) + 4


@compiled
def _rows(  # type: ignore[no-untyped-def]
    data,
    page_size,
    usable,
    leaves,
    pages,
    count,
    seen,
    kinds,
    slots,
    fewest,
    integers,
    numbers,
    bits,
    bounds,
    content,
    spilled,
):
    """Fill the columns with the rows of some pages: the bytes of the content; −1 for damage."""
    row = 0
    filled = np.int64(0)
    for each in range(pages):
        base = (leaves[each] - 1) * page_size
        head = base + (100 if leaves[each] == 1 else 0)
        limit = base + usable
        cells = _big(data, head + 3, 2)
        for cell in range(cells):
            size, number, at = _cell(data, base, head, cells, cell, limit)
            if at < 0 or size > spilled.size:
                return np.int64(-1)
            record = data
            local = _local(size, usable)
            if at + local > limit:
                return np.int64(-1)
            if size > usable - 35:
                if not _gathered(data, page_size, usable, seen, at, local - 4, size, spilled):
                    return np.int64(-1)
                record = spilled
                at = np.int64(0)
            filled = _values(
                record, at, at + size, number, row, count, kinds, slots, fewest, integers, numbers, bits, bounds,
                content, filled,
            )  # fmt: skip
            if filled < 0:
                return np.int64(-1)
            row += 1
    return filled
