"""Losses under a change, whether they stay as they are: against the program as it is, in runs of the same round."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from kinetoscope.compare.trials.runs import ROUNDING, LossDifference, TimedRun, loss_difference
from kinetoscope.record.trials.trial import Trial
from kinetoscope.trying.search import Comparison


def own_difference(base: Sequence[TimedRun]) -> LossDifference:
    """How the losses of the program as it is differ from run to run; unknown of fewer than two runs."""
    return loss_difference(base[0], base[1]) if len(base) > 1 else LossDifference("unknown")


def difference_of(comparison: Comparison, trials: Mapping[str, Trial], base: Sequence[TimedRun]) -> LossDifference:
    """How the losses of a setup differ from those of its base; unknown where the program's own differ.

    Args:
        comparison: of the two.
        trials: all that there are, by name: each says how much it may change.
        base: runs of the program as it is.
    """
    if not (comparison.of_base and comparison.of_new):
        return LossDifference("unknown")
    difference = loss_difference(comparison.of_base[0], comparison.of_new[0], allowed(comparison, trials))
    is_random = own_difference(base).word == "different" and not math.isinf(difference.most)
    return dataclasses.replace(difference, word="unknown") if is_random else difference


def allowed(comparison: Comparison, trials: Mapping[str, Trial]) -> float:
    """Relative difference that the first loss which differs may have."""
    added = [trials[each] for each in comparison.new if each not in comparison.base and each in trials]
    return max((math.inf if each.effect == "training" else each.loss_within for each in added), default=ROUNDING)


def objection(comparison: Comparison, trials: Mapping[str, Trial], base: Sequence[TimedRun]) -> str:
    """Why a faster setup is not kept: its losses are others; "" if they are not."""
    difference = difference_of(comparison, trials, base)
    if math.isinf(difference.most):
        return "its loss is not a number any more"
    if difference.word != "different":
        return ""
    said = f"its loss differs by {difference.first:.1e} in step {difference.step}"
    if allowed(comparison, trials) == ROUNDING:
        return f"{said}, where {ROUNDING:.0e} is explained by rounding"
    return said
