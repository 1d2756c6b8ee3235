"""The headroom of device work: the time that it takes beyond the limits of the device, by reason.

Every nanosecond of device work is charged to one part, so that the parts of any rows sum to their device time.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Floats, Int32s
from kinetoscope.model.operators.unfused_attention import unfused_attention
from kinetoscope.model.roofline.charged_work import charged_work
from kinetoscope.model.roofline.floors import Bound, Floors, floors, shortest_kernels
from kinetoscope.model.roofline.fused_optimizers import saved_by_fused_updates
from kinetoscope.model.roofline.fusion import saved_bytes
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace


class HeadroomPart(IntEnum):
    """Parts of the device time."""

    AT_LIMIT = 0
    """Time that remains at the peaks of the device, if neighbouring operators are fused."""
    FUSABLE = 1
    """Traffic of intermediate results that a fused kernel keeps on the chip, and that a fused optimizer spares."""
    UNFUSED_ATTENTION = 2
    """Operators between the two products of an attention, and the products' own traffic of scores."""
    SMALL_KERNELS = 3
    """Kernels whose floor is shorter than a kernel can be."""
    UNFILLED = 4
    """Multiprocessors without a block, in the only or in the last round of a product's blocks."""
    BELOW_PEAK = 5
    """Arithmetic slower than the peak for other reasons."""
    BELOW_BANDWIDTH = 6
    """Traffic slower than the memory."""
    LINKS = 7
    """Copies and collectives slower than the link."""
    UNCOVERED = 8
    """Work without a floor."""


PARTS: Final = tuple(each.name.lower() for each in HeadroomPart)


@derived
def parts(trace: Trace, *, on_host: bool = False) -> Floats:
    """The parts of each unit's device time, ns: float64 [units, parts]; a row sums to the time of the unit."""
    limits = floors(trace, on_host=on_host)
    time, covered = limits.time.astype(np.float64), limits.is_covered
    saved = np.append(saved_bytes(trace) + saved_by_fused_updates(trace), 0.0)[limits.call]
    fused = np.where(covered & (limits.bytes > 0), np.clip(saved / np.fmax(limits.bytes, 1.0), 0.0, 1.0), 0.0)
    fusable = time * fused
    rest = time - fusable
    at_limit = np.where(covered, np.minimum(np.nan_to_num(limits.floor) * (1.0 - fused), rest), 0.0)
    lost, is_product = rest - at_limit, limits.flop > 0
    shortest = limits.pieces * shortest_kernels(trace, on_host=on_host)[limits.longest]
    latency = np.where(is_product, np.clip(shortest - at_limit, 0.0, lost), lost)
    latency = np.where(limits.bound == Bound.LATENCY, latency, 0.0)
    unfilled, products = np.zeros(len(limits)), np.flatnonzero(is_product)
    kernels = charged_work(trace, on_host=on_host).work.rows[limits.longest[products]]
    unfilled[products] = np.minimum((lost - latency)[products], rest[products] * unfilled_share(trace, kernels))
    other = lost - latency - unfilled
    is_compute = np.nan_to_num(limits.compute) > np.nan_to_num(limits.traffic)
    reason = np.where(is_compute, HeadroomPart.BELOW_PEAK, HeadroomPart.BELOW_BANDWIDTH)
    reason = np.where(limits.bound == Bound.LINK, HeadroomPart.LINKS, np.where(covered, reason, HeadroomPart.UNCOVERED))
    result = np.zeros((len(limits), len(HeadroomPart)))
    result[np.arange(len(limits)), reason] = other
    for part, values in (
        (HeadroomPart.AT_LIMIT, at_limit),
        (HeadroomPart.FUSABLE, fusable),
        (HeadroomPart.SMALL_KERNELS, latency),
        (HeadroomPart.UNFILLED, unfilled),
    ):
        result[:, part] = values
    _charge_attention(trace, limits, result)
    return result


def _charge_attention(trace: Trace, limits: Floors, result: Floats) -> None:
    """Charges attention without a fused kernel: only the arithmetic of its products would remain with one."""
    unfused = unfused_attention(trace)
    is_product = unfused.products[limits.row] & (limits.flop > 0) & (limits.traffic > limits.compute)
    chosen = np.flatnonzero(unfused.between[limits.row] | is_product)
    time = limits.time[chosen].astype(np.float64)
    at_limit = np.where(is_product[chosen], np.minimum(limits.compute[chosen], time), 0.0)
    result[chosen] = 0.0
    result[chosen, HeadroomPart.AT_LIMIT] = at_limit
    result[chosen, HeadroomPart.UNFUSED_ATTENTION] = time - at_limit


def unfilled_share(trace: Trace, kernels: Int32s) -> Floats:
    """Share of a kernel's time that multiprocessors have no block of it: float64 [kernels]; 0 where it is unknown.

    Blocks go round over the multiprocessors. In the last round, which is the only one of a small kernel, some get none.
    """
    blocks = arguments.floats(trace, "blocks_per_sm", kernels)
    rounds = np.ceil(blocks)
    return np.where(blocks > 0, 1.0 - blocks / np.where(rounds > 0, rounds, 1.0), 0.0)
