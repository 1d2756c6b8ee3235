"""Values as JSON holds them: the one conversion for files, the web API, pages and the assistant.

`plain(value)` is enough for a result or its parameters. A face that needs something else for some values says so in
`prepare`, which sees each value before it is converted: integers beyond 2^53 as text, long texts cut, dataclasses
with all their fields.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, is_typeddict

import polars as pl


def unchanged(value: Any) -> Any:
    """The `prepare` that changes nothing."""
    return value


def all_fields(value: Any) -> Any:
    """The `prepare` that turns dataclasses and named tuples into dictionaries of all their fields."""
    kind: Any = type(value)
    names = field_names(kind)
    return value if names is None else {name: getattr(value, name) for name in names}


@cache
def field_names(kind: type) -> tuple[str, ...] | None:
    """The fields of a dataclass, a named tuple or a typed dictionary, in order; None of any other type."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    if is_typeddict(kind):
        return tuple(kind.__annotations__)
    names: tuple[str, ...] | None = getattr(kind, "_fields", None)
    return names


def plain(value: Any, prepare: Callable[[Any], Any] = unchanged) -> Any:
    """`value` of None, truth values, finite numbers, texts, lists and dictionaries alone.

    NaN and infinities become None; a dataclass the fields that differ from their defaults; anything unknown its text.

    Args:
        value: anything.
        prepare: what a value is replaced by before it is converted; asked for each member too.
    """
    value = prepare(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(each, prepare) for key, each in value.items()}
    if isinstance(value, range):  # of steps, as the command line writes it; it may have no end
        return f"{value.start}-{value.stop - 1 if value.stop < sys.maxsize else ''}"
    if isinstance(value, (list, tuple, set, frozenset, pl.Series)):
        return [plain(each, prepare) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((field.name, getattr(value, field.name), field.default) for field in dataclasses.fields(value))
        return {name: plain(each, prepare) for name, each, default in fields if each != default}
    return str(value)


def flat(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with JSON as text in the place of lists and structs, for formats that hold none."""
    nested = [name for name, dtype in frame.schema.items() if dtype.is_nested()]
    return frame.with_columns(
        pl.col(name).map_elements(lambda value: json.dumps(plain(value), allow_nan=False), return_dtype=pl.String)
        for name in nested
    )
