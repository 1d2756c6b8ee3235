"""The few dicts of a dump that are no rows of a table: their values as Python has them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from kinetoscope.model.trace.strings import Strings
from kinetoscope.readers.pickled import machine as m
from kinetoscope.readers.pickled.tables import MachineTables

MAX_VALUES: Final = 4096
"""Values that are kept: torch has some twenty settings, and one dict may stand in another any number of times."""

_MAX_DEPTH: Final = 8

Value = tuple[int, int]
"""Kind and value, as the machine has them."""


class Objects:
    """The dicts of a file that the machine has run over.

    Args:
        tables: the machine's.
        strings: its texts.
        limit: values that are kept of all of them together.
    """

    def __init__(self, tables: MachineTables, strings: Strings, limit: int = MAX_VALUES) -> None:
        members = tables.rows("members", m.MEMBERS)
        self._strings = strings
        self._members = members[np.argsort(members[:, 0], kind="stable")]
        self._limit = self._left = limit

    def of(self, kind: int, value: int) -> dict[str, Value]:
        """Kind and value of each key of a dict; of what is none, nothing."""
        if kind != m.OBJECT or value < 0:
            return {}
        first, end = np.searchsorted(self._members[:, 0], (value, value + 1)).tolist()
        members = self._members[first : min(end, first + self._limit)]
        return {self._strings.label(key): (kind, value) for _, key, kind, value in members.tolist()}

    def value(self, kind: int, value: int, depth: int = 0) -> Any:
        """The value as Python has it; None for rows of tables, lists, and what is too deep or too much."""
        self._left -= 1
        match kind:
            case m.BOOL:
                return bool(value)
            case m.NUMBER:
                return value
            case m.REAL:
                return float(np.int64(value).view(np.float64))
            case m.TEXT:
                return self._strings.label(value)
            case m.OBJECT if value >= 0 and depth < _MAX_DEPTH and self._left > 0:
                return {key: self.value(*each, depth + 1) for key, each in self.of(kind, value).items()}
        return None
