"""What is kept of what was derived, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest

from kinetoscope.model.trace.derived import DerivedCache


@dataclass(frozen=True)
class Fact:
    values: np.ndarray
    frame: pl.DataFrame
    name: str


def words(count: int) -> np.ndarray:
    return np.zeros(count, np.int64)


def test_what_was_asked_for_longest_ago_is_dropped_first() -> None:
    kept = DerivedCache(240)
    for name in "abc":
        kept.keep((name,), words(10))
    assert kept[("a",)].size == 10
    kept.keep(("d",), words(10))
    assert [name for name in "abcd" if (name,) in kept] == ["a", "c", "d"]
    assert kept.nbytes == 240


def test_the_last_answer_is_kept_whatever_its_size() -> None:
    kept = DerivedCache(100)
    kept.keep(("small",), words(1))
    kept.keep(("large",), words(1000))
    assert (("small",) in kept, ("large",) in kept) == (False, True)
    assert kept.nbytes == 8000


def test_arrays_and_frames_inside_an_answer_count_and_cannot_be_changed() -> None:
    kept = DerivedCache(10**6)
    frame = pl.DataFrame({"x": [1, 2, 3]})
    kept.keep(("fact",), (Fact(words(4), frame, "text"), 7, None))
    assert kept.nbytes == 32 + frame.estimated_size()
    with pytest.raises(ValueError, match="read-only"):
        kept[("fact",)][0].values[0] = 1


def test_nothing_is_left_after_clearing() -> None:
    kept = DerivedCache(100)
    kept.keep(("a",), words(2))
    kept.clear()
    assert ("a",) not in kept
    assert kept.nbytes == 0
