"""RANKS001: one process drives several devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.source_location import event_evidence
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import counted
from kinetoscope.algorithms.intervals.intervals import Intervals, difference, intersection
from kinetoscope.model.trace.event_kinds import EventKind, WorkKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.views.sentences import say

_SPAN: Final = "DataParallel.forward"

_CERTAIN_SHARE: Final = 0.6
"""Certain share of the time in which devices compute one after the other."""


def data_parallel(rank: RankView) -> Iterator[Finding]:
    """Does one process drive several devices by DataParallel?

    What it checks. `DataParallel.forward` in the recording, and how long devices compute one after the other.

    Why it matters. The threads of one process share Python's lock, so devices are served in turn. Each step copies the
    model to all devices, and gathers outputs and gradients on the first one. With one process per device they compute
    at the same time, and gradients are reduced during the backward pass. At most, the step gains the time by which it
    is longer than its busiest device computes. Six tenths of the time in which only other devices compute are the lower
    end.

    What to do. Use DistributedDataParallel, even on one machine.
    """
    rows = np.flatnonzero(
        rows_named(rank.trace, lambda name: name == _SPAN, EventKind.ANNOTATION, EventKind.HOST_OP, holding=(_SPAN,))
        & rank.scope.host_mask
    )
    if not len(rows):
        return
    computing = (rank.work.kind == WorkKind.COMPUTATION) & rank.scope.device_work_mask
    parts = [
        rank.work_spans(computing & on)
        for device in np.unique(rank.work.device[computing]).tolist()
        if (on := rank.work.device == device).any()
    ]
    if len(parts) < 2:
        return
    busiest = max(parts, key=lambda each: intersection(each, rank.time).length)
    anyone = rank.work_spans(computing)
    others = difference(anyone, busiest)
    rest: Intervals = difference(rank.time, busiest)
    longest = rank.longest(rows)
    yield Finding(
        message=say(
            "One process drives {devices} (DataParallel). During {others} of each step other devices compute while the"
            " busiest one does not.",
            devices=counted(len(parts), "device"),
            others=rank.time_per_step(intersection(others, rank.time).length),
        ),
        takes=rank.per_step(rest.length),
        stake=rank.stake(_CERTAIN_SHARE * rank.by_step(others), rank.by_step(rest)),
        change="- model = torch.nn.DataParallel(model)\n"
        "+ model = DistributedDataParallel(model, device_ids=[local_rank])  # torchrun --nproc-per-node=...",
        why="A step cannot be shorter than its busiest device computes; of the time in which only others compute, six"
        " tenths are the lower end.",
        confidence="medium",
        evidence=(event_evidence(rank, longest, "the longest forward pass", "step_breakdown"),),
        time=rest,
    )


RULE = Rule("RANKS001", "One process drives several devices", data_parallel)
