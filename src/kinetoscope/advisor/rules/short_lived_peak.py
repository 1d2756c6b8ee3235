"""MEMORY012: what is there for a moment makes the peak: logits and their loss, or temporaries of the optimizer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kinetoscope.advisor.evidence.peak_owners import PeakOwners, peak_owners
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import counted, quoted, share
from kinetoscope.views.sentences import EMPTY, measured, say

_MIN_SHARE: Final = 0.15
"""Share of the peak from which on it is reported."""

_LOSS: Final = r"cross_entropy|log_softmax|nll_loss|LogSoftmaxBackward|NllLossBackward|CrossEntropy"
"""Functions and nodes of a loss over a vocabulary, in the frames of a stack."""

_OPTIMIZER: Final = r"torch/optim/"


def short_lived_peak(rank: RankView) -> Iterator[Finding]:
    """Do logits, or temporaries of the optimizer, make the peak?

    What it checks. Memory in use at the peak of a snapshot that a loss over classes took (`cross_entropy`,
    `log_softmax`, their backward pass), with activations and temporaries of the same size a block: the logits and their
    gradients; and what the optimizer takes and returns within its step. Each is reported from 15 % of the peak on,
    unless the device is known to have much memory left.

    Why it matters. The peak decides what fits. Tokens × vocabulary values are there several times at once, in FP32, and
    a multi-tensor optimizer makes intermediate results of all parameters at once; both are needed for a moment only. No
    time is at stake, so it is a note.

    What to do. Compute the loss in pieces, or with one fused kernel (Liger); take the optimizer's fused kernel.
    """
    for peak in peak_owners(rank):
        yield from _of_loss(peak)
        yield from _of_optimizer(peak)


def _of_loss(peak: PeakOwners) -> Iterator[Finding]:
    held = peak.stacks.filter(pl.col("use").is_in(["activation", "temporary"])).with_columns(
        each=pl.col("size") // pl.col("blocks"), is_loss=pl.col("stack").fill_null("").str.contains(_LOSS)
    )
    loss = held.filter("is_loss")
    each = max(loss["each"].to_list(), default=0)
    alike = held.filter(pl.col("is_loss") | pl.col("each").is_in([each, each // 2, 2 * each]))
    size, blocks = (int(alike.get_column(name).sum()) for name in ("size", "blocks"))
    if not len(loss) or size < _MIN_SHARE * peak.size:
        return
    line = next((line for line in loss.get_column("line").to_list() if line), None)
    yield Finding(
        message=say(
            "The logits and their loss{where} take {size} of the {peak} in use at the peak of {device} ({part}), in"
            " {blocks} of up to {each}.",
            where=say(" ({line})", line=quoted(line)) if line else EMPTY,
            size=measured(size, "bytes"),
            peak=peak.quantity(),
            device=quoted(peak.device),
            part=share(size, peak.size),
            blocks=counted(blocks, "block"),
            each=measured(each, "bytes"),
        ),
        change="- loss = F.cross_entropy(model(x).float(), y)\n"
        "+ loss = LigerFusedLinearCrossEntropyLoss()(weight, hidden, y)  # or in pieces of the tokens",
        why="No time is at stake. A fused loss keeps no logits: it makes them in pieces, and their gradient with them.",
        confidence="medium",
        evidence=(peak.evidence("the stacks that took it", "stack"),),
        key=f"{peak.device} loss",
    )


def _of_optimizer(peak: PeakOwners) -> Iterator[Finding]:
    held = peak.stacks.filter((pl.col("use") == "temporary") & pl.col("stack").fill_null("").str.contains(_OPTIMIZER))
    size = int(held.get_column("size").sum())
    if size < _MIN_SHARE * peak.size:
        return
    yield Finding(
        message=say(
            "Temporaries of the optimizer make the peak of {device}. They take {size} of the {peak} in use ({part}),"
            " and are gone after its step.",
            device=quoted(peak.device),
            size=measured(size, "bytes"),
            peak=peak.quantity(),
            part=share(size, peak.size),
        ),
        change="- optimizer = torch.optim.AdamW(parameters)\n+ optimizer = torch.optim.AdamW(parameters, fused=True)",
        why="No time is at stake. The fused kernel keeps intermediate results on the chip.",
        confidence="high",
        evidence=(peak.evidence("the stacks that took it", "stack"),),
        key=f"{peak.device} optimizer",
    )


RULE = Rule("MEMORY012", "Logits or temporaries that make the peak", short_lived_peak, unfit=frozenset())
