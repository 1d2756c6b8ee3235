"""The clocks of the machines of a job, set by collectives that all ranks leave together.

Ranks of one `host_name` share a clock; a rank whose machine is not named has one of its own, which is moved only if it
is certainly wrong. Times are aligned across ranks only: within a rank its own clock is the truth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.alignment.clocks import Fit, components, fit
from kinetoscope.algorithms.arrays import Bools, Floats, Int64s
from kinetoscope.algorithms.statistics import SIGMA_PER_MAD
from kinetoscope.model.collectives.attributes import BINDING
from kinetoscope.model.collectives.process_groups import ranks_text
from kinetoscope.notes import Note
from kinetoscope.schema import Column, Schema

CLOCKS: Final = Schema(
    Column("host", pl.String, "Name of the machine, or the rank if its machine is not named."),
    Column("ranks", pl.String, "Ranks that ran on it, as runs."),
    Column(
        "component", pl.Int64, "Number of the part of the job that collectives join; times compare within one only."
    ),
    Column("offset", pl.Int64, "How far its clock is ahead of the reference at the origin.", "ns"),
    Column("rate", pl.Float64, "By how much it is faster than the reference: 0.00001 gains 10 µs a second."),
    Column("spread", pl.Int64, "Standard deviation of the ends of collectives about their medians, aligned.", "ns"),
    Column("collectives", pl.Int64, "Collectives that it was set by."),
)

_MAX_ENDS: Final = 200_000
"""Ends that clocks are set by; more are thinned evenly."""

_FAR_NS: Final = 10**15
"""Offset from which on a clock is too far off for times as floating-point numbers."""

_MIN_COLLECTIVES_PER_GROUP: Final = 64
"""Collectives of each process group that thinning keeps."""

_MIN_FOR_RATE: Final = 10
"""Collectives that a clock needs for a rate."""

_MAX_RATE: Final = 1e-3
"""Greater rates are not those of clocks."""

_CERTAIN_Z_SCORE: Final = 3.0
"""Standard errors from which on a rate, or an offset of a machine without a name, is applied."""

_CERTAIN_SPREADS: Final = 2.0


@dataclass(frozen=True)
class Clocks:
    """The clocks of a job.

    Attributes:
        frame: rows of `CLOCKS`, by host; the host of the lowest rank of a component is its reference.
        origin: the instant at which offsets hold, ns since 1970.
        spread: of the ends of all collectives after alignment, ns: the error of times of different ranks.
        notes: how they were set.
    """

    frame: pl.DataFrame
    origin: int
    spread: int
    notes: tuple[Note, ...]


def clock_of() -> pl.Expr:
    """The name of the clock that a rank goes by: its machine's."""
    return pl.coalesce("host", pl.format("rank {}", "rank"))


