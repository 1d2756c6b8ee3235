"""What is wrong with what `stragglers` says of a simulated job."""

from __future__ import annotations

from typing import Final

import polars as pl

from tests.simulator.truth import Straggler, Truth

_MATTERS: Final = 0.02
"""Of a step: a rank that costs less may be named or not."""

_SECOND: Final = 0.05
"""The same of the one of two that costs less."""

CALLED: Final = {
    "slow_kernels": "computation",
    "host_gap": "host gap",
    "data_loading": "data loading",
    "synchronization": "synchronization",
}
"""What the analysis calls the faults."""


def wrong(truth: Truth, found: pl.DataFrame) -> str:
    """ "" if nothing; it begins with "false" where a rank is named that does nothing wrong.

    A fault that is there in one step only may be named or not; so may what makes steps longer in the first only, as
    where hosts run ahead.
    """
    named = list(found.filter("straggler").sort("lost", descending=True).select("rank", "cause").iter_rows())
    faults = {fault.rank: CALLED.get(fault.cause) for fault in truth.model.faults}
    if any(faults.get(rank) is None for rank, _ in named):
        return f"false straggler {named} ({truth.model.faults})"
    if any(faults[rank] != cause for rank, cause in named):
        return f"wrong cause {named} ({truth.model.faults})"
    ranks = [rank for rank, _ in named]
    must = sorted((each for each in (truth.straggler, truth.other) if each and _matters(truth, each)), key=_lasting)
    missed = [each for each in must[-1:] if each.rank not in ranks]
    missed += [each for each in must[:-1] if each.rank not in ranks and _lasting(each) >= _SECOND * truth.step_time]
    return f"missed {missed} of {truth.step_time:.0f}, named {named}" if missed else ""


def _lasting(straggler: Straggler) -> int:
    return min(straggler.loss, straggler.lasting)


def _matters(truth: Truth, straggler: Straggler) -> bool:
    model = truth.model
    fault = next(each for each in model.faults if each.rank == straggler.rank)
    often = sum(fault.hits(step) for step in range(model.steps)) > 1
    alone = model.pipeline > 1 and model.data * model.tensor == 1  # of its stage: others have bubbles
    return often and not alone and _lasting(straggler) >= _MATTERS * truth.step_time
