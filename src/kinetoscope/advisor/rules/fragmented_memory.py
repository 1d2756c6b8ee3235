"""MEMORY004: the allocator holds much more memory than is in use, and it is scarce."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kinetoscope.advisor.evidence.memory import allocator_calls, in_steady_state, memory_use
from kinetoscope.advisor.evidence.source_location import event_evidence
from kinetoscope.advisor.finding import NO_STAKE, Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import share
from kinetoscope.views.numbers import shown

_HELD: Final = 0.3
"""Share of what the allocator holds that is not in use at the peak, from which on it counts as fragmented."""

_SCARCE: Final = 0.7
"""Share of a device's memory that the allocator holds, from which on that matters."""


def fragmented_memory(rank: RankView) -> Iterator[Finding]:
    """Does the allocator hold much more memory than is in use at the peak?

    What it checks. The memory that the allocator had reserved on each device when most was allocated. The rule reports
    it if three tenths of it or more were not in use, and the allocator holds seven tenths of the device's memory or
    still asks the driver for more in each step. Then there are free blocks, but they are too small or in the wrong
    place.

    Why it matters. Memory runs out although there is enough of it, or the batch is smaller than it could be. No time is
    at stake, so it is a note; MEMORY003 counts the time of the allocator's calls.

    What to do. Let segments grow, and use few different input sizes.
    """
    calling = bool(len(in_steady_state(rank, allocator_calls(rank.trace))))
    for use in memory_use(rank):
        unused = use.reserved - use.peak
        scarce = use.total > 0 and use.reserved >= _SCARCE * use.total
        if use.reserved <= 0 or unused < _HELD * use.reserved or not (scarce or calling):
            continue
        of = f" of {shown(use.total, 'bytes')}" if use.total else ""
        yield Finding(
            message="The allocator holds much more memory than is in use. It holds"
            f" {shown(use.reserved, 'bytes')}{of} on {use.device} at the peak, and"
            f" {shown(unused, 'bytes')} of it ({share(unused, use.reserved)}) are unused.",
            stake=NO_STAKE,
            change="+ PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  # in the environment",
            why="No time is at stake, but memory for a larger batch.",
            confidence="medium",
            evidence=(event_evidence(rank, use.row, "the peak of allocated memory", "memory_curve"),),
            key=use.device,
            at_most="note",
        )


RULE = Rule("MEMORY004", "Memory is fragmented", of_rank=fragmented_memory)
