"""DEVICE011: products that are too small for the device follow one another, though one kernel could compute them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.limits import (
    MIN_KERNEL_NS,
    PRODUCTS_REACH,
    TRAFFIC_REACHES,
    is_linear,
    selected_units,
    time_of_units,
)
from kinetoscope.advisor.evidence.source_location import in_source, user_evidence
from kinetoscope.advisor.evidence.stakes import unblocked_launches
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, scattered
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.roofline.floors import Floors, floors
from kinetoscope.views.sentences import measured, say

_RUN: Final = 4
"""Products of one size in a row from which on it pays to batch them."""

_MAX_EFFICIENCY: Final = 0.8
"""Share of its time that the floor of such a product takes at most."""

_MIN_STEP_SHARE: Final = 0.03
"""Share of the steps' time from which on they matter."""


def small_products_in_a_row(rank: RankView) -> Iterator[Finding]:
    """Do small products of one size follow one another that one kernel could compute?

    What it checks. Runs of four or more products of two matrices with the same sizes and no other device work between
    them, each of which takes its floor less than 80 % of its time: experts, heads or members of an ensemble in a loop.

    Why it matters. A product of few tiles leaves multiprocessors without work, and each begins and ends anew. Batched,
    all tiles run at once. At most, a run takes the sum of its floors; the lower end is the gain at half of the peak and
    70 % of the bandwidth, which cuBLAS and CUTLASS exceed in grouped kernels, if the calls cost the host as much as
    before.

    What to do. Stack the weights and call `torch.bmm`, for parts of different lengths `torch._grouped_mm`.
    """
    limits = floors(rank.trace)
    small = selected_units(rank) & is_linear(rank.trace) & (limits.floor < _MAX_EFFICIENCY * limits.time)
    run = _runs(limits, small, rank.trace.track[limits.row], rank.trace.start[limits.row])
    chosen = run >= 0
    spans = time_of_units(rank, limits, chosen)
    if spans.length < _MIN_STEP_SHARE * rank.time.length:
        return
    low, high = (_factors(rank, limits, run, surely=surely) for surely in (True, False))
    saved = saving(rank, low, high, spans)
    if saved is None:
        return
    counts = np.bincount(run[chosen])
    units = np.flatnonzero(run == int(counts.argmax()))
    shown = user_evidence(rank, int(limits.row[units[0]]), "the first product of the longest run", "roofline")
    efficiency = float(limits.floor[chosen].sum() / limits.time[chosen].sum())
    yield saved.finding(
        message=say(
            "Small products follow one another{where}. {products} form runs of up to {longest} of one size. They take"
            " {part} of the step, and their floors are {reached} of that.{limit}",
            where=in_source(shown),
            products=rank.each_step(int(chosen.sum()), "product"),
            longest=measured(int(counts.max())),
            part=saved.part,
            reached=share(efficiency, 1.0),
            limit=saved.limit(float((limits.time - limits.floor)[chosen].sum())),
        ),
        change="- y = [a @ w for a, w in zip(parts, weights)]\n+ y = torch.bmm(torch.stack(parts), weights)",
        why=say(
            "At most, a run takes the sum of its floors; at least it reaches half of the peak and {traffic} of the"
            " bandwidth.",
            traffic=share(TRAFFIC_REACHES, 1),
        ),
        confidence="medium",
        evidence=shown,
    )


def _factors(rank: RankView, limits: Floors, run: Int32s, *, surely: bool) -> Factors:
    """A what-if in which each run is one kernel."""
    mine = np.flatnonzero(run >= 0)
    flop, nbytes, time = (np.bincount(run[mine], each[mine]) for each in (limits.flop, limits.bytes, limits.time))
    first = mine[np.unique(run[mine], return_index=True)[1]]
    products, traffic = (PRODUCTS_REACH, TRAFFIC_REACHES) if surely else (1.0, 1.0)
    arithmetic = flop / (products * limits.peak[first])
    together = np.fmax(arithmetic, nbytes / (traffic * limits.bandwidth[first])) * 1e9
    share_left = np.clip(np.maximum(together, MIN_KERNEL_NS) / np.maximum(time, 1), 0.0, 1.0)
    left = np.append(share_left, 1.0)[run][limits.unit]
    factors = unblocked_launches(rank)
    factors.work[:] = left
    factors.gap[:] = 1.0 if surely else left
    return factors


def _runs(limits: Floors, small: Bools, track: Int32s, start: Int64s) -> Int32s:
    """The run that each unit is in, units of a thread in their order: int32 [units], −1 for none."""
    order = np.lexsort((start, track))
    variant = np.append(limits.calls.variant, np.int32(-1))[limits.call][order]
    same = np.zeros(len(order), np.bool_)
    same[1:] = (variant[1:] == variant[:-1]) & (track[order][1:] == track[order][:-1]) & small[order][:-1]
    number = np.cumsum(~(same & small[order]))
    long = (np.bincount(number)[number] >= _RUN) & small[order]
    return scattered(len(order), order[long], np.unique(number[long], return_inverse=True)[1], np.int32)


RULE = Rule("DEVICE011", "Small products one after another", small_products_in_a_row, needs="device")
