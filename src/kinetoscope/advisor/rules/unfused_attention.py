"""DEVICE005: attention without a fused kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.source_location import in_source, launched_in, user_source_of
from kinetoscope.advisor.evidence.stakes import (
    is_worth_reporting,
    leave_only,
    shows_computation,
    stake_by_time,
    unblocked_launches,
)
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, intersection, merge, union
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.operators.unfused_attention import Attention
from kinetoscope.model.operators.unfused_attention import unfused_attention as find

_MAX_TIME_LEFT: Final = (0.1, 0.85)
_MIN_TIME_LEFT: Final = (0.0, 0.4)
"""Share that is left, at most and at least, of the time between the products, and of the products themselves."""


_FUSED_CHANGE: Final = (
    "- y = softmax(q @ k.transpose(-2, -1) / scale + mask, -1) @ v\n"
    "+ y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)"
)

_FITTING_CHANGE: Final = "+ with sdpa_kernel(SDPBackend.FLASH_ATTENTION): ...  # it says why no fused kernel fits"


def unfused_attention(rank: RankView) -> Iterator[Finding]:
    """Is attention computed operator by operator?

    What it checks. A batched product, a soft-max of its result, and a batched product with the soft-max, one after
    another on a thread, with matching sizes where they were recorded.

    Why it matters. The scores are length × length numbers for each head: written, scaled, masked, soft-maxed, dropped
    out and read again, in a kernel each. A fused kernel keeps them on chip. At most, everything between the products
    goes, forward and backward, and the products take four tenths of their time, as they need not write and read the
    scores. Sure is the gain if a tenth of the time between them remains and 85 % of the products' time.

    What to do. Call `scaled_dot_product_attention`, or choose that implementation of the model
    (`attn_implementation="sdpa"`). Where torch's own attention falls back to this, its mask, types or sizes do not fit
    the fused kernels; as that may be on purpose, it is only a note.
    """
    if not shows_computation(rank):
        return
    trace, unfused = rank.trace, find(rank.trace)
    chosen = np.flatnonzero(rank.scope.host_mask[unfused.softmax])
    if not len(chosen):
        return
    time = _time(rank, unfused)
    low, high = (rank.gains(_factors(rank, unfused, left)) for left in (_MAX_TIME_LEFT, _MIN_TIME_LEFT))
    stake = stake_by_time(rank, low, high, time)
    if not is_worth_reporting(rank, stake):
        return
    first, last = unfused.first[chosen], unfused.last[chosen]
    spans = Intervals(trace.start[first], trace.end[last])
    softmax = int(unfused.softmax[chosen[np.argmax(spans.end - spans.start)]])
    where = user_source_of(trace, softmax)
    is_torchs = unfused.math * 2 > len(unfused.softmax)
    fallback = " (torch's own attention finds no fused kernel that fits)" if is_torchs else ""
    yield Finding(
        message=f"Attention runs operator by operator{fallback}{in_source(where)}. It runs"
        f" {rank.each_step(len(chosen), 'time')}, with {rank.time_per_step(time.length)} of each step"
        " between its two products.",
        stake=stake,
        change=_FITTING_CHANGE if is_torchs else _FUSED_CHANGE,
        why="At most, the time between the products goes, and they take four tenths of theirs; sure is the gain if a"
        " tenth of the time between them remains, and 85 % of theirs.",
        confidence="medium",
        evidence=(rank.longest_of(spans, "the longest of them", "operators", softmax, where),),
        time=time,
        at_most="note" if is_torchs else "critical",
    )  # fmt: skip


def _factors(rank: RankView, unfused: Attention, left: tuple[float, float]) -> Factors:
    factors = unblocked_launches(rank)
    factors.host[unfused.between] = left[0]
    if rank.has_device:
        factors.work[launched_in(rank.trace, unfused.products)] = left[1]
        leave_only(factors, launched_in(rank.trace, unfused.between), left[0])
    else:
        factors.host[unfused.products] = left[1]
    return factors


def _time(rank: RankView, unfused: Attention) -> Intervals:
    """What lies between the products: on the device, else on the host."""
    if not rank.has_device:
        return intersection(rank.spans(_rows(rank, unfused)), rank.time)
    work = launched_in(rank.trace, unfused.between)
    kernels = union(rank.work.start[work], rank.work.end[work])
    return intersection(merge(kernels, rank.exposed(rank.spans(_rows(rank, unfused)))), rank.time)


def _rows(rank: RankView, unfused: Attention) -> Int64s:
    return np.flatnonzero(unfused.between & rank.scope.host_mask)


RULE = Rule("DEVICE005", "Attention has no fused kernel", of_rank=unfused_attention)
