"""Charts that an analysis declares: which columns of its result are drawn, and how.

`views/charts` draws them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar for each row: the first `limit` rows as the analysis orders them.

    Attributes:
        category, value: columns of what a bar is for, and of its length.
        limit: of the bars.
        instead: the column that is drawn where `value` is nothing but zeros and nulls: host time, on a trace without a
            device.
    """

    category: str
    value: str
    limit: int = 10
    instead: str | None = None


@dataclass(frozen=True, slots=True)
class Ranges:
    """A line for each `category`, from the least to the greatest value of its rows, and a dot for each of them.

    Where all rows are of one category, each row has a line of its own, called after `each`.

    Attributes:
        category, each: columns of what a line is for, and of what tells its rows apart.
        low, value, high: columns of the least value of a row, its dot, and the greatest.
        limit: of the categories.
    """

    category: str
    each: str
    low: str
    value: str
    high: str
    limit: int = 10


@dataclass(frozen=True, slots=True)
class StackedBars:
    """A bar for each `category`, stacked from the columns in `parts`; each part has the colour of its kind."""

    category: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lines:
    """A line for each distinct value of the columns `by`: `y` over `x`, in order of the rows.

    `steps`: a value holds until the next row of its line, as a counter does; else points are joined.
    """

    x: str
    y: str
    by: tuple[str, ...] = ()
    steps: bool = True


@dataclass(frozen=True, slots=True)
class Roofline:
    """A point for each row: operations a second over operations a byte, below what its device can do.

    Attributes:
        category, detail: columns of the words of a point.
        time: column of its area.
        intensity, rate: columns of its place: operations a byte, operations a second.
        efficiency, bound: columns of the share of its limit that it reaches, and of what limits it: its colour.
        precision, dtype: columns of what it was computed in: of products, and of other arithmetic.
        peak, peak_bandwidth: columns of its roofs: operations and bytes a second.
        headroom: column of the time beyond the limit.
        parts: columns that sum to `time`, of which a terminal draws a bar for each row.
    """

    category: str = "name"
    detail: str = "input_shapes"
    time: str = "device_time"
    intensity: str = "intensity"
    rate: str = "rate"
    efficiency: str = "efficiency"
    bound: str = "bound"
    precision: str = "precision"
    dtype: str = "dtype"
    peak: str = "peak"
    peak_bandwidth: str = "peak_bandwidth"
    headroom: str = "headroom"
    parts: tuple[str, ...] = ()


Chart = Bars | Lines | Ranges | Roofline | StackedBars


def drawn_columns(chart: Chart) -> set[str]:
    """The columns that a chart needs: every field that is a text, or several; the others are no columns."""
    values = [getattr(chart, each.name) for each in fields(chart)]
    single = {value for value in values if isinstance(value, str)}
    return single.union(*(value for value in values if isinstance(value, tuple)))
