"""SERVING003: requests that decode wait for the prompts of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.serving import engine_steps, setting
from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, extents, intersection, union
from kinetoscope.views.sentences import EMPTY, measured, say

_MIN_RATIO: Final = 3.0
"""Times a step that only decodes, from which on a step with prompts is noticed between two tokens."""

_MIN_SHARE: Final = 0.05
"""Share of the steps' time, below which waiting for prompts is not reported."""

_CHANGES: Final = {
    "vLLM": "+ vllm serve MODEL --max-num-batched-tokens {tokens}  # smaller pieces of prompts\n"
    "+ or prefill on other devices: --kv-transfer-config '{{...}}'",
    "SGLang": "+ sglang serve --model-path MODEL --chunked-prefill-size {tokens} --enable-mixed-chunk\n"
    "+ or prefill on other devices: --disaggregation-mode",
    "TensorRT-LLM": "+ enable_chunked_prefill: true\n+ max_num_tokens: {tokens}",
    "": "+ take at most {tokens} tokens of prompts into a step, or prefill on other devices",
}


def prompts_hold_up_decoding(rank: RankView) -> Iterator[Finding]:
    """Do requests that decode wait for the prompts of others?

    What it checks. Steps of a serving engine that hold prompts while other requests decode, and steps of prompts alone
    between two that decode: by how much they are longer than a step of as many requests that only decodes.

    Why it matters. Every request of the batch gets its next token only after such a step: it is the pause that users
    notice in the middle of an answer. At stake is what the prompts add to an average step. Devices that only prefill
    take all of it away; smaller pieces of prompts shorten the longest pause, but not the average, so none is the lower
    end.

    What to do. Take fewer tokens of prompts into a step, or prefill on other devices.
    """
    steps = engine_steps(rank)
    if steps is None or not steps.decodes.any():
        return
    delay = steps.numbers("decode_delay").astype(np.float64)
    held = delay > 0
    usual = float(np.median(steps.numbers("duration")[steps.decodes]))
    took = np.where(held, steps.numbers("duration"), 0)
    if took.max() < _MIN_RATIO * usual or delay.sum() < _MIN_SHARE * rank.time.length:
        return
    longest = int(np.argmax(took))
    tokens = int(steps.numbers("prefill_tokens")[longest])
    inside = steps.step == longest
    window = Intervals(rank.work.start[inside].min(keepdims=True), rank.work.end[inside].max(keepdims=True))
    of_tokens = say(" for {tokens} tokens of prompts", tokens=measured(tokens)) if tokens else EMPTY
    held_up = rank.per_step(float(delay.sum()))
    yield Finding(
        message=say(
            "Prompts hold up decoding. A step that only decodes takes {usual}; of the steps, {share} hold prompts, and"
            " take up to {most}{of_tokens}. Without them an average step would take {less} less.",
            usual=measured(usual, "ns"),
            share=share(held.sum(), len(steps)),
            most=measured(float(took.max()), "ns"),
            of_tokens=of_tokens,
            less=measured(held_up, "ns"),
        ),
        stake=Stake(0.0, min(held_up, rank.step)),
        takes=held_up,
        change=setting(steps.engine, _CHANGES).format(tokens=max(tokens // 4, 256)),
        why="Prefill on other devices takes all of it from these; smaller pieces take it from the longest steps only.",
        confidence="medium",
        evidence=(rank.longest_of(window, "the longest step that holds up decoding", "serving_steps"),),
        time=intersection(_held_up(rank, steps.step, delay), rank.time),
        key="prompts",
    )  # fmt: skip


def _held_up(rank: RankView, step: Int64s, delay: Floats) -> Intervals:
    """The end of the device work of each step that holds others up, as long as it does so: a union."""
    end = extents(step, len(delay), rank.work.start, rank.work.end).end
    held = (delay > 0) & (end > 0)
    return union(end[held] - delay[held].astype(np.int64), end[held])


RULE = Rule("SERVING003", "Prompts hold up decoding", prompts_hold_up_decoding)
