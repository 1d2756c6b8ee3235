"""SERVING002: graphs that are replayed compute for far more requests than there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.limits import MIN_KERNEL_NS, left, with_work
from kinetoscope.advisor.evidence.serving import EngineSteps, engine_steps, setting
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.arrays import Bools, Floats
from kinetoscope.model.roofline.floors import Floors, floors
from kinetoscope.model.serving.shares import SHARES
from kinetoscope.views.sentences import measured, say

_MIN_RATIO: Final = 1.5
"""Requests computed for / requests, from which on a replay is padded much."""

_MIN_ROWS: Final = 64
"""Requests of a replay, below which products take as long as reading their weights, for one request or for all."""

_CERTAIN_SHARE: Final = 0.5
"""Certain share of the gain: products compute whole tiles."""

_SIZES: Final = {
    "vLLM": "+ vllm serve MODEL --cudagraph-capture-sizes {sizes}",
    "SGLang": "+ sglang serve --model-path MODEL --cuda-graph-bs {sizes}",
    "TensorRT-LLM": "+ cuda_graph_config: {{batch_sizes: [{sizes}]}}",
    "": "+ capture graphs of these batches, too: {sizes}",
}


def padded_replays(rank: RankView) -> Iterator[Finding]:
    """Do graphs that are replayed compute for far more requests than there are?

    What it checks. Steps that decode in a graph which was captured for 64 requests or more, and for half as many again
    as there are, or more. The size of a graph is known where its capture was recorded, or the engine says it.

    Why it matters. A graph computes for the batch that it was captured for; the rows that are missing are padded, and a
    large product takes as long as it has rows. At stake is the time that the steps gain with as many rows as there are
    requests: a product that arithmetic limits, and other kernels, in proportion; attention reads only what there is.
    Half of it is the lower end, where shapes were recorded and as far as products do not read longer than that.

    What to do. Capture graphs of more sizes.
    """
    steps = engine_steps(rank)
    if steps is None:
        return
    batch, padded = steps.numbers("batch"), steps.numbers("padded_batch")
    much = steps.decodes & (batch > 0) & (padded >= _MIN_ROWS) & (padded >= _MIN_RATIO * batch)
    if not much.any():
        return
    limits = floors(rank.trace)
    ratio = np.append(np.where(much, batch / np.maximum(padded, 1), 1.0), 1.0)[steps.step]
    chosen = _scales(steps)[limits.longest] & (ratio[limits.longest] < 1.0)
    fewer = ratio[limits.longest]
    most = with_work(rank, left(limits, chosen, _with_rows(limits, fewer, 0.0)))
    sure = limits.time - _CERTAIN_SHARE * (limits.time - _with_rows(limits, fewer, 1.0))
    least = with_work(rank, left(limits, chosen & limits.is_covered, sure))
    of_units = chosen[limits.unit]
    spans = rank.work_time(of_units)
    saved = saving(rank, least, most, spans)
    if saved is None:
        return
    usual, of = float(np.median(batch[much])), int(np.median(padded[much]))
    sizes = sorted({-(-int(each) // 8) * 8 for each in batch[much].tolist()})
    yield saved.finding(
        message=say(
            "Graphs compute for far more requests than there are: {padded} for {requests} in the middle. {share} of the"
            " steps replay a graph of half as many again or more.",
            padded=measured(of),
            requests=measured(round(usual)),
            share=share(float(much.sum()), len(steps)),
        ),
        change=setting(steps.engine, _SIZES).format(sizes=_listed(steps.engine, sizes)),
        why="The upper end is as many rows as requests, at today's share of the peak; at least half of it comes, as far"
        " as reading weights is not the limit then.",
        confidence="medium",
        evidence=rank.longest_of(steps.hosts(much), "the longest of these steps on the host", "serving_steps"),
    )


def _scales(steps: EngineSteps) -> Bools:
    """Work that is as long as there are requests: neither attention, nor communication, nor what follows the graph."""
    return np.isin(steps.share, [SHARES.index(name) for name in ("gemm", "moe", "computation")])


def _with_rows(limits: Floors, fewer: Floats, reads: float) -> Floats:
    """The time of each unit with such a share of its rows, ns: float64 [units].

    A product that is limited by reading stays as it is. reads: share of what the others read that is weights.
    """
    by_reading = np.fmax(limits.compute * fewer, limits.traffic * reads) / np.maximum(limits.compute, 1.0)
    product = np.where(limits.compute > limits.traffic, np.fmax(by_reading, fewer), 1.0)
    scaled = limits.time * np.where(limits.precision >= 0, product, fewer)
    return np.maximum(scaled, np.minimum(limits.time, MIN_KERNEL_NS))


def _listed(engine: str, sizes: list[int]) -> str:
    return (", " if engine == "TensorRT-LLM" else " ").join(map(str, sizes[:8]))


RULE = Rule("SERVING002", "Graphs compute for far more requests than there are", padded_replays, needs="device")
