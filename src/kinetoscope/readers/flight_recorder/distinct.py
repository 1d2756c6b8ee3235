"""Distinct values of the columns of a dump, as texts: what is made of each is made once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from kinetoscope.algorithms.arrays import Int32s
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.flight_recorder.dump import NONE
from kinetoscope.model.trace.strings import Strings, spelled
from kinetoscope.readers.flight_recorder.entries import MAX_TIME


class DerivedTexts:
    """Texts that are made of those of a dump, each once."""

    def __init__(self) -> None:
        self._number = dict[str, int]()

    def numbers(self, texts: Sequence[str]) -> Int32s:
        """The number of each text, and NONE behind; NONE for "", too."""
        numbers = [self._number.setdefault(text, len(self._number)) if text else NONE for text in texts]
        return np.array([*numbers, NONE], np.int32)

    def after(self, strings: Strings) -> tuple[Strings, Int32s]:
        """The table with them behind its own, and the code of each number; NONE for NONE."""
        table, codes = strings.extended([*map(spelled, self._number)], np.zeros(len(self._number), np.uint8))
        return table, np.append(codes, NONE).astype(np.int32)


def distinct_values(column: Int32s) -> tuple[list[int], Int32s]:
    """The distinct values but NONE, and the place among them of each row's; NONE for NONE."""
    codes, rows = group(column)
    values = column[rows].tolist()
    known = np.array(values, np.int64) != NONE
    place = np.where(known, np.cumsum(known) - 1, NONE).astype(np.int32)
    return [value for value in values if value != NONE], place[codes]


def distinct_texts(column: Int32s, text: Callable[[int], str]) -> tuple[list[str], Int32s]:
    """The texts of the distinct values but NONE, and the place among them of each row's; NONE for NONE."""
    values, of = distinct_values(column)
    return [*map(text, values)], of


def elements_of(sizes: str) -> int:
    """Elements of tensors of these sizes; 0 for what cannot be."""
    total = sum(math.prod(map(int, re.findall(r"-?\d+", size))) for size in re.findall(r"\[([^]]*)\]", sizes))
    return total if 0 <= total < MAX_TIME else 0
