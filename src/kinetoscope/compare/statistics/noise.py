"""Is a change more than noise? The change of a number measured in steps of runs, with its interval and a verdict.

A side is runs × steps: for each run the values of its steps in order. Runs of one program differ by more than their
steps explain (clocks, placement, neighbours), so steps of one run are no independent witnesses: what counts is how
runs differ from runs. The model: the logarithm of a run's typical step is the side's plus noise between runs, of
standard deviation s, plus what the noise between its steps leaves. s is not known and few runs tell little of it; it is
integrated over, from what is expected of it (`Assumed`) times what the runs at hand say. So the false alarms are as
many as promised on average over the expected s, and a pair of runs that happen to agree does not pass for proof.

With fewer than three runs per side s is unknown: it is taken to be at least the assumed one, the steps must differ by
a permutation of blocks of them, too, and the level is stricter. The same level holds for fewer than ten steps a run, or
for what is worth fewer.

Warm-up is left out (leading steps far above the others); a run's typical step is a trimmed mean, for pauses of the
garbage collector or a checkpoint; the noise that steps leave is widened where neighbouring steps are alike.
How often this is wrong, and what it catches: `docs/gate.md`, measured by `benchmarks/gate.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from kinetoscope.algorithms.arrays import Floats
from kinetoscope.algorithms.statistics import NormalMixture, benjamini_hochberg, permutation_p_value, variance_factors
from kinetoscope.compare.statistics.run_statistics import RunStatistics, run_statistics, variance_inflation
from kinetoscope.model.trace.text import number_of
from kinetoscope.notes import Note

Word = Literal["worse", "better", "same", "inconclusive"]
Samples = Sequence[Sequence[float]]

MIN_CHANGE: Final = 0.025
"""Changes that are smaller do not count. It is half of 5 %: that separates 5 % from none with the fewest errors."""

RUNS: Final = 3
"""From so many runs a side on, runs are compared with runs."""

STEPS: Final = 10
"""From so many steps a run on, the usual level holds."""

_LEVEL: Final = 0.05
_STRICT: Final = 0.01


_GRID: Final = 12
_TAIL: Final = 6
_TAIL_TO: Final = 15.0
_CHUNK: Final = 256


@dataclass(frozen=True, slots=True)
class Assumed:
    """The noise that is assumed where runs do not show it.

    Attributes:
        between: between runs: standard deviations up to this are expected, all alike; as a share of the value.
        wilder: probability that it is more than that, up to fifteen times.
        within: between steps, worth one step's witness; 0 for what is no matter of steps.
    """

    between: float = 0.02
    wilder: float = 0.05
    within: float = 0.03


ASSUMED: Final = Assumed()


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a number changed.

    Attributes:
        word: worse, better: beyond noise, and by the limit or more; same: a change by the limit is ruled out;
            inconclusive: none of these.
        base: the typical value before; null where no step has one.
        new: the typical value after.
        change: (new − base) / base; infinite where it was 0.
        low: where the interval of the change begins.
        high: where it ends.
        p_value: two-sided: so often runs without any change differ by as much.
        level: of the test; the interval holds the change with probability 1 − level.
        limit: changes smaller than this share do not count.
        higher_is_worse: False for a throughput.
        why: what the verdict rests on where it rests on little; None otherwise.
    """

    word: Word
    base: float | None
    new: float | None
    change: float | None
    low: float | None
    high: float | None
    p_value: float | None
    level: float
    limit: float = MIN_CHANGE
    higher_is_worse: bool = True
    why: Note | None = None


def change(
    base: Samples, new: Samples, *, limit: float = MIN_CHANGE, assumed: Assumed = ASSUMED, higher_is_worse: bool = True
) -> Verdict:
    """How the values of `new` differ from those of `base`.

    Both are runs × steps, in any unit, from 0 on; runs may have different numbers of steps.

    Args:
        base: before.
        new: after.
        limit: changes smaller than this share do not count.
        assumed: noise where the runs do not tell.
        higher_is_worse: False for a throughput.
    """
    return changes([(base, new)], limit=limit, assumed=assumed, higher_is_worse=higher_is_worse)[0]


def changes(
    pairs: Sequence[tuple[Samples, Samples]],
    *,
    limit: float = MIN_CHANGE,
    assumed: Assumed = ASSUMED,
    higher_is_worse: bool = True,
    adjust: bool = True,
) -> list[Verdict]:
    """As `change` for many numbers at once, with their p-values by Benjamini and Hochberg.

    The share of false ones among those called worse or better is then at most the level, however many there are.
    Without `adjust` each is judged by itself.
    """
    verdicts = [_verdict(each, limit, higher_is_worse) for each in _estimates(pairs, assumed)]
    return adjusted(verdicts) if adjust else verdicts


