"""MEMORY011: activations of layers take most of the peak, and checkpointing would free them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.advisor.evidence.peak_owners import device_number, peak_owners
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import quoted, share
from kinetoscope.model.execution.autograd import in_backward
from kinetoscope.model.execution.optimizers import optimizer_steps, zero_grads
from kinetoscope.model.snapshot.forward_only import kept_graph
from kinetoscope.model.snapshot.of_trace import snapshot_of
from kinetoscope.model.snapshot.sites import BACKWARD, RECOMPUTATION, stack_sites
from kinetoscope.views.sentences import EMPTY, Sentence, cell, measured, say

_WHY: Final = (
    "No time is gained. With checkpointing one layer at a time has its activations, and each its input, counted as"
    " large as most of its activations are."
)
_NO_BACKWARD: Final = "The history has no backward pass: if none follows, `torch.inference_mode()` frees all of it."

_MIN_SHARE: Final = 0.3
"""Share of the peak that checkpointing has to free to be reported."""


def activations_of_layers(rank: RankView) -> Iterator[Finding]:
    """Would activation checkpointing free much of the memory?

    What it checks. Activations at the peak of a memory snapshot that several layers hold alike: `repeats` × `each` of
    `memory_peak` by use. Of n layers, checkpointing keeps the activations of one, and the input of each, which is taken
    to be as large as most of its activations are. It reports three tenths of the peak or more, unless layers are
    checkpointed already, or the device is known to have much memory left.

    Why it matters. What a layer keeps for the backward pass grows with the batch and the length of sequences. Computed
    again, it costs the forward pass of these layers a second time: with a trace of the run, at most the time of all
    device work of the forward pass is named. No time is gained, so it is a note.

    What to do. Checkpoint the layers, or only some of them, or only attention.
    """
    if snapshot_of(rank.trace) is None or ((sites := stack_sites(rank.trace)).marks & RECOMPUTATION).any():
        return
    has_backward = bool((sites.marks & BACKWARD).any()) or not sites.has_cpp
    for peak in peak_owners(rank):
        uses = peak.uses.filter((pl.col("use") == "activation") & (pl.col("repeats") > 1))
        if not len(uses) or kept_graph(rank.trace, device_number(peak.device)) is not None:
            continue  # MEMORY014 says how all of it goes
        count, each, line = uses.select("repeats", "each", "line").row(0)
        held, inputs = count * each, count * _input(peak.stacks, count)
        freed = held - each - inputs
        if freed < _MIN_SHARE * peak.size:
            continue
        here = {"device": peak.device, "use": "activation"}
        repeats, size = (cell(peak.answer, name, **here) for name in ("repeats", "each"))
        yield Finding(
            message=say(
                "Activations of {repeats} layers alike{where} take {held} of the {peak} in use at the peak of {device}"
                " ({part}), {each} each. Checkpointing frees about {freed} of it.{cost}",
                repeats=repeats,
                where=say(" ({line})", line=quoted(line)) if line else EMPTY,
                held=measured(held, "bytes"),
                peak=peak.quantity(),
                device=quoted(peak.device),
                part=share(held, peak.size),
                each=size,
                freed=measured(freed, "bytes"),
                cost=_forward_time(rank),
            ),
            change="- x = layer(x)\n+ x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)",
            why=_WHY if has_backward else f"{_WHY} {_NO_BACKWARD}",
            confidence="medium",
            evidence=(peak.evidence("the lines that took it", "line"),),
            key=peak.device,
        )


def _input(stacks: pl.DataFrame, count: int) -> int:
    """Bytes of a layer's input: of the size that most of the activations have that layers alike hold."""
    layers = stacks.filter((pl.col("use") == "activation") & (pl.col("repeats") >= count))
    sizes = layers.group_by(size=pl.col("size") // pl.col("blocks")).agg(pl.col("blocks").sum())
    return int(sizes.sort("blocks", "size", descending=True).get_column("size").first() or 0)  # type: ignore[arg-type]


def _forward_time(rank: RankView) -> Sentence:
    """The time of the device's work of the forward pass in a step and its share; "" without a trace of it."""
    if not rank.has_device or not rank.step_count:
        return EMPTY
    trace, work = rank.trace, rank.work
    others = in_backward(trace) | optimizer_steps(trace).inside | zero_grads(trace).inside
    forward = rank.scope.device_work_mask & (work.launch >= 0) & ~others[np.maximum(work.launch, 0)]
    busy = rank.work_time(forward)
    if not busy.length:
        return EMPTY
    return say(
        " Computing them again takes up to {time} a step ({part} of it).",
        time=rank.time_per_step(busy.length),
        part=share(busy.length, rank.time.length),
    )


RULE = Rule("MEMORY011", "Activations that checkpointing would free", activations_of_layers, unfit=frozenset())
