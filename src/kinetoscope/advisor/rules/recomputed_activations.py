"""MEMORY007: the backward pass computes activations again, though memory has room for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.limits import selected_units
from kinetoscope.advisor.evidence.memory import memory_use
from kinetoscope.advisor.evidence.source_location import in_source, user_evidence
from kinetoscope.advisor.evidence.stakes import bridged, without_calls
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.intervals.intervals import intersection, merge
from kinetoscope.model.execution.autograd import recomputed_ops
from kinetoscope.model.roofline.floors import floors
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.views.sentences import measured, say

_MAX_MEMORY_SHARE: Final = 0.9
"""Share of the memory that may be filled."""

_MIN_FITTING_SHARE: Final = 0.1
"""Share of the activations that has to fit."""

_KEPT_OUTPUTS: Final = 0.5
"""Least share of the recomputed results that autograd keeps: sums and copies, for example, need none of theirs."""

_CERTAIN_SHARE: Final = 0.9
"""Certain share of the gain of activations that fit."""


def recomputed_activations(rank: RankView) -> Iterator[Finding]:
    """Are activations computed again in the backward pass, though there is memory for them?

    What it checks. Operators of the forward pass that run again inside the backward pass, as activation checkpointing
    asks for; the results that they write in a step, by their shapes; and the room that the allocator leaves below 90 %
    of the device's memory.

    Why it matters. Checkpointing computes the forward pass twice to save memory, a quarter to a third more arithmetic.
    At stake is the time that the steps gain without the second time, by the share of the activations that fits: at
    least nine tenths of it if all results have to be kept, at most all of it if half of them have to. What it
    takes counts the short pauses between these kernels, in which the device is idle. Where memory was not recorded, or
    less than a tenth fits, nothing is reported. On a host nothing tells how much memory is free: there it is a guess.

    What to do. Checkpoint fewer layers, or only attention and what is cheap to compute (selective checkpointing).
    """
    if not rank.has_device:
        yield from _on_host(rank)
        return
    trace = rank.trace
    again = recomputed_ops(trace) & rank.scope.host_mask & (trace.kind == EventKind.HOST_OP)
    uses = [use for use in memory_use(rank) if use.total]
    needed = _written(rank)
    if not again.any() or not uses or not needed:
        return
    room = min(_MAX_MEMORY_SHARE * use.total - max(use.most_reserved, use.peak) for use in uses)
    fits = room / needed
    if fits < _MIN_FITTING_SHARE:
        return
    gains, busy, time, _, factors = without_calls(rank, again)
    took = intersection(bridged(busy), merge(intersection(busy, rank.time), rank.idle)).length
    sure, best = _CERTAIN_SHARE * min(fits, 1.0) * gains, min(fits / _KEPT_OUTPUTS, 1.0) * gains
    saved = saving(rank, sure, best, busy, took=took, goes=time, factors=factors)
    if saved is None:
        return
    shown = user_evidence(rank, int(np.flatnonzero(again)[0]), "the first operator that runs again", "flops")
    yield saved.finding(
        message=say(
            "Activations are computed again though memory has room{where}. The backward pass repeats {time} of the"
            " forward pass ({part} of the step) for up to {needed}; {room} are free.",
            where=in_source(shown),
            time=saved.per_step,
            part=saved.part,
            needed=measured(needed, "bytes"),
            room=measured(max(room, 0.0), "bytes"),
        ),
        change="- x = checkpoint(block, x)\n+ x = block(x)"
        + ("" if fits >= 1 else f"  # in {share(fits, 1.0)} of the layers"),
        why="Results that fit into memory need not be computed again; at least, that saves nine tenths of their time.",
        confidence="medium",
        evidence=shown,
    )


def _on_host(rank: RankView) -> Iterator[Finding]:
    """On a host: what it takes. Whether memory has room is not in the trace."""
    again = recomputed_ops(rank.trace) & rank.scope.host_mask & (rank.trace.kind == EventKind.HOST_OP)
    if not again.any():
        return
    gains, busy, time, took, factors = without_calls(rank, again)
    saved = saving(rank, 0.0, gains, busy, took=took, goes=time, factors=factors)
    if saved is None:
        return
    shown = user_evidence(rank, int(np.flatnonzero(again)[0]), "the first operator that runs again", "flops")
    yield saved.finding(
        message=say(
            "Activations are computed again{where}. The backward pass repeats {time} of the forward pass ({part} of the"
            " step).",
            where=in_source(shown),
            time=saved.per_step,
            part=saved.part,
        ),
        change="- x = checkpoint(block, x)\n+ x = block(x)  # as far as memory has room",
        why="Whether the machine has memory to keep them is not in the trace.",
        confidence="low",
        evidence=shown,
    )


def _written(rank: RankView) -> float:
    """Bytes that recomputed operators write in an average step."""
    limits = floors(rank.trace)
    sizes = [sum(each.bytes or 0 for each in variant.cost.outputs) for variant in limits.calls.variants]
    written = limits.calls.at(limits.call, sizes)
    chosen = selected_units(rank) & recomputed_ops(rank.trace)[limits.row]
    return rank.per_step(float(np.nansum(written[chosen])))


RULE = Rule(
    "MEMORY007",
    "Activations are computed again without need",
    recomputed_activations,
    needs="computation",
    programs=("training",),
)
