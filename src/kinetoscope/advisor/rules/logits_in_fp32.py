"""DEVICE008: logits of a large vocabulary are made FP32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.logits import logits_in_fp32
from kinetoscope.advisor.evidence.source_location import in_source, user_evidence
from kinetoscope.advisor.evidence.stakes import leave_only, unblocked_launches
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import share
from kinetoscope.model.roofline.rates import peak_rates
from kinetoscope.views.sentences import measured, say

_LEFT_IN_16_BITS: Final = 0.55
"""Share of the time that operators on FP32 take at most if they read and write 16 bits."""

_BYTES_OF_FUSED_LOSS: Final = 4
"""What a loss that keeps the logits on the chip moves of each: it is read and its gradient written, 16 bits each."""


def logits_in_fp32_of_rank(rank: RankView) -> Iterator[Finding]:
    """Are the logits of a large vocabulary made FP32, though products compute in 16 bits?

    What it checks. The soft-max of a loss over 8,192 classes or more in FP32, whose input has the size of tensors that
    are cast from 16 bits; and all other operators on FP32 tensors of this size.

    Why it matters. Tokens × vocabulary is often the largest tensor of a language model. The cast writes it in FP32, the
    soft-max reads and writes it, the backward pass does so again, and casts it back. A compiled loss computes in FP32
    too, but reads 16 bits and stores nothing else. At least it is the gain if the casts go and the rest takes 55 % of
    its time, as with 16 bits. At most, one kernel reads the logits and writes their gradient, in 16 bits, at the
    bandwidth of the memory, as Liger's fused cross entropy nearly does.

    What to do. Compile the loss, or use a fused one.
    """
    trace, logits = rank.trace, logits_in_fp32(rank.trace)
    work = logits.work & rank.scope.device_work_mask
    rows = np.flatnonzero(logits.softmax & rank.scope.host_mask)
    if not work.any() or not len(rows):
        return
    took = rank.work.duration
    low, high = unblocked_launches(rank), unblocked_launches(rank)
    low.work[work] = _LEFT_IN_16_BITS
    leave_only(low, work & logits.casts, 0.0)
    device = rank.work.device[work][:1]
    [bandwidth] = peak_rates(trace, device, ("memory",), np.zeros(1, np.int64))
    floor = np.nan_to_num(_BYTES_OF_FUSED_LOSS * logits.elements * len(rows) / bandwidth * 1e9)
    high.work[work] = min(float(floor) / max(int(took[work].sum()), 1), _LEFT_IN_16_BITS)
    spans = rank.work_time(work)
    saved = saving(rank, low, high, spans)
    if saved is None:
        return
    shown = user_evidence(rank, rank.longest(rows), "the longest of these soft-maxes", "fusion")
    tokens = logits.elements // logits.vocabulary
    yield saved.finding(
        message=say(
            "Logits of {vocabulary} classes are made FP32 for the loss{where}. What reads and writes them takes {takes}"
            " of each step; those of {tokens} tokens are {size}.{limit}",
            vocabulary=measured(logits.vocabulary),
            where=in_source(shown),
            takes=saved.per_step,
            tokens=measured(tokens),
            size=measured(4 * logits.elements, "bytes"),
            limit=saved.limit(float((took * (1 - high.work))[work].sum())),
        ),
        change="- loss = F.cross_entropy(logits.float(), labels)  # autocast casts likewise\n"
        "+ loss_of = torch.compile(lambda x, y: F.cross_entropy(x.float(), y))  # once\n"
        "+ loss = loss_of(logits, labels)  # or LigerFusedLinearCrossEntropyLoss, which needs no logits",
        why=say(
            "At least the casts go, and the rest takes {remains} of its time; at most, the logits are read and their"
            " gradient is written once, in half precision, at the memory's bandwidth.",
            remains=share(_LEFT_IN_16_BITS, 1),
        ),
        confidence="medium",
        evidence=shown,
    )


RULE = Rule("DEVICE008", "Logits of a large vocabulary in FP32", logits_in_fp32_of_rank, needs="steps")
