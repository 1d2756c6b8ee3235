from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.trace.text import listed


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([4], "4"), ([2, 1, 2], "1-2"), ([0, 1, 2, 3, 7], "0-3, 7"), ([5, -1], "-1, 5")],
)
def test_numbers_are_listed_as_runs(numbers: list[int], text: str) -> None:
    assert listed(numbers) == text


@given(st.sets(st.integers(0, 60)))
def test_the_list_names_every_number_and_no_other(numbers: set[int]) -> None:
    named: set[int] = set()
    for run in listed(numbers, limit=100).split(", ") if numbers else []:
        low, _, high = run.partition("-")
        named |= set(range(int(low), int(high or low) + 1))
    assert named == numbers


def test_long_lists_are_cut() -> None:
    assert listed(range(0, 100, 2), limit=3) == "0, 2, 4, …"
