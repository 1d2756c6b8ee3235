"""DEVICE005: attention without a fused kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.limits import ATTENTION_REACHES, left
from kinetoscope.advisor.evidence.source_location import in_source, user_source_of
from kinetoscope.advisor.evidence.stakes import leave_only, unblocked_launches
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.algorithms.arrays import Floats, Int64s
from kinetoscope.algorithms.intervals.intervals import Intervals, intersection, merge
from kinetoscope.model.critical_path.what_if import Factors
from kinetoscope.model.execution.autograd import in_backward
from kinetoscope.model.execution.device_work import launched_by
from kinetoscope.model.operators.unfused_attention import Attention
from kinetoscope.model.operators.unfused_attention import unfused_attention as find
from kinetoscope.model.roofline.calls import Variant
from kinetoscope.model.roofline.floors import floors
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace
from kinetoscope.views.sentences import say

_MAX_TIME_LEFT: Final = (0.1, 0.85)
_MIN_TIME_LEFT: Final = (0.0, 0.4)
"""Share that is left, at most and at least, of the time between the products, and of the products themselves where
nothing tells how much they compute."""

_MAX_LEFT_ON_HOST: Final = (0.4, 1.0)
"""The same at most on a host, whose caches held some of the scores: fused attention took 20 to 36 % of a step less,
where a tenth and 85 % had promised 25 %."""

_MASKS: Final = re.compile(r"aten::(?:add|masked_fill|where|tril|triu|_masked_softmax)_?")
"""What a causal mask is made of; half of the scores need not be computed then."""

_BACKWARD: Final = 1.25
"""Operations of a fused backward pass for each of one in parts: the scores are computed again, a fifth product."""

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
    goes, forward and backward, and the products take their floor without the scores' traffic, of half of the scores
    where there is a mask. At least it is the gain if a tenth of the time between them remains, and the products reach a
    quarter of the peak: FlashAttention-2 reaches 35 % of an H100's (arXiv:2407.08608), 50 to 73 % of an A100's
    (arXiv:2307.08691), in the backward pass less. On a host, if four tenths of the time between them remain, and the
    products take as long.

    What to do. Call `scaled_dot_product_attention`, or choose that implementation of the model
    (`attn_implementation="sdpa"`). Where torch's own attention falls back to this, its mask, types or sizes do not fit
    the fused kernels; as that may be on purpose, it is only a note.
    """
    trace, unfused = rank.trace, find(rank.trace)
    chosen = np.flatnonzero(rank.scope.host_mask[unfused.softmax])
    if not len(chosen):
        return
    time = _time(rank, unfused)
    every = merge(time, _products(rank, unfused))
    low, high = (_factors(rank, unfused, surely=surely) for surely in (True, False))
    saved = saving(rank, low, high, time, took=every.length, goes=every)
    if saved is None:
        return
    first, last = unfused.first[chosen], unfused.last[chosen]
    spans = Intervals(trace.start[first], trace.end[last])
    softmax = int(unfused.softmax[chosen[np.argmax(spans.end - spans.start)]])
    where = user_source_of(trace, softmax)
    is_torchs = unfused.math * 2 > len(unfused.softmax)
    fallback = " (torch's own attention finds no fused kernel that fits)" if is_torchs else ""
    yield saved.finding(
        message=say(
            "Attention runs operator by operator{fallback}{where}. It runs {times}, with {between} of each step between"
            " its products, and {products} in them.{limit}",
            fallback=fallback,
            where=in_source(where),
            times=rank.each_step(len(chosen), "time"),
            between=rank.time_per_step(time.length),
            products=rank.time_per_step(every.length - time.length),
            limit=saved.limit(time.length) if rank.has_device else "",
        ),
        change=_FITTING_CHANGE if is_torchs else _FUSED_CHANGE,
        why=say(
            "At most, the time between the products goes, and they take their floor without the scores' traffic; at"
            " least, a tenth of the time between them remains, and they reach a quarter of the peak."
        )
        if rank.has_device
        else say(
            "At most, the time between the products goes, and most of theirs; at least, four tenths of the time between"
            " them remain, and the products take as long."
        ),
        confidence="medium",
        evidence=rank.longest_of(spans, "the longest of them", "operators", softmax, where),
        at_most="note" if is_torchs else "critical",
    )


def _factors(rank: RankView, unfused: Attention, *, surely: bool) -> Factors:
    factors = unblocked_launches(rank)
    surely_left = _MAX_TIME_LEFT if rank.has_device else _MAX_LEFT_ON_HOST
    between, products = surely_left if surely else _MIN_TIME_LEFT
    factors.host[unfused.between] = between
    if rank.has_device:
        work = launched_by(rank.trace, unfused.products)
        factors.work[work] = _left(rank.trace, unfused, products, surely=surely)[work]
        leave_only(factors, launched_by(rank.trace, unfused.between), between)
    else:
        factors.host[unfused.products] = products
    return factors


def _left(trace: Trace, unfused: Attention, otherwise: float, *, surely: bool) -> Floats:
    """The share of the time of each piece of work that is left if it is a part of fused attention: float64 [work]."""
    limits = floors(trace)
    apart = limits.calls.at(limits.call, [_beside_scores(trace, each) for each in limits.calls.variants])
    flop = np.where(in_backward(trace)[limits.row], _BACKWARD, 1.0) * limits.flop
    reaches = ATTENTION_REACHES if surely else 1.0
    if not surely and rows_named(trace, lambda name: bool(_MASKS.fullmatch(name)))[unfused.between].any():
        flop = flop / 2
    time = np.fmax(flop / (reaches * limits.peak), apart / limits.bandwidth) * 1e9
    is_known = (limits.flop > 0) & ~np.isnan(time)
    return left(limits, np.ones(len(limits), np.bool_), np.where(is_known, time, otherwise * limits.time))


def _beside_scores(trace: Trace, variant: Variant) -> float | None:
    """Bytes of the operands and the result of a batched product without the largest of them, the scores."""
    dims = trace.strings.nested(variant.shapes) if variant.shapes >= 0 and variant.type is not None else None
    tensors = [each for each in dims if isinstance(each, list) and len(each) == 3] if isinstance(dims, list) else []
    if len(tensors) < 2 or variant.bytes is None or variant.type is None:
        return None
    (batch, rows, inner), (_, _, columns) = tensors[-2:]
    scores = float(batch * max(rows * inner, inner * columns, rows * columns) * variant.type.bytes)
    return max(variant.bytes - scores, 0.0)


def _time(rank: RankView, unfused: Attention) -> Intervals:
    """The time between the products: on the device, else on the host."""
    if not rank.has_device:
        return intersection(rank.spans(_rows(rank, unfused)), rank.time)
    work = launched_by(rank.trace, unfused.between)
    kernels = rank.work_spans(work)
    return intersection(merge(kernels, rank.exposed(rank.spans(_rows(rank, unfused)))), rank.time)


def _products(rank: RankView, unfused: Attention) -> Intervals:
    """The time of the products: on the device, else on the host."""
    if not rank.has_device:
        return intersection(rank.spans(np.flatnonzero(unfused.products & rank.scope.host_mask)), rank.time)
    work = launched_by(rank.trace, unfused.products)
    return rank.work_time(work)


def _rows(rank: RankView, unfused: Attention) -> Int64s:
    return np.flatnonzero(unfused.between & rank.scope.host_mask)


RULE = Rule("DEVICE005", "Attention has no fused kernel", unfused_attention, needs="computation")
