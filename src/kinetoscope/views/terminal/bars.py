"""Bars made of characters: lengths, stacks and sparklines. Numbers in, text and kinds out; colour comes later."""

from __future__ import annotations

import math
from collections.abc import Sequence

HEIGHTS = "▁▂▃▄▅▆▇█"
"""Of a curve: from the least to the greatest value."""


def bar(value: float | None, largest: float, width: int) -> str:
    """A line of at most `width` cells, in halves of a cell; a value that is not 0 is never invisible."""
    if value is None or not value > 0 or not largest > 0:
        return ""
    halves = max(1, round(min(value / largest, 1.0) * width * 2))
    return "━" * (halves // 2) + "╸" * (halves % 2)


def span(row: tuple[float | None, ...], low: float, high: float, width: int, *, log: bool) -> str:
    """A line from the first to the last of three values, `├──●─┤`, on an axis of `width` cells from low to high."""
    least, value, most = row
    if least is None or value is None or most is None:
        return ""
    fit = math.log if log else float
    length = (fit(high) - fit(low)) or 1.0
    first, middle, last = (round((fit(each) - fit(low)) / length * (width - 1)) for each in (least, value, most))
    line = ["├", *"─" * (last - first - 1), "┤"] if last > first else ["●"]
    line[middle - first] = "●"
    return " " * first + "".join(line)


def stacked(values: Sequence[float | None], width: int) -> list[int]:
    """How many cells each value gets of a stack of `width`: whole cells that sum to it, by largest remainder.

    All zeros, or nothing to draw, gives zeros.
    """
    sizes = [max(value or 0.0, 0.0) for value in values]
    total = sum(sizes)
    if not total > 0:
        return [0] * len(sizes)
    exact = [size / total * width for size in sizes]
    whole = [int(each) for each in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda index: whole[index] - exact[index])
    for index in by_remainder[: width - sum(whole)]:
        whole[index] += 1
    return whole


def sparkline(values: Sequence[float | None]) -> str:
    """One character a value, its height from 0 to the largest; a missing value is a space."""
    largest = max((value for value in values if value is not None), default=0)
    return "".join(_height(value, largest) for value in values)


def _height(value: float | None, largest: float) -> str:
    if value is None:
        return " "
    return HEIGHTS[round(value / largest * 7)] if largest > 0 and value > 0 else HEIGHTS[0]
