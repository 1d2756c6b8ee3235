"""Events found by their arguments: by a key, by a text in a value, by a number, or as `key=value`.

One pass through the bytes of all strings says which texts match, one through the flat values of the events which events
hold them; no event is put together from its columns for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s, marked
from kinetoscope.model.trace.shapes import ARGUMENT_LEVEL, FLOAT, INT, NUMBER_TEXT, RAW, SLOTS, STRING, Shapes
from kinetoscope.model.trace.trace import Trace

EVENTS_AT_ONCE: Final = 1 << 18
"""Events whose values are looked at before it is asked whether the answer is still wanted."""

_NUMBER: Final = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?(?:[eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True, slots=True)
class ArgumentQuery:
    """A search in arguments.

    Attributes:
        key: text in the key of the argument, in lower case; "" for any.
        value: text in the value, in lower case, or a number that it equals; "" for any.
    """

    key: str
    value: str

    @classmethod
    def of(cls, text: str) -> ArgumentQuery:
        """`key=value`; without `=` one text that is looked for in keys and in values (`either`)."""
        key, equals, value = text.partition("=")
        return cls(key.strip().lower(), value.strip().lower()) if equals else cls("", text.strip().lower())

    @property
    def either(self) -> bool:
        """True if the text may be in the key as well as in the value."""
        return not self.key


def rows_with_argument(trace: Trace, text: str, go_on: Callable[[], None] = lambda: None) -> Int32s:
    """The rows of events with an argument that matches, ascending: int32 [hits].

    Case does not matter in ASCII, nor does white space around the punctuation of lists. Literals (true, null) have keys
    only. `go_on` is called between pieces of the work, and may raise to end it.
    """
    query = ArgumentQuery.of(text)
    slots = _Slots.of(trace.shapes, _keys(trace, query.key))
    texts = trace.strings.containing(query.value) if query.value else None
    has_key = np.zeros(len(trace.shapes), np.bool_)
    if query.either or not query.value:
        named = query.key or query.value
        has_key = _shapes_with(trace.shapes, _keys(trace, named)) if named else has_key
    parts = []
    for first in range(0, len(trace), EVENTS_AT_ONCE):
        go_on()
        rows = slice(first, min(first + EVENTS_AT_ONCE, len(trace)))
        matches = has_key[trace.shape[rows]]
        if query.value:
            matches |= _values_match(trace, rows, slots, texts, query.value)
        parts.append(np.flatnonzero(matches) + first)
    return np.concatenate(parts or [np.empty(0, np.int64)]).astype(np.int32)


@dataclass(frozen=True)
class _Slots:
    """The values of each shape, one shape after the other.

    Attributes:
        first: int64 [shapes], where those of a shape begin; sizes: int64 [shapes], how many they are.
        kind: int8 [slots]; wanted: bool [slots], of an argument whose key matches.
    """

    first: Int64s
    sizes: Int64s
    kind: Int8s
    wanted: Bools

    @classmethod
    def of(cls, shapes: Shapes, keys: set[int]) -> _Slots:
        """The slots of all shapes."""
        items = [item for shape in shapes.items for item in shape if item[1] < SLOTS]
        wanted = [level == ARGUMENT_LEVEL and key in keys for key, _, level in items]
        kinds = np.array([kind for _, kind, _ in items], np.int8)
        return cls(np.cumsum(shapes.sizes) - shapes.sizes, shapes.sizes, kinds, np.array(wanted, np.bool_))


def _keys(trace: Trace, text: str) -> set[int]:
    """Codes of the keys of arguments that contain a text; all of them for ""."""
    keys = {key for shape in trace.shapes.items for key, _, level in shape if level == ARGUMENT_LEVEL}
    return {key for key in keys if text in trace.strings.label(key).lower()}


def _shapes_with(shapes: Shapes, keys: set[int]) -> Bools:
    """Shapes with an argument of one of these keys: bool [shapes]."""
    has = [any(level == ARGUMENT_LEVEL and key in keys for key, _, level in shape) for shape in shapes.items]
    return np.array(has, np.bool_)


def _values_match(trace: Trace, rows: slice, slots: _Slots, texts: Bools | None, value: str) -> Bools:
    """Rows that hold a wanted value that matches: bool [rows]."""
    shape = trace.shape[rows]
    sizes = slots.sizes[shape]
    begins = np.cumsum(sizes) - sizes
    count = int(sizes.sum())
    base = int(trace.first[rows.start]) if count else 0
    values = trace.values[base : base + count]
    slot = np.arange(count) + np.repeat(slots.first[shape] - begins, sizes)
    kind, hit = slots.kind[slot], np.zeros(count, np.bool_)
    if texts is not None:
        places = np.flatnonzero((kind == STRING) | (kind == RAW) | (kind == NUMBER_TEXT))
        hit[places] = texts[values[places]]
    if _NUMBER.fullmatch(value):
        number = float(value)
        if number.is_integer() and abs(number) < 1 << 62:
            hit |= (kind == INT) & (values == (int(value) if value.lstrip("-").isdigit() else int(number)))
        if math.isfinite(number):
            hit |= (kind == FLOAT) & (values.view(np.float64) == number)
    hit &= slots.wanted[slot]
    return marked(len(shape), np.repeat(np.arange(len(shape)), sizes)[hit])
