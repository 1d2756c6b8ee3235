"""Values of JSON that somebody else may have written, as a dataclass whose fields have the kinds that it declares."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Final, TypeVar

T = TypeVar("T")

_MAX_NUMBER: Final = 1 << 62
"""A whole number beyond it fits into no column."""


def checked(kind: type[T], values: Mapping[str, Any]) -> T:
    """An instance of a dataclass; names that it does not have, and null where it has no null, are left out.

    Raises:
        TypeError: a value is of another kind than its field, or one is missing.
    """
    hints = typing.get_type_hints(kind)
    given = {
        each.name: _plain(values[each.name])
        for each in dataclasses.fields(kind)  # type: ignore[arg-type]
        if each.name in values and (values[each.name] is not None or _is_of(None, hints[each.name]))
    }
    for name, value in given.items():
        if not _is_of(value, hints[name]):
            raise TypeError(f"{name} is {value!r:.60}")
    return kind(**given)


def _plain(value: Any) -> Any:
    """Lists as tuples; texts without halves of surrogate pairs, which no encoding takes."""
    if isinstance(value, list):
        return tuple(map(_plain, value))
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _is_of(value: Any, hint: Any) -> bool:
    """Test for a value of a declared kind."""
    parts, origin = typing.get_args(hint), typing.get_origin(hint)
    if origin is typing.Literal:
        return isinstance(value, str) and value in parts
    if origin in (typing.Union, types.UnionType):
        return any(_is_of(value, part) for part in parts)
    if origin is tuple:
        return isinstance(value, tuple) and _are_of(value, parts)
    return _is_number(value, hint) if hint in (int, float) else isinstance(value, hint)


def _are_of(values: tuple[Any, ...], parts: tuple[Any, ...]) -> bool:
    if parts[-1] is Ellipsis:
        parts = (parts[0],) * len(values)
    return len(values) == len(parts) and all(map(_is_of, values, parts))


def _is_number(value: Any, hint: type) -> bool:
    kinds = (int, float) if hint is float else (int,)
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and abs(value) <= _MAX_NUMBER
