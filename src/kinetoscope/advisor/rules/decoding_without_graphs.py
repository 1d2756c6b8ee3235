"""SERVING001: steps that decode wait for launches, because no graph launches them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.launch_time import launch_bound
from kinetoscope.advisor.evidence.serving import GRAPH_SETTINGS, EngineSteps, engine_steps, setting, slowed_by_recording
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import share
from kinetoscope.views.sentences import EMPTY, Sentence, measured, say

_LARGER_GRAPHS: Final = {
    "vLLM": "+ vllm serve MODEL --max-cudagraph-capture-size BATCH",
    "SGLang": "+ sglang serve --model-path MODEL --cuda-graph-max-bs BATCH",
    "TensorRT-LLM": "+ cuda_graph_config: {enable_padding: true, max_batch_size: BATCH}",
    "": "+ capture graphs of up to BATCH requests",
}


def decoding_without_graphs(rank: RankView) -> Iterator[Finding]:
    """Do steps that decode wait for launches that a graph would make at once?

    What it checks. Steps of a serving engine in which every request decodes and that no graph launches: the time in
    which the host launches, and the part of it that no device work hides.

    Why it matters. A step that decodes runs some hundred short kernels for a token of each request. Launched one by
    one, they take the host longer than the device. At stake is the time that the steps gain if launching takes no time;
    nine tenths of it, less 1 µs between kernels, are the lower end.

    What to do. Let the engine capture graphs; where it has graphs for smaller batches only, capture larger ones.
    """
    steps = engine_steps(rank)
    if steps is None:
        return
    eager = steps.decodes & ~steps.is_replayed
    bound = launch_bound(rank, steps.hosts(eager))
    if bound is None:
        return
    batch = steps.numbers("batch")[eager]
    least: Sentence = EMPTY
    if _has_smaller_graphs(steps, eager):
        least = say(" The batches are of {requests} requests or more.", requests=measured(int(batch.min())))
    yield Finding(
        message=say(
            "Decoding is launched kernel by kernel. The device waits {share} of the step for launches:"
            " {launches}.{least}",
            share=share(bound.exposed.length, rank.time.length),
            launches=bound.launches(rank),
            least=least,
        ),
        stake=bound.stake,
        factors=bound.factors,
        takes=rank.per_step(max(bound.launching.length, bound.exposed.length)),
        change=setting(steps.engine, _LARGER_GRAPHS if least else GRAPH_SETTINGS).replace("BATCH", str(batch.max())),
        why="The upper end is launching that takes no time; a graph brings at least nine tenths of it."
        + slowed_by_recording(rank),
        confidence="medium" if rank.is_complete else "low",
        evidence=(
            rank.longest_of(bound.exposed, "the longest stretch without device work while launching", "serving_steps"),
        ),
        time=bound.exposed,
    )


def _has_smaller_graphs(steps: EngineSteps, eager: np.ndarray) -> bool:
    """Are there graphs, of smaller batches than any that is launched without?"""
    replayed = steps.decodes & steps.is_replayed
    batch = steps.numbers("batch")
    return bool(replayed.any() and 0 < batch[replayed].max() < batch[eager].min())


RULE = Rule("SERVING001", "Decoding is launched kernel by kernel", decoding_without_graphs, needs="device")