def adjusted(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts with p-values by Benjamini and Hochberg, and what that changes about their words."""
    tested = [place for place, verdict in enumerate(verdicts) if verdict.p_value is not None]
    result = list(verdicts)
    values = benjamini_hochberg(np.array([verdicts[place].p_value for place in tested], np.float64))
    for place, value in zip(tested, values.tolist(), strict=True):
        again = replace(verdicts[place], p_value=value)
        result[place] = replace(again, word=_word(again))
    return result


# --- two sides


@dataclass(frozen=True, slots=True)
class _Estimate:
    """The change of one number as logarithms; `known` is why there is none where there is none."""

    base: tuple[RunStatistics, ...]
    new: tuple[RunStatistics, ...]
    is_small: bool
    short: bool
    inflation: float
    level: float
    known: Word | None = None
    middle: tuple[float, float] = (0.0, 0.0)
    interval: tuple[float, float] = (0.0, 0.0)
    p_value: float = 1.0


def _estimates(pairs: Sequence[tuple[Samples, Samples]], assumed: Assumed) -> list[_Estimate]:
    estimates = [_prepared(base, new, assumed) for base, new in pairs]
    groups: dict[tuple[int, int, bool, float], list[int]] = {}
    for place, each in enumerate(estimates):
        if each.known is None:
            groups.setdefault((len(each.base), len(each.new), each.is_small, each.level), []).append(place)
    for places in groups.values():
        for at in range(0, len(places), _CHUNK):
            chunk = places[at : at + _CHUNK]
            for place, estimate in zip(chunk, _integrated([estimates[p] for p in chunk], assumed), strict=True):
                estimates[place] = estimate
    return estimates


def _prepared(base: Samples, new: Samples, assumed: Assumed) -> _Estimate:
    sides = [tuple(run for run in map(run_statistics, side) if run.steps) for side in (base, new)]
    before, after = sides
    is_small = min(len(before), len(after)) < RUNS
    inflation = variance_inflation([*before, *after])
    # Steps that are like their neighbours are worth fewer; what has no noise within a run needs but one.
    short = assumed.within > 0 and min((run.steps for side in sides for run in side), default=0) < STEPS * inflation
    level = _STRICT if is_small or short else _LEVEL
    return _Estimate(before, after, is_small, short, inflation, level, _known(before, after))


def _known(before: tuple[RunStatistics, ...], after: tuple[RunStatistics, ...]) -> Word | None:
    """The verdict where no relative change can be estimated, for a number that goes up: None where one can be."""
    if not before or not after:
        return "inconclusive"
    zero_before = [run.typical <= 0 for run in before]
    zero_after = [run.typical <= 0 for run in after]
    if all(zero_before) and all(zero_after):
        return "same"
    if all(zero_before) and not any(zero_after):
        return "worse"
    if all(zero_after) and not any(zero_before):
        return "better"
    return "inconclusive" if any(zero_before) or any(zero_after) else None


def _integrated(estimates: Sequence[_Estimate], assumed: Assumed) -> list[_Estimate]:
    """The estimates with middle, interval and p-value. All have as many runs."""
    runs = [(*each.base, *each.new) for each in estimates]
    typical = np.log([[run.typical for run in each] for each in runs])
    steps = np.array([[run.steps for run in each] for each in runs], np.float64)
    freedom = np.array([sum(run.freedom for run in each) + 1.0 for each in runs])
    squares = np.array([sum(run.squares for run in each) for each in runs]) + assumed.within**2
    witnesses = np.array([sum(run.steps - 1 for run in each) + 1.0 for each in runs])
    variance = squares / witnesses * np.array([each.inflation for each in estimates])

    between, weight = _expected(assumed, estimates[0].is_small)
    spread = variance[:, None] * variance_factors(freedom)
    # rows × between × within × runs
    total = between[None, :, None, None] ** 2 + spread[:, None, :, None] / steps[:, None, None, :]
    precision = 1 / np.maximum(total, 1e-18)
    split = len(estimates[0].base)
    middles, variances, likelihood = [], [], np.zeros(precision.shape[:3])
    for side in (slice(0, split), slice(split, None)):
        precise, values = precision[..., side], typical[:, None, None, side]
        whole = precise.sum(-1)
        middle = (precise * values).sum(-1) / whole
        likelihood += 0.5 * (np.log(precise).sum(-1) - np.log(whole))
        likelihood -= 0.5 * (precise * (values - middle[..., None]) ** 2).sum(-1)
        middles.append(middle)
        variances.append(1 / whole)
    likelihood -= likelihood.max(axis=(1, 2), keepdims=True)
    share = np.exp(likelihood) * weight[None, :, None]
    share /= share.sum(axis=(1, 2), keepdims=True)
    mixture = NormalMixture(share, middles[1] - middles[0], np.sqrt(variances[0] + variances[1]))
    level = estimates[0].level
    below = mixture.cdf(np.zeros(len(estimates)))
    p_values = np.minimum(2 * np.minimum(below, 1 - below), 1.0)
    lows, highs = mixture.quantile(level / 2), mixture.quantile(1 - level / 2)
    return [
        replace(
            each,
            middle=(float((share[row] * middles[0][row]).sum()), float((share[row] * middles[1][row]).sum())),
            interval=(float(lows[row]), float(highs[row])),
            p_value=_permuted(each, float(p_values[row])),
        )
        for row, each in enumerate(estimates)
    ]


def _expected(assumed: Assumed, is_small: bool) -> tuple[Floats, Floats]:
    """Noise between runs that may be, and with what probability before any run was seen."""
    times = np.exp((np.arange(_TAIL) + 0.5) / _TAIL * math.log(_TAIL_TO))
    usual = np.array([1.0]) if is_small else (np.arange(_GRID) + 0.5) / _GRID
    # It is twice as wild half as often.
    wilder = assumed.wilder / times / (1 / times).sum()
    weight = np.concatenate([np.full(len(usual), (1 - assumed.wilder) / len(usual)), wilder])
    return assumed.between * np.concatenate([usual, times]), weight


# --- steps against steps


def _permuted(estimate: _Estimate, p_value: float) -> float:
    """The p-value of few runs: no less than what a permutation of blocks of steps gives, where that can tell at all."""
    if not estimate.is_small or p_value >= estimate.level:
        return p_value
    sides = [estimate.base, estimate.new]
    size = 1 if estimate.inflation == 1.0 else 4
    blocks = [
        np.array(
            [
                run.typical * float(part.mean())
                for run in side
                for part in np.array_split(run.values, max(run.steps // size, 1))
            ]
        )
        for side in sides
    ]
    return max(p_value, permutation_p_value(blocks[0], blocks[1]))


# --- words


def _verdict(estimate: _Estimate, limit: float, higher_is_worse: bool) -> Verdict:
    if estimate.known is not None:
        return _known_verdict(estimate, limit, higher_is_worse)
    base, new = (math.exp(each) for each in estimate.middle)
    verdict = Verdict(
        "inconclusive",
        base,
        new,
        new / base - 1,
        math.expm1(estimate.interval[0]),
        math.expm1(min(estimate.interval[1], 700.0)),
        estimate.p_value,
        estimate.level,
        limit,
        higher_is_worse,
        _why(estimate),
    )
    return replace(verdict, word=_word(verdict))


def _word(verdict: Verdict) -> Word:
    change, low, high, p_value = verdict.change, verdict.low, verdict.high, verdict.p_value
    if change is None or low is None or high is None or p_value is None:
        return verdict.word
    if p_value < verdict.level and abs(change) >= verdict.limit:
        return "worse" if (change > 0) == verdict.higher_is_worse else "better"
    return "same" if -verdict.limit < low and high < verdict.limit else "inconclusive"


def _known_verdict(estimate: _Estimate, limit: float, higher_is_worse: bool) -> Verdict:
    sides = [[run.typical for run in side] for side in (estimate.base, estimate.new)]
    base, new = (float(np.mean(side)) if side else None for side in sides)
    word = estimate.known or "inconclusive"
    if not higher_is_worse and word in ("worse", "better"):
        word = "better" if word == "worse" else "worse"
    relative = {"same": 0.0, "worse": math.inf, "better": -1.0}.get(estimate.known or "")
    without = base is None or new is None
    said = "No step has a value on one side." if without else "It is 0 in some runs."
    why = Note("NO_VALUE" if without else "ZERO_IN_SOME_RUNS", said)
    return Verdict(word, base, new, relative, relative, relative, None, estimate.level, limit, higher_is_worse, why)


def _why(estimate: _Estimate) -> Note | None:
    runs = min(len(estimate.base), len(estimate.new))
    if estimate.is_small:
        return Note(
            "FEW_RUNS",
            f"{number_of(runs, 'run')} per side: the variation between runs is unknown; use {RUNS} or more per side.",
        )
    if not estimate.short:
        return None
    if min(run.steps for run in (*estimate.base, *estimate.new)) < STEPS:
        return Note("FEW_STEPS_OF_RUN", f"A run has fewer than {STEPS} steps after its warm-up; record more.")
    return Note(
        "STEPS_ALIKE",
        f"Consecutive steps resemble each other, and count for fewer than {STEPS} independent ones; record more.",
    )
