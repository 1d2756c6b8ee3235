"""SERVING004: the device waits for the engine between two steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.host_waits import CERTAIN_SHARE, WaitSite, fetches_tokens, wait_sites, without_waits
from kinetoscope.advisor.evidence.serving import EngineSteps, engine_steps, setting, slowed_by_recording
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import joined, share
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, extents, intersection, union
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.execution.synchronization import host_waits
from kinetoscope.model.steps.steps import step_of
from kinetoscope.model.steps.steps import steps as find_steps
from kinetoscope.views.sentences import Sentence, say

_MIN_IDLE_SHARE: Final = 0.03
"""Share of the steps' time in which the device must wait between steps."""

_CERTAIN_SHARE: Final = 0.5
"""Certain share of what the host does between steps: an engine has always something to do there."""

_CAUSES: Final = {
    "scheduler": "the scheduler",
    "inputs": "preparing inputs",
    "synchronization": "waiting for the device",
    "detokenizing": "what follows a step, such as detokenizing",
    "launch": "launching",
    "other": "what was not recorded",
}
_SCHEDULE_AHEAD: Final = {
    "vLLM": "- vllm serve MODEL --no-async-scheduling\n+ vllm serve MODEL --async-scheduling",
    "SGLang": "- sglang serve --model-path MODEL --disable-overlap-schedule\n+ sglang serve --model-path MODEL",
    "TensorRT-LLM": "- disable_overlap_scheduler: true\n+ disable_overlap_scheduler: false",
    "": "+ schedule and launch the next step while the device works on this one",
}
_LESS_WORK: Final = {
    "vLLM": "+ vllm serve MODEL --stream-interval 10 --api-server-count 4  # less to do for each token",
    "SGLang": "+ sglang serve --model-path MODEL --stream-interval 10 --num-continuous-decode-steps 4",
    "": "+ do less for each token between steps, or in another process",
}

_PHASES: Final = {"vLLM": "+ VLLM_CUSTOM_SCOPES_FOR_PROFILING=1  # the next recording says what the host does there"}


def gaps_between_serving_steps(rank: RankView) -> Iterator[Finding]:
    """Does the device wait for the engine between two steps?

    What it checks. The time between the device work of one step of a serving engine and that of the next in which the
    device is idle: it waits for the scheduler, the inputs, the detokenizer.

    Why it matters. An engine that fetches the tokens of a step before it schedules the next one leaves the device idle
    meanwhile. One that schedules ahead does so only where this takes longer than the step. At stake is the time that
    the steps gain if the host neither waits for tokens nor does anything between steps. Of an engine that waits for
    tokens, eight tenths of the gain from not waiting are the lower end; of one that does not, half of its work between
    steps while the device is idle, which is likely and not sure.

    What to do. Schedule ahead (asynchronous scheduling, overlap); else do less between steps: answer several tokens at
    a time, and detokenize in other processes.
    """
    steps = engine_steps(rank)
    if steps is None:
        return
    gaps = intersection(_between_work(rank, steps), rank.idle)
    if gaps.length < _MIN_IDLE_SHARE * rank.time.length:
        return
    sites = wait_sites(rank)
    tokens = [site for site in sites if fetches_tokens(rank, site)]
    between = _host_between(rank)
    # The host may wait without a call that says so while the device is busy: only the rest is surely its work.
    works = intersection(between, rank.idle)
    half = Intervals(works.start, works.start + ((works.end - works.start) * _CERTAIN_SHARE).astype(np.int64))
    # Other waits keep an engine from working ahead, too; what the steps gain without them is another finding's.
    others = rank.gains(without_waits(rank, [site for site in sites if site not in tokens], 1.0))
    best = _factors(rank, sites, {steps.track: between})
    high = rank.gains(best) - others
    high = high * min(1.0, rank.idle.length / max(float(high.sum()), 1.0))
    low = rank.gains(_factors(rank, sites, {} if tokens else {steps.track: half}))
    low = (low - others) * (CERTAIN_SHARE if tokens else 1.0)
    saved = saving(rank, low, high, gaps, took=rank.idle.length, factors=best)
    if saved is None:
        return
    slowed = slowed_by_recording(rank)
    yield saved.finding(
        message=say(
            "The device waits for the engine between steps. It waits {gap} for each ({share}): for {causes}."
            " In all it is idle for {idle} of each step.",
            gap=rank.time_per_step(gaps.length),
            share=share(gaps.length, rank.time.length),
            causes=_causes(steps),
            idle=rank.time_per_step(rank.idle.length),
        ),
        change=_change(rank, steps, tokens),
        why=_why(tokens) + slowed,
        confidence="high" if tokens and not slowed else "medium",
        evidence=rank.longest_of(gaps, "the longest wait for the engine", "serving_steps"),
        overlap_priority=1,
    )


def _factors(rank: RankView, sites: Sequence[WaitSite], cut: dict[int, Intervals]) -> Factors:
    """A what-if in which the host waits nowhere, and some of its time, by track, is not there."""
    factors = without_waits(rank, sites, 1.0)
    factors.cut.update(cut)
    return factors


def _change(rank: RankView, steps: EngineSteps, tokens: list[WaitSite]) -> str:
    """Work ahead; of an engine that does, do less; where no wait was recorded, either. And have the causes recorded."""
    waits = rank.trace.start[host_waits(rank.trace).call]
    seen = bool((step_of(rank.time, waits) >= 0).any())
    lines = [setting(steps.engine, _SCHEDULE_AHEAD)] if tokens or not seen else []
    lines += [setting(steps.engine, _LESS_WORK)] if not tokens else []
    unknown = 2 * steps.numbers("gap_other").sum() > steps.numbers("gap").sum()
    return "\n".join(lines + ([_PHASES[steps.engine]] if unknown and steps.engine in _PHASES else []))


def _why(tokens: list[WaitSite]) -> str:
    if tokens:
        return "The upper end is an engine that has nothing to do between steps; the lower one, one that works ahead."
    return "The upper end is an engine that has nothing to do between steps; half of its work is the lower end."


def _between_work(rank: RankView, steps: EngineSteps) -> Intervals:
    """From the last work of each step to the first of the next, a union."""
    first, last = extents(steps.step, len(steps), rank.work.start, rank.work.end)
    works = last > first
    first, last = first[works], np.maximum.accumulate(last[works])
    ahead = first[1:] > last[:-1]
    return intersection(union(last[:-1][ahead], first[1:][ahead]), rank.time)


def _host_between(rank: RankView) -> Intervals:
    """The time of the host between steps of the engine, without waiting for the device."""
    host, calls = find_steps(rank.trace, rank.select.steps_by).host, host_waits(rank.trace).call
    between = union(host.end[:-1], np.maximum(host.start[1:], host.end[:-1]))
    return intersection(difference(between, union(rank.trace.start[calls], rank.trace.end[calls])), rank.time)


def _causes(steps: EngineSteps) -> Sentence | str:
    time = {words: int(steps.numbers(f"gap_{cause}").sum()) for cause, words in _CAUSES.items()}
    total = max(sum(time.values()), 1)
    largest = sorted(time, key=lambda words: -time[words])[:2]
    said = [
        say("{what} ({share} of it)", what=words, share=share(time[words], total)) for words in largest if time[words]
    ]
    return joined(said) or "its host"


RULE = Rule("SERVING004", "The device waits for the engine between steps", gaps_between_serving_steps, needs="device")
