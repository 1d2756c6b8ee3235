"""Values as JSON holds them."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from kinetoscope.views.exports.plain import plain


@dataclass(frozen=True)
class Options:
    steps: range | None = None
    names: tuple[str, ...] = ()
    share: float = 0.5


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True),
        (2**60, 2**60),
        (math.nan, None),
        (-math.inf, None),
        ({1: [None, (0.5, math.inf)]}, {"1": [None, [0.5, None]]}),
        (pl.Series([1, None]), [1, None]),
        (range(3, 6), "3-5"),
        (range(3, sys.maxsize), "3-"),
        (Options(names=("a",)), {"names": ["a"]}),
        (Path("x"), "x"),
    ],
)
def test_values(value: object, expected: object) -> None:
    assert plain(value) == expected


def test_prepare_sees_each_value_before_it_is_converted() -> None:
    def short(value: object) -> object:
        return [*value[:2], "…"] if isinstance(value, list) and len(value) > 2 else value

    assert plain({"a": [1, [1, 2, 3, 4], 3]}, short) == {"a": [1, [1, 2, "…"], "…"]}
