"""Bars made of characters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.views.terminal.bars import bar, sparkline, stacked

SIZES = st.lists(st.one_of(st.none(), st.floats(0, 1e12)), min_size=1)


def test_a_bar_is_as_long_as_its_share() -> None:
    assert bar(10, 10, 4) == "━━━━"
    assert bar(5, 10, 4) == "━━"
    assert bar(6, 16, 4) == "━╸"
    assert bar(1, 10**9, 4) == "╸", "what is not 0 is seen"
    assert bar(0, 10, 4) == bar(None, 10, 4) == bar(0, 0, 4) == ""


@given(SIZES, st.integers(0, 100))
def test_a_stack_fills_its_width_in_proportion(values: list[float | None], width: int) -> None:
    counts = stacked(values, width)
    total = sum(value or 0 for value in values)
    assert sum(counts) == (width if total else 0)
    for value, count in zip(values, counts, strict=True):
        assert abs(count - (value or 0) / (total or 1) * width) < 1


def test_a_sparkline_starts_at_zero() -> None:
    assert sparkline([0, 4, 8, None]) == "▁▅█ "
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([]) == ""
