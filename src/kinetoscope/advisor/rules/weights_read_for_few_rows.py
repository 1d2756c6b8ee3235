"""DEVICE010: products read all weights for few rows, as decoding with a small batch does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.limits import (
    MIN_KERNEL_NS,
    is_linear,
    longest_product,
    saving_of_units,
    selected_units,
)
from kinetoscope.advisor.evidence.source_location import mostly_in_source
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import counted, share
from kinetoscope.model.device.peaks import PRECISIONS
from kinetoscope.model.roofline.floors import Bound, floors
from kinetoscope.views.sentences import say

_MIN_STEP_SHARE: Final = 0.2
"""Share of the steps' time from which on such products are reported."""

_RIDGE_SHARE: Final = 0.25
"""Arithmetic takes at most this share of the time of reading, so that some times as many rows take no longer."""

_KEPT_BANDWIDTH: Final = 0.75
"""Least share of today's bandwidth that kernels reach that make 8 bits 16 on their way: torch's, Marlin, Machete."""

_ELEMENT_BITS: Final = (PRECISIONS.index("fp16"), PRECISIONS.index("bf16"))


def weights_read_for_few_rows(rank: RankView) -> Iterator[Finding]:
    """Are weights read for few rows at a time?

    What it checks. In inference and serving: products of 16-bit matrices, not attention, whose arithmetic takes less
    than a quarter of the time of reading their matrices, where they take a fifth of the steps or more.

    Why it matters. Such a product takes as long as reading its weights, for one row or for a hundred. More sequences in
    a batch take no longer until arithmetic is the limit, so that each costs less; that is no shorter step, and not part
    of the stake. At stake is what weights of 8 bits save: at most, products take the time of reading half the bytes;
    at least they keep 75 % of the bandwidth that they reach now.

    What to do. Decode more sequences at once (continuous batching), or store the weights in 8 or 4 bits.
    """
    limits = floors(rank.trace)
    chosen = selected_units(rank) & np.isin(limits.precision, _ELEMENT_BITS) & is_linear(rank.trace)
    chosen &= (limits.bound == Bound.MEMORY) & (limits.compute < _RIDGE_SHARE * limits.traffic)
    sure = limits.time / (2 * _KEPT_BANDWIDTH)
    best = np.maximum(limits.traffic / 2, MIN_KERNEL_NS)
    gain = saving_of_units(rank, chosen, sure, best, least=_MIN_STEP_SHARE)
    if gain is None:
        return
    saved, limit = gain
    shown = longest_product(rank, limits, chosen)
    moved, flop = float(limits.bytes[chosen].sum()), float(limits.flop[chosen].sum())
    ridge = float(np.median(limits.peak[chosen] / limits.bandwidth[chosen]))
    yield saved.finding(
        message=say(
            "Weights are read for few rows at a time{where}. Such products take {part} of the step and read each weight"
            " for about {rows}; for up to {ridge} they would take about as long.{limit}",
            where=mostly_in_source(shown),
            part=saved.part,
            rows=counted(round(flop / moved), "row"),
            ridge=counted(round(ridge), "row"),
            limit=limit,
        ),
        change="+ decode more sequences in one batch\n"
        "+ from torchao.quantization import Int8WeightOnlyConfig, quantize_\n"
        "+ quantize_(model, Int8WeightOnlyConfig())  # or Float8WeightOnlyConfig()",
        why=say(
            "The stake is of weights in INT8 or FP8: at most, half the bytes are read at the memory's peak; at least at"
            " {kept} of today's bandwidth. A larger batch saves more, for each sequence.",
            kept=share(_KEPT_BANDWIDTH, 1),
        ),
        confidence="medium",
        evidence=shown,
        at_most="note",
        overlap_priority=1,
    )


RULE = Rule(
    "DEVICE010",
    "Weights are read for few rows",
    weights_read_for_few_rows,
    needs="device",
    programs=("inference", "serving"),
)
