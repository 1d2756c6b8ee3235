"""DEVICE009: large products run near the peak in 16 bits, on a device that has FP8."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.limits import (
    KEPT_PEAK_SHARE,
    TRAFFIC_REACHES,
    is_linear,
    longest_product,
    peak_in,
    saving_of_units,
    selected_units,
    time_of,
)
from kinetoscope.advisor.evidence.source_location import mostly_in_source
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import share
from kinetoscope.model.device.peaks import PRECISIONS
from kinetoscope.model.roofline.floors import Bound, floors
from kinetoscope.views.sentences import say

_MIN_STEP_SHARE: Final = 0.3
"""Share of the steps' time from which on such products are reported."""

_MIN_EFFICIENCY: Final = 0.5
"""Share of the peak from which on nothing but fewer bits makes products much faster."""

_CASTS: Final = 1.25
"""What making FP8 of the inputs moves for each byte of a product: they are read twice and written with half the bytes,
once for the forward and once for the backward pass."""

_SIXTEEN_BITS: Final = (PRECISIONS.index("fp16"), PRECISIONS.index("bf16"))


def products_in_sixteen_bits(rank: RankView) -> Iterator[Finding]:
    """Would FP8 make products faster that run near the peak already?

    What it checks. Products of matrices in FP16 and BF16, not attention and convolutions, that arithmetic limits, on
    devices that multiply FP8 matrices. It reports those that reach half of the peak and take 30 % of the steps or more.

    Why it matters. A product near its floor gets faster only with fewer bits: FP8 has twice the peak. At most, products
    take their floor in FP8. The lower end supposes that they keep 85 % of the share of the peak that they reach now,
    and that their inputs are read twice and written once more for the casts. As FP8 changes the numbers, it is a
    possibility, and never more than a note.

    What to do. Try FP8 for the large layers with torchao or Transformer Engine, and compare the loss.
    """
    limits = floors(rank.trace)
    peak = peak_in(rank.trace, limits, "fp8")
    chosen = selected_units(rank) & np.isin(limits.precision, _SIXTEEN_BITS) & is_linear(rank.trace)
    chosen &= (limits.bound == Bound.COMPUTE) & (peak > 0)
    efficiency = float(limits.floor[chosen].sum()) / max(float(limits.time[chosen].sum()), 1.0)
    if efficiency < _MIN_EFFICIENCY:
        return
    casts = _CASTS * limits.bytes / (TRAFFIC_REACHES * limits.bandwidth) * 1e9
    sure = limits.time * limits.peak / peak / KEPT_PEAK_SHARE + casts
    best = time_of(limits, peak, limits.bytes / 2)
    gain = saving_of_units(rank, chosen, sure, best, least=_MIN_STEP_SHARE)
    if gain is None:
        return
    saved, limit = gain
    shown = longest_product(rank, limits, chosen)
    yield saved.finding(
        message=say(
            "Large products run in half precision on a device that has FP8{where}. They take {part} of the step and"
            " reach {reached} of the peak: only fewer bits make them much faster.{limit}",
            where=mostly_in_source(shown),
            part=saved.part,
            reached=share(efficiency, 1.0),
            limit=limit,
        ),
        change="+ from torchao.float8 import convert_to_float8_training\n+ convert_to_float8_training(model)"
        if rank.program == "training"
        else "+ from torchao.quantization import Float8DynamicActivationFloat8WeightConfig, quantize_\n"
        "+ quantize_(model, Float8DynamicActivationFloat8WeightConfig())",
        why=say(
            "At most, products take their floor in FP8; at least they keep {kept} of the share of the peak that they"
            " reach now, besides the casts. The numbers change.",
            kept=share(KEPT_PEAK_SHARE, 1),
        ),
        confidence="medium",
        evidence=shown,
        at_most="note",
        overlap_priority=1,
    )


RULE = Rule("DEVICE009", "Large products do not use FP8", products_in_sixteen_bits, needs="device")