def clocks(frame: pl.DataFrame) -> Clocks:
    """Set the clocks by the matched calls of all ranks (`matching.match`)."""
    calls = frame.select("rank", "host", "match", "kind", "group", "end", clock=clock_of())
    hosts = calls.group_by("clock").agg(
        pl.col("rank").unique().sort().alias("ranks"), first=pl.col("rank").min(), named=pl.col("host").first()
    )
    hosts = hosts.sort("first", "clock").with_row_index("number").with_columns(pl.col("number").cast(pl.Int64))
    ends = calls.filter(pl.col("match").is_not_null() & pl.col("kind").is_in(BINDING))
    ends = ends.join(hosts.select("clock", "number"), on="clock", how="left")
    ends_by_clock = _thinned(ends.group_by("match", "number").agg(
        pl.col("end").quantile(0.5, "lower").cast(pl.Int64), pl.col("group").first()
    ).sort("match", "number"))  # fmt: skip
    far = _far(ends_by_clock, len(hosts))
    near = ends["end"] - pl.Series(far, dtype=pl.Int64).gather(ends["number"])
    origin = int(near.sort()[len(ends) // 2]) if len(ends) else 0
    ends_by_clock = ends_by_clock.with_columns(
        pl.col("end") - pl.Series(far, dtype=pl.Int64).gather(ends_by_clock["number"])
    )
    fitted, counts = _fitted(ends_by_clock, origin, len(hosts))
    offset, rate = _applied(fitted, hosts["named"].is_not_null().to_numpy())
    component = np.unique(fitted.component, return_inverse=True)[1]
    table = hosts.select(
        host="clock",
        ranks=pl.Series([ranks_text(each) for each in hosts["ranks"].to_list()], dtype=pl.String),
        component=pl.Series(component, dtype=pl.Int64),
        offset=pl.Series(far + np.rint(offset).astype(np.int64), dtype=pl.Int64),
        rate=pl.Series(rate, dtype=pl.Float64),
        spread=pl.lit(0, pl.Int64),
        collectives=pl.Series(counts, dtype=pl.Int64),
    )
    unspread = Clocks(table, origin, 0, ())
    late = aligned(ends, unspread).with_columns(late=(pl.col("end") - pl.col("end").median().over("match")).abs())
    spreads = late.group_by("clock").agg(each=(pl.col("late").median() * SIGMA_PER_MAD).round())
    table = table.join(spreads, left_on="host", right_on="clock", how="left", maintain_order="left")
    table = table.with_columns(spread=pl.col("each").cast(pl.Int64)).drop("each")
    spread = round(float(late["late"].median() or 0) * SIGMA_PER_MAD) if len(late) else 0  # type: ignore[arg-type]
    return Clocks(CLOCKS.conform(table), origin, spread, tuple(_notes(table, spread)))


def aligned(frame: pl.DataFrame, clocks: Clocks) -> pl.DataFrame:
    """The calls with start and end as the reference's clock would show them; ns are exact where rates are equal.

    A frame may lack `start`.
    """
    facts = clocks.frame.select("host", offset_="offset", rate_="rate")
    joined = frame.with_columns(clock_=clock_of()).join(
        facts, left_on="clock_", right_on="host", how="left", maintain_order="left"
    )
    rate = pl.col("rate_") / (1 + pl.col("rate_"))

    def on_reference(name: str) -> pl.Expr:
        time = pl.col(name) - pl.col("offset_")
        gained = ((time - clocks.origin).cast(pl.Float64) * rate).round().cast(pl.Int64)
        return pl.when(pl.col("offset_").is_not_null()).then(time - gained).otherwise(name).alias(name)

    names = [name for name in ("start", "end") if name in frame.columns]
    return joined.with_columns(on_reference(name) for name in names).drop("clock_", "offset_", "rate_")


def _thinned(ends_by_clock: pl.DataFrame) -> pl.DataFrame:
    """Ends of collectives that join several clocks; of very many an even part, of each process group some."""
    ends_by_clock = ends_by_clock.filter(pl.len().over("match") > 1)
    if len(ends_by_clock) <= _MAX_ENDS:
        return ends_by_clock
    every = -(-len(ends_by_clock) // _MAX_ENDS)
    matches = ends_by_clock.group_by("match").agg(pl.col("group").first()).sort("match")
    place, size = pl.int_range(pl.len()).over("group"), pl.len().over("group")
    step = (size // _MIN_COLLECTIVES_PER_GROUP).clip(1, every)
    return ends_by_clock.join(
        matches.filter(place % step == 0).select("match"), on="match", how="semi", maintain_order="left"
    )


def _far(ends_by_clock: pl.DataFrame, hosts: int) -> Int64s:
    """Approximate offset of each clock, in whole ns; 0 of clocks near the reference.

    A file that is cut short may lack the base of its times.
    """
    middle = int(ends_by_clock["end"].sort()[len(ends_by_clock) // 2]) if len(ends_by_clock) else 0
    if not len(ends_by_clock) or int((ends_by_clock["end"] - middle).abs().max()) < _FAR_NS:  # type: ignore[arg-type]
        return np.zeros(hosts, np.int64)
    clock, event, time = _observed(ends_by_clock, middle)
    offset = np.rint(fit(clock, event, time, np.zeros(hosts, np.bool_)).offset).astype(np.int64)
    return np.where(np.abs(offset) < _FAR_NS, 0, offset)


def _observed(ends_by_clock: pl.DataFrame, origin: int) -> tuple[Int64s, Int64s, Floats]:
    """Clock, event and time of each observation."""
    event = (
        (ends_by_clock["match"].rank("dense").cast(pl.Int64) - 1).to_numpy()
        if len(ends_by_clock)
        else np.empty(0, np.int64)
    )
    return ends_by_clock["number"].to_numpy(), event, (ends_by_clock["end"] - origin).cast(pl.Float64).to_numpy()


def _fitted(ends_by_clock: pl.DataFrame, origin: int, hosts: int) -> tuple[Fit, Int64s]:
    clock, event, time = _observed(ends_by_clock, origin)
    counts = np.bincount(clock, minlength=hosts)
    reference = components(clock, event, hosts) == np.arange(hosts)
    clock_fit = fit(clock, event, time, (counts >= _MIN_FOR_RATE) & ~reference)
    is_certain = (np.abs(clock_fit.rate) > _CERTAIN_Z_SCORE * clock_fit.error_rate) & (
        np.abs(clock_fit.rate) < _MAX_RATE
    )
    return fit(clock, event, time, is_certain), counts


def _applied(clock_fit: Fit, named: Bools) -> tuple[Floats, Floats]:
    """Offsets and rates, 0 for machines without a name whose clocks may be right."""
    doubt = np.maximum(_CERTAIN_Z_SCORE * clock_fit.error_offset, _CERTAIN_SPREADS * clock_fit.spread)
    kept = named | (np.abs(clock_fit.offset) > doubt) | (clock_fit.rate != 0)
    return np.where(kept, clock_fit.offset, 0.0), np.where(kept, clock_fit.rate, 0.0)


def _notes(table: pl.DataFrame, spread: int) -> Iterator[Note]:
    if len(table) < 2:
        return
    moved = table.filter((pl.col("offset") != 0) | (pl.col("rate") != 0))
    if len(moved):
        most = int(moved["offset"].abs().max())  # type: ignore[arg-type]
        yield Note(
            "CLOCKS_ALIGNED",
            f"Clocks were aligned by the ends of collectives: {len(moved)} of {len(table)} were wrong by up to "
            f"{most / 1e6:.3f} ms; times of different ranks are good to some {max(spread, 1) / 1000:.3g} µs.",
        )
    parts = table.group_by("component").agg(pl.col("host")).sort("component")
    if len(parts) > 1:
        alone = [host for hosts in parts["host"].to_list()[1:] for host in hosts]
        shown = ", ".join(alone[:5]) + (f" and {len(alone) - 5} more" if len(alone) > 5 else "")
        yield Note(
            "CLOCKS_APART", f"No collective joins all clocks ({shown}): their times are not aligned with the others'."
        )
