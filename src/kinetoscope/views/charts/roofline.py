"""Where the points and the roofs of a roofline stand: the same on the page, in a notebook and in a report.

Both axes are logarithmic, so the distance of a point from its roof is the share of its limit that it reaches. Work
without arithmetic (copies, concatenations, collectives) has no place along x: it stands in a lane left of the axis,
below the roof of the memory by the share of its own limit that it reaches, which may be that of a link.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Floats
from kinetoscope.charts import Roofline
from kinetoscope.schema import Result
from kinetoscope.views.numbers import shown
from kinetoscope.views.sentences import Sentence, computed, constant, join, say

BOUNDS: Final[dict[str, tuple[str, str]]] = {
    "compute": ("computation", "Arithmetic takes longest at the peaks of the device."),
    "memory": ("memory", "Reading each input and writing each output once takes longest at the peaks of the device."),
    "link": (
        "communication",
        "The bytes between devices, or between device and host, take longest at the link's peak.",
    ),
    "latency": ("runtime", "At the peaks of the device it would take less than the shortest kernels of this trace do."),
}
"""What can limit work: the kind whose colour it has, and what that means."""

_TAIL_SHARE: Final = 0.005
"""Share of the time of all points that may stand at the edge of the picture, or below a roof that is not drawn."""

_LANE_DECADES: Final = 0.6
"""Width of the lane, in powers of ten of x."""


_NAMED_SHARE: Final = 0.35
"""Share of a slope, from its left end on, where its words stand."""

_GOLDEN_RATIO: Final = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True)
class Roof:
    """A limit as a line: its words, and its ends, from left to right; `is_measured`: beside that of the datasheet."""

    label: str
    x: tuple[float, float]
    y: tuple[float, float]
    is_measured: bool = False

    @property
    def named_at(self) -> tuple[float, float]:
        """Where its words end: of a level at its end, of a slope on its first half."""
        share = 1.0 if self.y[0] == self.y[1] else _NAMED_SHARE
        x, y = (low * (high / low) ** share for low, high in (self.x, self.y))
        return x, y


@dataclass(frozen=True, slots=True)
class RooflinePicture:
    """What is drawn.

    Attributes:
        points: by time, the longest first: `x` and `y` of each, its `time`, its `bound`, and `row`, its place in the
            result.
        roofs: the limits.
        x, y: both ends of each axis.
        lane: where the lane begins, left of x; x begins there too where there is no lane.
        rest: what is not drawn, in words; "" if all is.
    """

    points: pl.DataFrame
    roofs: tuple[Roof, ...]
    x: tuple[float, float]
    y: tuple[float, float]
    lane: float
    rest: Sentence


_NOTHING_MEASURED: Final[Mapping[str, float]] = {}


def roofline_picture(
    result: Result, facts: Roofline, limit: int, measured: Mapping[str, float] = _NOTHING_MEASURED
) -> RooflinePicture | None:
    """The picture of the `limit` rows that take longest; None where no row has a place.

    `measured`: what the device attains besides, by the names of roofs: `memory`, `BF16`, `vector FP32`.
    """
    timed = _timed(result.frame, facts)
    placed = timed.filter(pl.col("has_place"))
    points = placed.head(limit)
    if points.is_empty():
        return None
    time, x, y = (points.get_column(name).to_numpy().astype(np.float64) for name in ("time", "x", "y"))
    share, slope = (points.get_column(name).fill_null(0.0).to_numpy() for name in ("share", "slope"))
    counted, widest = x > 0, float(slope.max())
    peaks = _peaks(points)
    low, high = _ends(x[counted], time[counted], (0.1, 10.0))
    ridge = peaks["peak"][0] / widest if widest and len(peaks) else high
    low, high = _round(min(low, ridge / 10), up=False), _round(max(high, ridge * 4), up=True)
    left = low if counted.all() else low / 10**_LANE_DECADES
    x[~counted] = _across(left, low, int((~counted).sum()))
    y[~counted] = (share * widest * x)[~counted]
    bottom, top = _ends(y, time, (1.0, 1.0))
    top = max(top, widest * left, *peaks["peak"])
    axes = (low, high), (_round(bottom / 1.5, up=False), _round(top * 1.5, up=True))
    drawn = points.select(
        "row", "time", "bound", x=pl.Series(np.clip(x, left, high)), y=pl.Series(np.clip(y, *axes[1]))
    )
    roofs = [*_roofs(peaks, widest, left, high)]
    if measured:
        rates = [(max(measured.get(name, 0.0) for name in names.split(", ")), names) for _, names in peaks.rows()]
        known = pl.DataFrame(sorted(rates, reverse=True), schema=peaks.schema, orient="row").filter(pl.col("peak") > 0)
        roofs += [
            replace(roof, label=f"measured: {roof.label}", is_measured=True)
            for roof in _roofs(known, measured.get("memory", 0.0), left, high)
        ]
    return RooflinePicture(drawn, tuple(roofs), *axes, left, _rest(result, facts, placed.height, points.height))


def _timed(rows: pl.DataFrame, facts: Roofline) -> pl.DataFrame:
    """The rows with time, the longest first, under names of our own."""
    number = {
        name: pl.col(of).cast(pl.Float64)
        for name, of in (
            ("x", facts.intensity),
            ("y", facts.rate),
            ("share", facts.efficiency),
            ("peak", facts.peak),
            ("slope", facts.peak_bandwidth),
        )
    }
    number = {name: pl.when(of.is_finite()).then(of) for name, of in number.items()}
    words = {name: pl.col(getattr(facts, name)) for name in ("bound", "precision", "dtype", "time")}
    frame = rows.with_row_index("row").select("row", **number, **words).filter(pl.col("time") > 0)
    counted = (pl.col("x") > 0) & (pl.col("y") > 0)
    moved = (pl.col("x") == 0) & (pl.col("share") > 0) & (pl.col("slope") > 0)
    frame = frame.with_columns(has_place=(counted | moved).fill_null(value=False))
    return frame.sort("time", "row", descending=[True, False])


def _ends(values: Floats, weights: Floats, otherwise: tuple[float, float]) -> tuple[float, float]:
    """The least and the greatest value, without a small share of the weight at either end."""
    if not len(values):
        return otherwise
    order = np.argsort(values)
    below = np.cumsum(weights[order]) / weights.sum()
    first = int(np.searchsorted(below, _TAIL_SHARE))
    last = int(np.searchsorted(below, 1 - _TAIL_SHARE))
    return float(values[order[first]]), float(values[order[min(last, len(values) - 1)]])


def _round(value: float, *, up: bool) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    steps = [power * each for each in (1, 2, 5, 10)]
    return (
        next(each for each in steps if each >= value * (1 - 1e-9))
        if up
        else max(each for each in steps if each <= value * (1 + 1e-9))
    )


def _across(left: float, right: float, count: int) -> Floats:
    """So many places between both, near ones far apart: multiples of the golden ratio spread evenly."""
    share = (np.arange(1, count + 1) * _GOLDEN_RATIO) % 1
    return np.asarray(left * (right / left) ** (0.06 + 0.88 * share), np.float64)


def _peaks(points: pl.DataFrame) -> pl.DataFrame:
    """The distinct peaks below which enough of the time is spent, the highest first, and the precisions of each."""
    below = points.filter((pl.col("peak") > 0) & (pl.col("x") > 0))
    is_double = pl.col("dtype").is_in(["float64", "complex128"])
    vector = (
        pl.when(is_double).then(pl.lit("vector FP64")).when(pl.col("dtype").is_not_null()).then(pl.lit("vector FP32"))
    )
    names = pl.coalesce(pl.col("precision").str.to_uppercase(), vector).drop_nulls().unique().sort().str.join(", ")
    peaks = below.group_by("peak").agg(names.replace("", "vector").alias("names"), pl.col("time").sum())
    notable = peaks.filter(pl.col("time") >= _TAIL_SHARE * float(points["time"].sum()))
    return notable.sort("peak", descending=True).select("peak", "names")


def _roofs(peaks: pl.DataFrame, bandwidth: float, left: float, right: float) -> Iterator[Roof]:
    """The slope of the memory, up to the highest peak, and a level for each peak from the slope on."""
    if bandwidth:
        end = min(peaks["peak"][0] / bandwidth if len(peaks) else math.inf, right)
        yield Roof(f"memory {shown(bandwidth, 'bytes/s')}", (left, end), (bandwidth * left, bandwidth * end))
    for peak, names in peaks.rows():
        start = min(max(left, peak / bandwidth if bandwidth else left), right)
        yield Roof(f"{names} {shown(peak, 'flop/s')}", (start, right), (peak, peak))


def _rest(result: Result, facts: Roofline, placed: int, points: int) -> Sentence:
    """The time that has no place, because nothing tells its bytes and FLOPs, and rows that are too many."""
    parts = []
    if points < placed:
        parts.append(
            say("the {points} of {placed} rows that take longest", points=constant(points), placed=constant(placed))
        )
    share = computed(result, partial(_share_without_place, facts=facts), "fraction")
    if share:
        parts.append(say("{share} of the time has no point: nothing tells its FLOPs and bytes", share=share))
    return join(parts, "; ")


def _share_without_place(frame: pl.DataFrame, facts: Roofline) -> float:
    timed = _timed(frame, facts)
    placed = timed.filter(pl.col("has_place"))
    return 1 - float(placed["time"].sum()) / float(timed["time"].sum() or 1) if placed.height < timed.height else 0.0
