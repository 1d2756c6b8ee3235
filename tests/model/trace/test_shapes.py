"""Shapes say which members events have, and where their values lie."""

import numpy as np

from kinetoscope.model.trace.shapes import (
    ARGS,
    DUR,
    FLOAT,
    IN_COLUMN,
    INT,
    NULL,
    OPEN,
    PH,
    STRING,
    TIME_DECIMAL,
    TS,
    Item,
    Shapes,
    unpack_item,
)

A, B = 20, 21
SHAPES: list[list[Item]] = [
    [(PH, IN_COLUMN, 0), (TS, TIME_DECIMAL, 0), (ARGS, OPEN, 0), (A, INT, 1), (B, STRING, 1)],
    [(B, FLOAT, 0), (TS, STRING, 0), (ARGS, OPEN, 0), (B, NULL, 1), (A, FLOAT, 1), (A, INT, 1)],
    [],
    [(DUR, NULL, 0)],
]


def _shapes() -> Shapes:
    packed = [np.array([key << 8 | kind << 2 | level for key, kind, level in items], np.int64) for items in SHAPES]
    return Shapes(packed)


def test_items_are_unpacked() -> None:
    assert [list(items) for items in _shapes().items] == SHAPES
    assert unpack_item((A << 8) | (INT << 2) | 1) == (A, INT, 1)


def test_sizes_and_first_values() -> None:
    shapes = _shapes()
    assert shapes.sizes.tolist() == [2, 4, 0, 0]
    assert shapes.first_values(np.array([1, 2, 0, 0, 3], np.int32)).tolist() == [0, 4, 4, 6, 8]
    assert shapes.first_values(np.array([], np.int32)).tolist() == []


def test_find_takes_the_first_of_a_repeated_key() -> None:
    slots, kinds = _shapes().find(A)
    assert slots.tolist() == [0, 2, -1, -1]
    assert kinds.tolist() == [INT, FLOAT, -1, -1]


def test_find_tells_what_is_there_from_what_has_a_slot() -> None:
    slots, kinds = _shapes().find(B)
    assert slots.tolist() == [1, -1, -1, -1]
    assert kinds.tolist() == [STRING, NULL, -1, -1]
    slots, kinds = _shapes().find(B, level=0)
    assert slots.tolist() == [-1, 0, -1, -1]
    assert kinds.tolist() == [-1, FLOAT, -1, -1]


def test_odd_times() -> None:
    assert _shapes().has_odd_time(TS).tolist() == [False, True, False, False]
    assert _shapes().has_odd_time(DUR).tolist() == [False, False, False, True]
