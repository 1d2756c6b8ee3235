"""What is kept of what was derived, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest

from kinetoscope.model.trace.derived import sealed


@dataclass(frozen=True)
class Fact:
    values: np.ndarray
    frame: pl.DataFrame
    name: str


def words(count: int) -> np.ndarray:
    return np.zeros(count, np.int64)


def test_arrays_and_frames_inside_an_answer_count_and_cannot_be_changed() -> None:
    frame = pl.DataFrame({"x": [1, 2, 3]})
    fact = Fact(words(4), frame, "text")
    assert sealed((fact, 7, None)) == 32 + frame.estimated_size()
    with pytest.raises(ValueError, match="read-only"):
        fact.values[0] = 1
