"""Chains of operators that one kernel could compute, in the selected steps of a rank, and the time that it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.logits import logits_in_fp32
from kinetoscope.advisor.rule import RankView
from kinetoscope.algorithms.arrays import Bools, Floats, Int64s, marked, scattered
from kinetoscope.algorithms.grouping import distinct_sequences
from kinetoscope.model.roofline.calls import costed_calls
from kinetoscope.model.roofline.floors import shortest_kernels
from kinetoscope.model.roofline.fusion import call_times, fusable_chains
from kinetoscope.model.roofline.rates import peak_rates

_MIN_SURE_CHAIN: Final = 3
"""Operators of a chain from which on a compiler surely puts them into one kernel."""

_MIN_SHARE_LEFT: Final = 0.02
"""Share of a chain's time that its kernel takes at least, whatever the peaks say."""


@dataclass(frozen=True)
class ChainsOfRank:
    """The selected chains that ran on a device.

    Attributes:
        places: int64 [chains], their places in `fusable_chains`.
        work: bool [work], their device work.
        first: bool [work], that of the first call of each.
        left_least, left_most: float64 [work], share of its time that is left if one kernel computes the chain: at
            the memory's bandwidth; with the bytes that surely remain, at the rate of the recorded kernels, if the
            chain has three operators or more.
        sure: bool [work], that of chains of three operators or more.
        time: of all chains, ns.
        saved_least, saved_most: share of their bytes that one kernel for each does not move.
        name, row: operators and first call of the chain with most at stake among its like.
    """

    places: Int64s
    work: Bools
    first: Bools
    sure: Bools
    left_least: Floats
    left_most: Floats
    time: int
    saved_least: float
    saved_most: float
    name: str
    row: int


def chains_of_rank(rank: RankView) -> ChainsOfRank:
    """Find them for the selected steps."""
    trace, work = rank.trace, rank.work
    chains, costed = fusable_chains(trace), costed_calls(trace)
    if not len(work) or not len(chains):
        nothing, ones = np.zeros(len(work), np.bool_), np.ones(len(work))
        return ChainsOfRank(np.empty(0, np.int64), nothing, nothing, nothing, ones, ones, 0, 0.0, 0.0, "", -1)
    first = chains.calls[chains.offsets[:-1]]
    time = chains.sums(call_times(trace)[chains.calls].astype(np.float64))
    others = np.zeros(len(costed) + 1)
    others[costed.call[logits_in_fp32(trace).work]] = 1  # DEVICE008's
    selected = rank.scope.host_mask[costed.rows[first]] & (time > 0) & (chains.sums(others[chains.calls]) == 0)
    places = np.flatnonzero(selected)
    chain = scattered(len(costed) + 1, chains.calls, np.where(selected[chains.chain], chains.chain, -1), np.int64)
    of_work = chain[costed.call]
    begins = marked(len(costed) + 1, first)
    least, most = chains.saved_times(call_times(trace)[chains.calls].astype(np.float64))
    kernel = np.zeros(len(chains), np.int64)
    pieces = np.flatnonzero(of_work >= 0)[::-1]
    kernel[of_work[pieces]] = pieces  # of several writes the last one stays: its first piece
    bandwidth = peak_rates(trace, work.device[kernel], ("memory",), np.zeros(len(chains), np.int64))
    floor = np.fmax(chains.left / bandwidth * 1e9, shortest_kernels(trace)[kernel])
    length = np.maximum(time, 1)
    is_sure = np.diff(chains.offsets) >= _MIN_SURE_CHAIN
    most_left = 1.0 - np.where(is_sure, least, 0.0) / length
    least_left = np.where(np.isnan(bandwidth), 1.0 - most / length, floor / length)
    least_left = np.clip(least_left, _MIN_SHARE_LEFT, most_left)
    row, name = -1, ""
    if len(places):
        variants = costed.variant[chains.calls]
        sequence, _ = distinct_sequences(chains.offsets, variants)
        alike = places[sequence[places] == np.bincount(sequence[places], most[places]).argmax()]
        top = int(alike[np.argmax(time[alike])])
        row = int(costed.rows[first[top]])
        members = variants[slice(*chains.offsets[top : top + 2])].tolist()
        name = " → ".join(costed.variants[place].name.removeprefix("aten::") for place in members)
    total = max(float(chains.sums(chains.bytes)[places].sum()), 1.0)
    return ChainsOfRank(
        places=places,
        work=of_work >= 0,
        first=(of_work >= 0) & begins[costed.call],
        sure=(of_work >= 0) & is_sure[of_work],
        left_least=least_left[of_work],
        left_most=most_left[of_work],
        time=int(time[places].sum()),
        saved_least=float(chains.sums(chains.surely)[places].sum()) / total,
        saved_most=float(chains.sums(chains.saved)[places].sum()) / total,
        name=name,
        row=row,
    )
