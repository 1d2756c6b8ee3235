"""SERVING005: choosing tokens, or values that the host fetches, hold up the next step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.host_waits import fetches_tokens, stakes_of_sites, tokens_there, wait_sites
from kinetoscope.advisor.evidence.serving import EngineSteps, engine_steps, setting
from kinetoscope.advisor.evidence.stakes import leave_only, unblocked_launches
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.rules.waiting_for_the_device import waiting_claim
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.arrays import Bools
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.execution.call_tree import inside
from kinetoscope.model.serving.shares import SHARES
from kinetoscope.views.sentences import say

_MIN_SHARE: Final = 0.05
"""Share of the steps' time from which on sampling is reported."""

_LEFT_AT_MOST, _LEFT_AT_LEAST = 0.5, 0.05
"""Of the time of sampling: a kernel that draws without sorting reads the logits a few times, a sort dozens of times."""

_SAMPLERS: Final = {
    "vLLM": "+ VLLM_USE_FLASHINFER_SAMPLER=1 vllm serve MODEL  # draws without sorting the logits",
    "SGLang": "- sglang serve --model-path MODEL --sampling-backend pytorch\n"
    "+ sglang serve --model-path MODEL --sampling-backend flashinfer",
    "": "- probs.sort(descending=True)  # to draw from the top p\n"
    "+ flashinfer.sampling.top_k_top_p_sampling_from_probs(probs, k, p)",
}


def sampling_between_steps(rank: RankView) -> Iterator[Finding]:
    """Does the choice of tokens hold up the next step, or a value that the host fetches?

    What it checks. The device time of sampling, if it is a twentieth of the steps or more; and calls in which the host
    of a serving engine waits for the device, other than the one that fetches the tokens of a step.

    Why it matters. No token is final before it is sampled, so all requests wait. Sorting the logits of a vocabulary of
    100,000 reads them dozens of times; a kernel that draws without sorting, a few times. A value that the host fetches
    stops it from preparing the next step. At stake is the time that the steps gain: half of sampling at least and 95 %
    at most; eight tenths of what the waits cost at least.

    What to do. Use a sampler that does not sort; keep penalties and masks on the device; fetch tokens only.
    """
    steps = engine_steps(rank)
    if steps is None:
        return
    yield from _sampling(rank, steps)
    sites = [site for site in wait_sites(rank) if not fetches_tokens(rank, site)]
    for site, stake in stakes_of_sites(rank, sites, tokens_there(rank)):
        yield replace(
            waiting_claim(rank, site, stake),
            change="- value.item(), value.cpu(), x[mask]  # between the launches of a step\n"
            "+ keep it on the device, or copy it with the tokens",
            why="The value has to be fetched some time: eight tenths of the gain are the lower end.",
        )


def _sampling(rank: RankView, steps: EngineSteps) -> Iterator[Finding]:
    chosen = (steps.share == SHARES.index("sampling")) & (steps.step >= 0)
    time = rank.work_time(chosen)
    if time.length < _MIN_SHARE * rank.time.length:
        return
    low, high = _factors(rank, chosen, _LEFT_AT_MOST, 1.0), _factors(rank, chosen, _LEFT_AT_LEAST, _LEFT_AT_LEAST)
    saved = saving(rank, low, high, time)
    if saved is None:
        return
    longest = int(np.flatnonzero(chosen)[np.argmax(rank.work.duration[chosen])])
    yield saved.finding(
        message=say(
            "Sampling takes long. Choosing the tokens takes {share} of the step: {kernels}.",
            share=share(time.length, rank.time.length),
            kernels=rank.each_step(int(chosen.sum()), "kernel"),
        ),
        change=setting(steps.engine, _SAMPLERS),
        why="A kernel that draws without sorting takes a twentieth of the time at best, and surely no more than half.",
        confidence="medium",
        evidence=rank.event(int(rank.work.rows[longest]), "the longest kernel of sampling", "serving_steps"),
        key="sampling",
    )


def _factors(rank: RankView, chosen: Bools, left: float, host: float) -> Factors:
    """A what-if in which such shares are left of sampling on the device, and of launching it on the host."""
    factors, calls = unblocked_launches(rank), np.zeros(len(rank.trace), np.bool_)
    leave_only(factors, chosen, left)
    ops = rank.work.op[chosen]
    calls[ops[(ops >= 0) & (ops < rank.trace.recorded)]] = True
    factors.host[inside(rank.trace, calls)] = host
    return factors


RULE = Rule("SERVING005", "Sampling or copies hold up the next step", sampling_between_steps, needs="device")
