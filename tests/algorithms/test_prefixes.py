"""Prefix trees against paths spelled out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms import grouping
from kinetoscope.algorithms.grouping import NO_NODE, node_totals, prefix_tree

Path = tuple[int, ...]


@st.composite
def forests(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """An order, and parents and labels of the rows; some rows are in no order."""
    count = draw(st.integers(0, 12))
    order = draw(st.permutations(range(count + 2)))[:count]
    parent = [draw(st.integers(-1, 99)) for _ in range(count + 2)]
    for place, row in enumerate(order):
        around = draw(st.integers(-1, place - 1))
        parent[row] = order[around] if around >= 0 else -1
    for row in set(range(count + 2)) - set(order):
        parent[row] = -1
    return order, parent, draw(st.lists(st.integers(-1, 2), min_size=count + 2, max_size=count + 2))


@given(forests())
def test_twin(forest: tuple[list[int], list[int], list[int]]) -> None:
    order, parent, label = forest
    paths: dict[int, Path] = {}
    for row in order:
        around = paths[parent[row]] if parent[row] >= 0 else ()
        paths[row] = (*around, label[row]) if label[row] >= 0 else around
    numbers: dict[Path, int] = {(): NO_NODE}
    for row in order:
        numbers.setdefault(paths[row], len(numbers) - 1)
    found = prefix_tree(*(np.array(each, np.int32) for each in forest))
    assert found.node.tolist() == [numbers[paths[row]] if row in paths else NO_NODE for row in range(len(parent))]
    assert list(zip(found.parent.tolist(), found.label.tolist(), strict=True)) == [
        (numbers[path[:-1]], path[-1]) for path in numbers if path
    ]
    values = np.arange(1, len(found.parent) + 1)
    inside = [sum(numbers[path] + 1 for path in numbers if path[: len(top)] == top) for top in numbers if top]
    assert node_totals(values, found.parent).tolist() == inside


def test_it_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "_FIRST_SLOTS", 4)
    rows = np.arange(100, dtype=np.int32)
    found = prefix_tree(rows, rows - 1, rows % 7)
    assert found.node.tolist() == rows.tolist()
    assert found.parent.tolist() == (rows - 1).tolist()


def test_rows_that_do_not_exist_are_refused() -> None:
    two = np.zeros(2, np.int32)
    with pytest.raises(ValueError, match="order has row 2"):
        prefix_tree(np.array([2], np.int32), two - 1, two)
    with pytest.raises(ValueError, match="parent has row 5"):
        prefix_tree(two[:1], two + 5, two)
