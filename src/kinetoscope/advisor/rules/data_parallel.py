"""RANKS001: one process drives several devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.where import seen
from kinetoscope.advisor.finding import Claim
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, intersection, union
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.text import number_of
from kinetoscope.views.numbers import shown

_SPAN: Final = "DataParallel.forward"

_SURE: Final = 0.6
"""Of the time in which devices compute one after the other: what is surely gained by a process for each."""


def data_parallel(look: RankView) -> Iterator[Claim]:
    """Does one process drive several devices by DataParallel?

    What it checks. `DataParallel.forward` in the recording, and how long devices compute one after the other.

    Why it matters. The threads of one process share Python's lock, so devices are served in turn; each step copies the
    model to all devices, and gathers outputs and gradients on the first one. With a process for each device they
    compute at the same time, and gradients are reduced while the backward pass goes on. At stake is, at most, what the
    step takes longer than its busiest device computes; surely six tenths of the time in which only others compute.

    What to do. Use DistributedDataParallel, even on one machine.
    """
    rows = np.flatnonzero(
        rows_named(look.trace, lambda name: name == _SPAN, EventKind.ANNOTATION, EventKind.HOST_OP, holding=(_SPAN,))
        & look.view.host
    )
    if not len(rows):
        return
    computing = (look.work.kind == WorkKind.COMPUTATION) & look.view.work
    parts = [
        union(look.work.start[computing & on], look.work.end[computing & on])
        for device in np.unique(look.work.device[computing]).tolist()
        if (on := look.work.device == device).any()
    ]
    if len(parts) < 2:
        return
    busiest = max(parts, key=lambda each: intersection(each, look.inside).length)
    anyone = union(look.work.start[computing], look.work.end[computing])
    others = difference(anyone, busiest)
    rest: Intervals = difference(look.inside, busiest)
    longest = int(rows[np.argmax(look.trace.end[rows] - look.trace.start[rows])])
    yield Claim(
        message=f"One process drives {number_of(len(parts), 'device')} (DataParallel)."
        f" {shown(look.each_step(intersection(others, look.inside).length), 'ns')} of each step others compute while"
        " the busiest does not.",
        stake=look.stake(_SURE * look.sums(others), look.sums(rest)),
        change="- model = torch.nn.DataParallel(model)\n"
        "+ model = DistributedDataParallel(model, device_ids=[local_rank])  # torchrun --nproc-per-node=...",
        why="A step cannot be shorter than its busiest device computes; where only others compute, devices are served"
        " in turn, and six tenths of that count as sure.",
        confidence="medium",
        evidence=(seen(look, longest, "the longest forward pass", "step_breakdown"),),
        time=rest,
    )


RULE = Rule("RANKS001", "One process drives several devices", of_rank=data_parallel)
