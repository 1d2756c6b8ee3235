"""The roofline as blocks of the page: the points of a table below the roofs of its device, and its time by reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from kinetoscope.charts import Roofline
from kinetoscope.pages.blocks import Link, Part, PartsBlock, RooflineBlock
from kinetoscope.pages.sentences.device_limits import LEAST_NAMED_SHARE, REASONS
from kinetoscope.schema import Result
from kinetoscope.views.charts.palette import kind_of
from kinetoscope.views.charts.roofline import BOUNDS, roofline_picture

MAX_POINTS: Final = 20_000
"""Points that are drawn; the page draws so many without a dropped frame."""

_DIGITS: Final = 5
"""Significant digits of what a point says, of which the page shows three."""


def roofline_block(
    title: str,
    result: Result,
    facts: Roofline,
    *,
    links: Mapping[str, Link] | None = None,
    picks: str = "",
    chosen: str = "",
    peaks: Result | None = None,
) -> RooflineBlock | None:
    """The rows of a table as points; None where no row has a place.

    Args:
        title: of the block.
        result: the table, with the columns `calls`, `bandwidth` and those of `facts`.
        facts: which columns are drawn.
        links: where the key leads, by bound.
        picks: the parameter of the page that is set to the name of a point.
        chosen: the name that it has now.
        peaks: `peaks`; those that were measured are drawn beside the others.
    """
    picture = roofline_picture(result, facts, MAX_POINTS, {} if peaks is None else _measured(peaks.frame))
    if picture is None:
        return None
    points, rows = picture.points, result.frame[picture.points["row"]]
    said = [pl.col(facts.detail), pl.col(facts.precision).str.to_uppercase()]
    kinds = points["bound"].replace_strict({bound: kind for bound, (kind, _) in BOUNDS.items()}, default="idle")
    texts, (name, detail, kind) = _coded(
        rows[facts.category].fill_null("(no name)"),
        rows.select(pl.concat_str(said, separator=" · ", ignore_nulls=True)).to_series(),
        kinds,
    )
    times = dict(points.group_by("bound").agg(pl.col("time").sum()).rows())
    parts = [
        Part(of, f"Bound by {bound}", times[bound], doc, (links or {}).get(bound))
        for bound, (of, doc) in BOUNDS.items()
        if bound in times
    ]
    said_of: dict[str, Any] = {
        name: _brief(rows[column])
        for name, column in (
            ("intensity", facts.intensity),
            ("rate", facts.rate),
            ("bandwidth", "bandwidth"),
            ("efficiency", facts.efficiency),
            ("headroom", facts.headroom),
        )
    }
    return RooflineBlock(
        title=title,
        parts=parts,
        texts=texts,
        name=name,
        detail=detail,
        kind=kind,
        at=points["x"].round_sig_figs(_DIGITS).clip(picture.lane, picture.x[1]).to_list(),
        over=points["y"].round_sig_figs(_DIGITS).clip(*picture.y).to_list(),
        time=points["time"].to_list(),
        calls=rows["calls"].to_list(),
        **said_of,
        roofs=[(roof.label, roof.x, roof.y, roof.is_measured) for roof in picture.roofs],
        x=picture.x,
        y=picture.y,
        lane=picture.lane,
        picks=picks,
        chosen=chosen,
        note=picture.rest,
    )


_PALEST: Final = 0.35
"""Share of its colour that the last of the reasons has; they are told apart by it."""


def _measured(peaks: pl.DataFrame) -> dict[str, float]:
    """What was measured of the devices and is not what shares are taken of, by the names of roofs."""
    rates = peaks.filter(pl.col("used") != "measured").with_columns(
        rate=pl.coalesce("attainable", "attainable_bandwidth"),
        roof=pl.when(pl.col("name") == "memory")
        .then("name")
        .otherwise(pl.col("name").str.to_uppercase().str.replace("VECTOR_", "vector ")),
    )
    return dict(rates.filter(pl.col("rate") > 0).group_by("roof").agg(pl.col("rate").max()).rows())


def headroom_block(result: Result, *, link: Link | None = None, note: str = "") -> PartsBlock:
    """The work of an average step as one bar: what it takes at the limits of the device, and the rest by reason.

    `result` is `roofline` with a row a step.
    """
    steps = max(result.frame.height, 1)
    times = result.frame.select(pl.col("device_time", "at_limit", *REASONS).sum()).row(0, named=True)
    named = [name for name in REASONS if times[name] >= LEAST_NAMED_SHARE * times["device_time"]]
    reasons = sorted((name for name in named if name != "uncovered"), key=lambda name: -times[name])
    shades = np.linspace(1.0, _PALEST, len(reasons) + 1).tolist()
    parts = [
        Part(kind_of(name), words.capitalize(), times[name] / steps, result.schema[name].doc, link, shade)
        for name, words, shade in (
            ("at_limit", "at the limits", 1.0),
            *((name, REASONS[name], shade) for name, shade in zip(reasons, shades, strict=False)),
            *((name, REASONS[name], 1.0) for name in named if name == "uncovered"),
        )
    ]
    rest = sum(times[name] for name in REASONS if name not in named)
    if rest:
        doc = ", ".join(REASONS[name] for name in REASONS if name not in named and times[name]).capitalize()
        other = Part("waiting", "Other reasons", rest / steps, f"{doc}: less than 1% each.", link, shades[-1])
        parts.insert(1 + len(reasons), other)
    return PartsBlock("The work of an average step against its limits", parts, note=note)


def _coded(*columns: pl.Series) -> tuple[list[str], list[list[int]]]:
    """The distinct texts of several columns, and the place of each value among them."""
    every = pl.concat([column.cast(pl.String).fill_null("").rename("text") for column in columns])
    texts = every.unique(maintain_order=True)
    places = every.replace_strict(texts, pl.int_range(len(texts), eager=True), return_dtype=pl.Int64)
    size = len(columns[0])
    return texts.to_list(), [places[at * size : (at + 1) * size].to_list() for at in range(len(columns))]


def _brief(values: pl.Series) -> Sequence[Any]:
    return values.cast(pl.Float64).round_sig_figs(_DIGITS).to_list()
