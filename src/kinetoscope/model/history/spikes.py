"""Single steps that take long: what explains them, and whether they come at a period.

What explains a spike are marks. Only where none does, the part of the step that grew stands for it. A rank that waits
for the one that was stopped has a spike, too: of all ranks in a step the ones with a cause are it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Bools, Int64s
from kinetoscope.model.history.rank_series import EXPLAINING
from kinetoscope.model.history.run_series import RunSeries, who
from kinetoscope.model.history.tables import SPIKES

MIN_PERIODS: Final = 4
"""Regular distances between spikes from which on they are a period."""

MAX_EXAMINED: Final = 8
"""Ranks, those with most spikes, in which a period is looked for."""

_NEXT_SPIKES: Final = 6
"""How many spikes later the next one of the same kind may be."""

_JITTERS: Final = (0.01, 0.06)
"""Shares of a period by which a distance may be off: of what a loop counts, and of what counts something else."""

_MEMBERS: Final = 0.6
"""Share of spikes that are followed, or come, at the distance of a period, at least."""

_MANY_SPIKES: Final = 2000
"""Spikes of which only the distances to the next ones are tried."""

_AROUND_PERIODS: Final = (0.55, 0.85, 1.15, 1.45)
"""Times a period: distances at which accidents are as frequent as at the period."""

_BIN: Final = math.log(1.03)
_MAX_TRIED: Final = 12
"""Distances are counted by their logarithm, and the most frequent ones tried."""

_LEAST_PERIOD: Final = 20
"""Steps: what comes more often is how steps are."""

_LEAST_PERIOD_OF_MARKS: Final = 5

_LONGEST_SPIKES: Final = (1.0, 0.5, 0.25, 0.1, 0.04)
"""Shares of the spikes, the longest ones, that are looked at: accidents of all sizes may lie between them."""

MAX_CHANCE: Final = 1e-6
"""Probability that accidents look like a period, over all distances that are tried, at most."""

_MAX_CHANCE_OF_MARKS: Final = 1e-3
"""That of spikes which marks explain: nobody is alarmed by when they come."""

_CAUSES: Final = (*EXPLAINING, "data", "gap", "forward", "optimizer", "rest", "backward", "")
"""Causes of spikes; where ranks have different ones in a step the first counts: the others wait for it."""


@dataclass(frozen=True)
class Period:
    """Regular distances.

    Attributes:
        steps: the distance in the middle.
        spread: of the middle half of them, as a share.
        members: bool [spikes], those that keep to it.
    """

    steps: float
    spread: float
    members: Bools


def spikes_of(run: RunSeries, events: pl.DataFrame) -> pl.DataFrame:
    """The rows of SPIKES: spikes by cause and part, and those that keep to a period apart from those that do not."""
    if not events.height:
        return SPIKES.empty()
    whole = max((each.whole for each in run.ranks), default=1)
    rows = []
    for (cause, part), group in sorted(events.partition_by("cause", "part", as_dict=True).items()):
        periods = _periods(group)
        for period, some in periods:
            rows.append(_group(run, str(cause), str(part), some, period, whole))
    rows.sort(key=lambda row: -row["lost"])
    return SPIKES.frame([{"number": number, **row} for number, row in enumerate(rows, 1)])


def spike_events(run: RunSeries) -> pl.DataFrame:
    """A row for each step with a spike and each rank from which it comes: step, row of the rank, cause, part, excess.

    `lost` is the excess of the rank that lost most.
    """
    each = pl.concat(
        pl.DataFrame(
            {
                "step": rank.spikes.step,
                "row": np.full(len(rank.spikes.step), row, np.int32),
                "cause": pl.Series(rank.spikes.cause, dtype=pl.String),
                "part": pl.Series(rank.spikes.part, dtype=pl.String),
                "excess": rank.spikes.excess,
            }
        )
        for row, rank in enumerate(run.ranks)
    )
    order = pl.when(pl.col("cause") != "").then(pl.col("cause")).otherwise(pl.col("part"))
    ranked = each.with_columns(order=order.replace_strict(_CAUSES, range(len(_CAUSES)), return_dtype=pl.Int32))
    return (
        ranked.with_columns(lost=pl.col("excess").max().over("step"), best=pl.col("order").min().over("step"))
        .filter(pl.col("order") == pl.col("best"))
        # Marks say what it was; the part is that of the spike with the most time.
        .with_columns(part=pl.when(pl.col("cause") == "").then("part").otherwise(pl.lit("")))
    )


def _periods(group: pl.DataFrame) -> list[tuple[Period | None, pl.DataFrame]]:
    """The spikes of a cause that come at a period, and the others."""
    # Where most ranks have it in the same steps it is one series of spikes, else each rank has its own.
    ranks = group["row"].n_unique()
    shared = group.height / group["step"].n_unique() > max(ranks / 2, 1)
    series = [group.unique("step", keep="first")] if shared else group.partition_by("row")
    series = sorted(series, key=len, reverse=True)
    examined = [_regular(each) for each in series[:MAX_EXAMINED]]
    regular = [each for each in examined if each is not None]
    if not regular:
        return [(None, group)]
    if len(regular) > len(examined) / 2:
        # So many ranks speak for the others.
        regular += [(each["step"].to_numpy(), regular[0][1]) for each in series[MAX_EXAMINED:]]
    steps = np.concatenate([steps for steps, _ in regular])
    both = pl.Series(np.isin(group["step"].to_numpy(), steps))
    middle = float(np.median([each.steps for _, each in regular]))
    spread = float(np.median([each.spread for _, each in regular]))
    result: list[tuple[Period | None, pl.DataFrame]] = [
        (Period(middle, spread, np.ones(0, np.bool_)), group.filter(both))
    ]
    if not both.all():
        result.append((None, group.filter(~both)))
    return result


def _regular(group: pl.DataFrame) -> tuple[Int64s, Period] | None:
    """The steps of the spikes that keep to a period, and the period: of all of them, or of the longest ones alone."""
    ordered = group.sort("step")
    steps, lost = ordered["step"].to_numpy(), ordered["lost"].to_numpy()
    # Of steps that follow each other only the first: a slow stretch is one thing.
    onset = np.concatenate([[True], np.diff(steps) > 2]) if len(steps) else np.zeros(0, np.bool_)
    steps, lost = steps[onset], lost[onset]
    limits = (MAX_CHANCE, _LEAST_PERIOD)
    if ordered["cause"].first():
        limits = (_MAX_CHANCE_OF_MARKS, _LEAST_PERIOD_OF_MARKS)
    for share in _LONGEST_SPIKES:
        some = lost >= np.quantile(lost, 1 - share)
        if (period := period_of(steps[some], *limits)) is not None:
            return steps[some][period.members], period
    return None


def period_of(steps: Int64s, chance: float = MAX_CHANCE, least: int = _LEAST_PERIOD) -> Period | None:
    """The period of spikes, whose steps are in order: of all distances to the next ones the one that most share.

    A period may jitter, and other spikes may lie between. By chance a spike has another one at a distance, too, the
    more there are: it has to be clearly more.
    """
    count = len(steps)
    if count <= MIN_PERIODS:
        return None
    apart = [steps[each:] - steps[:-each] for each in range(1, min(_NEXT_SPIKES, count - 1) + 1)]
    distances = np.concatenate(apart if count <= _MANY_SPIKES else apart[:1])
    tried = _frequent(distances[distances >= least])
    rate = count / (steps[-1] - steps[0] + 1)
    needed = math.log(max(len(tried), 1) * len(_LONGEST_SPIKES) * 2 * len(_JITTERS) / chance)
    best: tuple[float, int, int, Bools] | None = None
    for distance, share in product(tried.tolist(), _JITTERS):
        jitter = max(round(share * distance), 1)
        low, high = (np.searchsorted(steps, steps + distance + off) for off in (-jitter, jitter + 1))
        possible = int((steps + distance - jitter <= steps[-1]).sum())
        by_chance = -math.expm1(-max(rate, _rate_around(steps, distance)) * (2 * jitter + 1))
        follows = high > low
        # That none lies between is a second accident, which counts where it holds for many.
        is_next = follows & (low == np.arange(count) + 1)
        for each, probability in ((follows, by_chance), (is_next, by_chance * math.exp(-rate * (distance - jitter)))):
            evidence = _against_chance(int(each.sum()), possible, probability)
            if each.sum() >= MIN_PERIODS and evidence >= needed and (best is None or evidence > best[0]):
                best = evidence, distance, jitter, follows
    if best is None:
        return None
    _, distance, jitter, follows = best
    return _exact(steps, distance, jitter, follows)


def _rate_around(steps: Int64s, distance: int) -> float:
    """Spikes per step at distances that are near, but not near enough: where spikes come in bursts there are more."""
    edges = [round(share * distance) for share in _AROUND_PERIODS]
    low, middle, far, high = (np.searchsorted(steps, steps + edge) for edge in edges)
    number = float((middle - low + high - far).sum()) / len(steps)
    return number / max(edges[1] - edges[0] + edges[3] - edges[2], 1)


def _against_chance(number: int, possible: int, chance: float) -> float:
    """The logarithm of how improbable at least so many of the possible ones are (Chernoff's bound)."""
    share = number / max(possible, 1)
    if share <= chance:
        return 0.0
    missing = (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    return possible * (share * math.log(share / chance) + missing)


def _exact(steps: Int64s, distance: int, jitter: int, follows: Bools) -> Period | None:
    """The period near a distance, from the distances that are close to it."""
    low = np.searchsorted(steps, steps + distance - jitter)
    near = np.minimum(np.searchsorted(steps, steps + distance), len(steps) - 1)
    target = np.where(follows & (np.abs(steps[near] - steps - distance) > jitter), low, near)
    gaps = (steps[np.minimum(target, len(steps) - 1)] - steps)[follows]
    members = follows.copy()
    members[target[follows]] = True
    if members.mean() < _MEMBERS:
        return None
    middle = float(np.median(gaps))
    low_gap, high_gap = np.quantile(gaps, (0.25, 0.75)).tolist()
    return Period(middle, (high_gap - low_gap) / middle, members)


def _frequent(distances: Int64s) -> Int64s:
    """The distances to try: of those that are about the same the middle one, if they are many, also for their size."""
    distances = np.sort(distances)
    _, first, count = np.unique(np.floor(np.log(distances) / _BIN), return_index=True, return_counts=True)
    middle = distances[first + count // 2]
    # Accidents are at all distances, so more of them are about as far apart as a long one.
    best = np.argsort(-count, kind="stable")[:_MAX_TRIED], np.argsort(-count / middle, kind="stable")[:_MAX_TRIED]
    return np.asarray(middle[np.unique(np.concatenate(best))])


def _group(
    run: RunSeries, cause: str, part: str, events: pl.DataFrame, period: Period | None, whole: int
) -> dict[str, Any]:
    by_step = events.group_by("step").agg(pl.col("lost").max())
    rows = np.zeros(len(run.ranks), np.bool_)
    rows[events["row"].unique().to_numpy()] = True
    lost = float(by_step["lost"].sum())
    return {
        **who(run, rows),
        "cause": cause or None,
        "part": part or None,
        "count": by_step.height,
        "period": period.steps if period else None,
        "period_spread": period.spread if period else None,
        "first": events["step"].min(),
        "last": events["step"].max(),
        "excess": by_step["lost"].median(),
        "greatest": by_step["lost"].max(),
        "lost": lost,
        "share": lost / max(whole, 1),
        "certainty": "sure" if cause else "likely" if part else "guess",
    }
