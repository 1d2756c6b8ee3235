"""Times of device work done in another way: from its arithmetic, its traffic and the device's peaks.

The best is the floor. What libraries reach of it for sure is what is published of those that torch calls.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.source_location import row_of_most, user_evidence
from kinetoscope.advisor.evidence.stakes import unblocked_launches
from kinetoscope.advisor.finding import Evidence
from kinetoscope.advisor.rule import RankView
from kinetoscope.advisor.saving import Saving, saving
from kinetoscope.algorithms.arrays import Bools, Floats
from kinetoscope.algorithms.intervals.intervals import Intervals
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.device.peaks import PRECISIONS
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.roofline.floors import Floors, floors
from kinetoscope.model.roofline.rates import peak_rates
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import Sentence

PRODUCTS_REACH: Final = 0.5
"""Share of the peak that libraries reach at least with products that fill a device: cuBLAS 73 % of an H100's in BF16
(SemiAnalysis, "MI300X vs H100 vs H200", 2024), on A100 and V100 more."""

ATTENTION_REACHES: Final = 0.25
"""The same of fused attention: FlashAttention-2 reaches 35 % of an H100's peak (Shah et al., arXiv:2407.08608), 50 to
73 % of an A100's (Dao, arXiv:2307.08691), in the backward pass less."""

TRAFFIC_REACHES: Final = 0.7
"""Share of the memory's bandwidth that large kernels reach at least: copies reach 80 to 93 %."""

KEPT_PEAK_SHARE: Final = 0.85
"""Least share of what products reach of the peak today that they keep with other elements: fewer bits need larger
tiles, and power limits the clock."""

MIN_KERNEL_NS: Final = 2_000
"""No kernel is shorter than this."""


def selected_units(rank: RankView) -> Bools:
    """The units of `floors` that compute in the selected steps: bool [units]."""
    return floors(rank.trace).among(rank.scope.device_work_mask & rank.work.of(WorkKind.COMPUTATION))


_LINEAR: Final = re.compile(r"(?:add)?mm_?|linear|_addmm_activation|_linear_pointwise|_mkl_linear")
"""Products of two matrices, of which one is usually a layer's weight."""


@derived
def is_linear(trace: Trace) -> Bools:
    """The units of `floors` that are products of two matrices, not batches of them: bool [units]."""
    limits = floors(trace)
    names = [_LINEAR.fullmatch(each.name.rpartition("::")[2]) is not None for each in limits.calls.variants]
    return limits.calls.at(limits.call, names) > 0


def peak_in(trace: Trace, limits: Floors, precision: str) -> Floats:
    """The peak of each unit's device for products in a precision, operations a second: float64 [units], NaN unknown."""
    device = device_work(trace).device[limits.longest]
    return peak_rates(trace, device, PRECISIONS, np.full(len(limits), PRECISIONS.index(precision)))


def time_of(limits: Floors, peak: Floats, nbytes: Floats, products: float = 1.0, traffic: float = 1.0) -> Floats:
    """Time of each unit's products and so many bytes at these shares of a peak and of the memory's bandwidth, ns."""
    arithmetic = limits.flop / (products * peak)
    return np.maximum(np.fmax(arithmetic, nbytes / (traffic * limits.bandwidth)) * 1e9, MIN_KERNEL_NS)


def left(limits: Floors, chosen: Bools, time: Floats) -> Floats:
    """The share of its time that is left of each piece of work if chosen units take other times: float64 [work].

    No unit takes longer than now; one whose other time is unknown (NaN) stays as it is.
    """
    share = np.clip(time / np.maximum(limits.time, 1), 0.0, 1.0)
    return np.where(chosen & ~np.isnan(share), share, 1.0)[limits.unit]


def with_work(rank: RankView, share: Floats) -> Factors:
    """A what-if in which such shares of the time of device work are left: float64 [work]."""
    factors = unblocked_launches(rank)
    factors.work[:] = share
    return factors


def longest_product(rank: RankView, limits: Floors, chosen: Bools) -> Evidence:
    """The longest of the products that take most time, of those that chosen units are, as evidence."""
    units = np.flatnonzero(chosen)
    row = row_of_most(rank.trace, limits.row[units], limits.time[units])
    return user_evidence(rank, row, "the longest product there", "roofline")


def saving_of_units(
    rank: RankView, chosen: Bools, sure: Floats, best: Floats, *, least: float
) -> tuple[Saving, Sentence] | None:
    """The gain if chosen units took other times at most and at least, and the reason why it is less than their gain.

    None where it is negligible, or where they take less than `least` of the steps. `sure`, `best`: ns, float64 [units].
    """
    limits = floors(rank.trace)
    spans = time_of_units(rank, limits, chosen)
    if spans.length < least * rank.time.length:
        return None
    low, high = (with_work(rank, left(limits, chosen, each)) for each in (sure, best))
    saved = saving(rank, low, high, spans)
    return None if saved is None else (saved, saved.limit(float((limits.time - best)[chosen].clip(0).sum())))


def time_of_units(rank: RankView, limits: Floors, chosen: Bools) -> Intervals:
    """When the work of chosen units runs, in the selected steps."""
    mine = chosen[limits.unit]
    return rank.work_time(mine)
