"""Selections and parameters as text: one grammar for the command line, the addresses of the page and the assistant.

Every function raises `ValueError` with a sentence about what is wrong. Nothing heavy is imported.
"""

from __future__ import annotations

import math
import re
import sys
import types
import typing
from decimal import Decimal
from typing import Any, Final, Literal

if typing.TYPE_CHECKING:
    from kinetoscope.schema import Parameter

MAX_NUMBERS: Final = 100_000
"""Numbers in a list, so that no text makes a list of billions."""

MAX_NUMBER: Final = 1 << 61
"""No number is beyond this, so that nothing computed with it leaves 64 bits."""

_SHOWN_CHARACTERS: Final = 60
_TIME_UNITS: Final = {"": 1, "ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_SIZE_UNITS: Final = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_NUMBER_RANGE: Final = re.compile(r"(-?[0-9]{1,19})(?:-(-?[0-9]{1,19}))?")
_QUANTITY: Final = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([a-zµA-Z]*)")
_TRUTH: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}

Steps = tuple[int, ...] | range | Literal["steady"]


def numbers(text: str) -> tuple[int, ...]:
    """`0,8-15` → (0, 8, 9, …, 15); a number may be negative: `-1`, `-3--1`; a repeated one counts once."""
    listed: list[int] = []
    for part in text.split(","):
        match = _NUMBER_RANGE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{_quoted(part)} is neither a number nor a range such as 8-15")
        first, last = int(match[1]), int(match[2] or match[1])
        if max(abs(first), abs(last)) > MAX_NUMBER:
            raise ValueError(f"{_quoted(part)} is too large")
        if last < first:
            raise ValueError(f"{_quoted(part)} is not a range: the first number must be the smaller one")
        if last - first + len(listed) >= MAX_NUMBERS:
            raise ValueError(f"{_quoted(text)} lists more than {MAX_NUMBERS:,} numbers")
        listed.extend(range(first, last + 1))
    return tuple(dict.fromkeys(listed))


def steps(text: str) -> Steps:
    """`2-4` → (2, 3, 4); `2-` → all from 2 on; `all` → all from 0 on; `steady` as it is."""
    if text == "steady":
        return "steady"
    if text == "all":
        return range(sys.maxsize)
    if match := re.fullmatch(r"([0-9]{1,18})-", text):
        return range(int(match[1]), sys.maxsize)
    return numbers(text)


def time_range(text: str) -> tuple[int, int]:
    """`10ms..20ms` → (10000000, 20000000): ns from the beginning of the trace; old links write `10000000-20000000`."""
    first, dots, last = text.partition("..")
    if not dots and (match := _NUMBER_RANGE.fullmatch(text)) and match[2]:
        first, last = match[1], match[2]
    elif not dots:
        raise ValueError(f"{_quoted(text)} has no '..' between two times, as 10ms..20ms has")
    begin, end = (-duration(each[1:]) if each.startswith("-") else duration(each) for each in (first, last))
    if end <= begin:
        raise ValueError(f"{_quoted(text)} ends before it begins")
    if max(abs(begin), abs(end)) > MAX_NUMBER:
        raise ValueError(f"{_quoted(text)} is too large")
    return begin, end


def time_range_text(begin: int, end: int) -> str:
    """The text of a time range, exact to the nanosecond: `1203.456ms..1272ms`."""
    unit, digits = ("ms", 6) if abs(end) >= 10**6 else ("us", 3) if abs(end) >= 10**3 else ("ns", 0)
    return f"{_decimal(begin, digits)}{unit}..{_decimal(end, digits)}{unit}"


def _decimal(value: int, digits: int) -> str:
    whole, rest = divmod(abs(value), 10**digits)
    decimals = f"{rest:0{digits}}".rstrip("0") if digits else ""
    return f"{'-' * (value < 0)}{whole}{'.' * bool(decimals)}{decimals}"


def duration(text: str) -> int:
    """`30us` → 30000: nanoseconds; a bare number is nanoseconds."""
    return _quantity(text, _TIME_UNITS, "a time")


def size(text: str) -> int:
    """`64GB` → 64000000000: bytes, in decimal units."""
    return _quantity(text, _SIZE_UNITS, "a size")


def parameter_value(parameter: Parameter, text: str) -> Any:
    """A parameter of an analysis from its text; "" is None where the parameter can be None."""
    kind = parameter_type(parameter)
    if text == "" and type(None) in typing.get_args(parameter.type):
        return None
    if parameter.choices:
        if text not in parameter.choices:
            raise ValueError(f"{_quoted(text)} is not one of {', '.join(parameter.choices)}")
        return text
    if kind is bool:
        if text.lower() not in _TRUTH:
            raise ValueError(f"{_quoted(text)} is neither true nor false")
        return _TRUTH[text.lower()]
    if kind is int and parameter.unit in ("ns", "bytes") and not text.startswith("-"):
        return _bounded(duration(text) if parameter.unit == "ns" else size(text), text)
    if kind is int:
        if re.fullmatch(r"-?[0-9]{1,19}", text) is None:
            raise ValueError(f"{_quoted(text)} is not a whole number")
        return _bounded(int(text), text)
    return _float(text) if kind is float else text


def parameter_type(parameter: Parameter) -> Any:
    """The type of a parameter without None; a Literal is text."""
    kind: Any = parameter.type
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        kind = next(each for each in typing.get_args(kind) if each is not type(None))
    return str if typing.get_origin(kind) is Literal else kind


def _float(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{_quoted(text)} is not a number")
    return number


def _bounded(number: int, text: str) -> int:
    if abs(number) > MAX_NUMBER:
        raise ValueError(f"{_quoted(text)} is too large")
    return number


def _quantity(text: str, units: dict[str, int], what: str) -> int:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] not in units:
        raise ValueError(f"{_quoted(text)} is not {what}: a number with one of {', '.join(filter(None, units))}")
    return round(Decimal(match[1]) * units[match[2]])


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…")
