"""Arrays by their types, and what NumPy does slowly or not at all with them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Float32s = NDArray[np.float32]
Int8s = NDArray[np.int8]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
UInt8s = NDArray[np.uint8]
UInt32s = NDArray[np.uint32]

Integer = TypeVar("Integer", np.int32, np.int64)
Columns = TypeVar("Columns", bound="DataclassInstance")
"""A dataclass of arrays that have a row for each of the same things."""

NO_PLACE: Final = -1


def require_rows(rows: int, **arrays: NDArray[Any]) -> None:
    """Make sure that arrays have so many rows: compiled code reads and writes without looking.

    Raises:
        ValueError: one has more or fewer.
    """
    for name, array in arrays.items():
        if array.shape != (rows,):
            raise ValueError(f"expected {rows} rows, got shape {array.shape} for {name}")


def rows_of(columns: Columns, rows: NDArray[Any]) -> Columns:
    """Some rows, given as indices or a mask, of all columns of a dataclass; its other fields stay."""
    own = {each.name: getattr(columns, each.name) for each in fields(columns)}
    return replace(columns, **{name: values[rows] for name, values in own.items() if isinstance(values, np.ndarray)})


def marked(length: int, places: NDArray[Any]) -> Bools:
    """True at some places, given as indices or a mask: bool [length]."""
    mask = np.zeros(length, np.bool_)
    mask[places] = True
    return mask


def scattered(length: int, places: NDArray[Any], values: NDArray[Any], dtype: type[Integer]) -> NDArray[Integer]:
    """Values at some places, given as indices or a mask, and −1 at the others: `dtype` [length]."""
    result = np.full(length, -1, dtype)
    result[places] = values
    return result


def any_of(values: NDArray[Any], members: Collection[int]) -> Bools:
    """Values that are among a handful of members: bool [values]. `np.isin` costs some 30 µs a call, under the GIL."""
    is_member = np.zeros(len(values), np.bool_)
    for member in members:
        is_member |= values == member
    return is_member


def next_of_same(keys: Int32s) -> Int32s:
    """The next place of each key: int32 [n], NO_PLACE where it does not occur again, or is negative."""
    following = np.full(keys.size, NO_PLACE, np.int32)
    places = np.flatnonzero(keys >= 0).astype(np.int32)
    # Stable, so places of one key stay in order.
    order = places[np.argsort(keys[places], kind="stable")]
    same = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
    following[order[same]] = order[same + 1]
    return following
