"""DEVICE012: large products reach little of the peak, and no other rule says why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.limits import (
    KEPT_PEAK_SHARE,
    is_linear,
    longest_product,
    saving_of_units,
    selected_units,
)
from kinetoscope.advisor.evidence.source_location import mostly_in_source
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.arrays import Bools, Floats
from kinetoscope.model.device.hardware import is_rocm
from kinetoscope.model.device.peaks import PRECISIONS
from kinetoscope.model.roofline.floors import Bound, Floors, floors
from kinetoscope.views.sentences import measured, say

_MIN_STEP_SHARE: Final = 0.1
"""Share of the steps' time from which on such products are reported."""

_MIN_PRODUCT_NS: Final = 50_000
"""A shorter product mostly begins and ends."""

_MAX_EFFICIENCY: Final = 0.5
"""Share of the peak below which a large product is slow: libraries reach more with those that fill a device."""

_REACHABLE: Final = 0.85
"""Share of the peak that tuned kernels reach at most: cuBLAS 73 % of an H100's, on A100 more (see `limits`)."""

_MATRIX_BITS: Final = tuple(PRECISIONS.index(name) for name in ("fp16", "bf16", "fp8"))


def products_below_their_peak(rank: RankView) -> Iterator[Finding]:
    """Do large products reach little of the peak?

    What it checks. Products of two matrices in FP16, BF16 or FP8 of 50 µs and more that arithmetic limits and that
    reach less than half of the peak of their device, where they take a tenth of the steps or more. What other rules say
    of their sizes, blocks and precision counts there.

    Why it matters. Libraries choose a kernel by rules of thumb, which for some sizes choose badly: a factor of two
    between kernels is common. At most, each product reaches 85 % of the peak, as tuned kernels do. At least it comes as
    near to the peak as 85 % of what the best large product of the same trace reaches; where that is no more, nothing is
    gained at least. It is no fault of the program, and never more than a note.

    What to do. Let the libraries' kernels be tried out for these sizes, once (TunableOp on ROCm, `max-autotune`
    elsewhere); try the other layout of the weights, and sizes that are multiples of 256; or FP8.
    """
    limits = floors(rank.trace)
    large = selected_units(rank) & is_linear(rank.trace) & np.isin(limits.precision, _MATRIX_BITS)
    large &= (limits.bound == Bound.COMPUTE) & (limits.time >= _MIN_PRODUCT_NS)
    efficiency = np.nan_to_num(limits.floor / np.maximum(limits.time, 1))
    chosen = large & (efficiency < _MAX_EFFICIENCY)
    gain = saving_of_units(rank, chosen, *_times(limits, large, efficiency), least=_MIN_STEP_SHARE)
    if gain is None:
        return
    saved, limit = gain
    shown = longest_product(rank, limits, chosen)
    floor, time = (float(each[chosen].sum()) for each in (limits.floor, limits.time))
    yield saved.finding(
        message=say(
            "Large products reach {reached} of their peak{where}. They take {takes} of each step, {part} of it, and"
            " would take {floor} at the peak.{limit}",
            reached=share(floor, time),
            where=mostly_in_source(shown),
            takes=saved.per_step,
            part=saved.part,
            floor=measured(rank.per_step(floor), "ns"),
            limit=limit,
        ),
        change="+ PYTORCH_TUNABLEOP_ENABLED=1 python ...  # tries rocBLAS and hipBLASLt for each size, once\n"
        "+ TORCH_BLAS_PREFER_HIPBLASLT=1"
        if is_rocm(rank.trace)
        else '+ model = torch.compile(model, mode="max-autotune")  # tries kernels for each size, once',
        why=say(
            "At most, products reach {reachable} of the peak, as tuned kernels do; at least they come as near to it as"
            " {kept} of what the best large product here reaches.",
            reachable=share(_REACHABLE, 1),
            kept=share(KEPT_PEAK_SHARE, 1),
        ),
        confidence="medium",
        evidence=shown,
        at_most="note",
        overlap_priority=1,
    )


def _times(limits: Floors, large: Bools, efficiency: Floats) -> tuple[Floats, Floats]:
    """The time of large products at most and at least with better kernels, ns: float64 [units]."""
    best = float(efficiency[large].max(initial=0.0))
    at_most = limits.floor / max(KEPT_PEAK_SHARE * min(best, 1.0), 1e-9)
    return at_most, limits.floor / _REACHABLE


RULE = Rule("DEVICE012", "Large products are far below the peak", products_below_their_peak, needs="device")
