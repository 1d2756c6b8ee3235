"""RANKS009: communication is exposed, and the other ranks are not here to say why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.source_location import event_evidence
from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.algorithms.intervals.intervals import difference, intersection, union
from kinetoscope.model.collectives.calls import base_of, computation, selected_calls
from kinetoscope.views.sentences import say

_MIN_STEP_SHARE: Final = 0.03
"""Share of a step that must be exposed."""


def communication_of_one_rank(rank: RankView) -> Iterator[Finding]:
    """Does this rank wait in collectives while the traces of the other ranks are missing?

    What it checks. Collectives of a rank that no computation of it hides, where its trace is the only one.

    Why it matters. Exposed communication is either transfer, which could be hidden or reduced, or waiting for a late
    rank, which only that rank can fix. One trace cannot tell which: at most all of it is at stake, and none of it is
    sure.

    What to do. Record all ranks, and ask for advice on the folder that holds their traces.
    """
    calls = selected_calls(rank.scope)
    if not len(calls):
        return
    base = base_of(rank.trace)
    spans = union(calls["start"].to_numpy() - base, calls["end"].to_numpy() - base)
    exposed = intersection(difference(spans, computation(rank.trace)), rank.time)
    sums = rank.by_step(exposed)
    if float(np.mean(sums)) < _MIN_STEP_SHARE * rank.step:
        return
    longest = int(calls["row"][calls["exposed"].arg_max() or 0])
    yield Finding(
        message=say(
            "Computation waits for collectives, for data or for a late rank. It waits {exposed} of each step, in"
            " {calls}; only the traces of all ranks show the cause.",
            exposed=rank.time_per_step(exposed.length),
            calls=rank.each_step(len(calls), "call"),
        ),
        stake=Stake(0.0, float(np.mean(sums))),
        takes=float(np.mean(sums)),
        change="+ kinetoscope advise FOLDER  # with the traces of all ranks",
        why="No computation of this rank hides these collectives; one rank cannot tell transfer from waiting.",
        confidence="medium",
        evidence=(event_evidence(rank, longest, "the longest exposed collective", "overlap"),),
        time=exposed,
        at_most="note",
        overlap_priority=1,
    )


RULE = Rule(
    "RANKS009",
    "A rank waits in collectives, and the others are not here",
    communication_of_one_rank,
    alone=True,
    needs="steps",
)
