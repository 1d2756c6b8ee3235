"""MEMORY002: the device's memory is nearly full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kinetoscope.advisor.evidence.memory import memory_use
from kinetoscope.advisor.evidence.source_location import event_evidence
from kinetoscope.advisor.finding import Evidence, Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import counted, quoted, share
from kinetoscope.model.memory.allocator import CUDA, device_name, out_of_memory
from kinetoscope.model.snapshot.releases import RETRY, releases
from kinetoscope.model.snapshot.replay import histories, level
from kinetoscope.model.snapshot.snapshot import OUT_OF_MEMORY
from kinetoscope.views.sentences import EMPTY, measured, say

_FULL_MEMORY_SHARE: Final = 0.9
"""Share of a device's memory in use from which on a slightly larger batch does not fit."""


def memory_near_the_limit(rank: RankView) -> Iterator[Finding]:
    """Is the device's memory nearly full?

    What it checks. The peak of allocated memory on each device against the device's memory; and whether the allocator
    reported that memory had run out. A memory snapshot tells it without the device's memory: how often the device had
    no more, so that the allocator freed what it did not use and asked again.

    Why it matters. From nine tenths on, the next longer sentence or a batch of another shape fails, or makes the
    allocator free all its reserve and ask the driver anew, which waits for the device each time. The reserve itself
    does not count: torch frees it when needed. No time is at stake, so it is a note. Serving engines fill the memory
    with their cache on purpose: for them only memory that ran out counts.

    What to do. Recompute activations instead of keeping them, or train in 16 bits, or with a smaller batch and
    accumulated gradients.
    """
    yield from _retries(rank)
    failed = out_of_memory(rank.trace)
    if rank.program == "serving" and not failed:  # engines fill it with their cache, on purpose
        return
    ran_out = say("; memory ran out {times}", times=counted(failed, "time")) if failed else EMPTY
    for use in memory_use(rank):
        if not use.total or (use.peak < _FULL_MEMORY_SHARE * use.total and not failed):
            continue
        yield Finding(
            message=say(
                "Device memory is nearly full. {peak} of {total} are in use on {device} at the peak ({part}){ran_out}.",
                peak=measured(use.peak, "bytes"),
                total=measured(use.total, "bytes"),
                device=quoted(use.device),
                part=share(use.peak, use.total),
                ran_out=ran_out,
            ),
            change=_CHECKPOINT if rank.program == "training" else "",
            why="No time is at stake, but the run: a slightly larger batch does not fit.",
            evidence=(event_evidence(rank, use.row, "the peak", "memory_peak"),),
            key=use.device,
        )


def _retries(rank: RankView) -> Iterator[Finding]:
    """Requests that a snapshot records for which the device had no more at first; those that failed are MEMORY009's."""
    for past in histories(rank.trace):
        went = releases(rank.trace, past.device)
        rows = went.of(RETRY)
        failures = int((past.events.action == OUT_OF_MEMORY).sum())
        if len(rows) <= failures:
            continue
        name = device_name(CUDA, past.device)
        peak = int(level(rank.trace, past.device, "active").max())
        yield Finding(
            message=say(
                "Device memory is nearly full. {times} {device} had no more for a request until the allocator had"
                " freed its cache, {cache} in all; {peak} are in use at the peak.",
                times=counted(len(rows) - failures, "time"),
                device=quoted(name),
                cache=measured(int(went.size[rows].sum()), "bytes"),
                peak=measured(peak, "bytes"),
            ),
            change=_CHECKPOINT if rank.program == "training" else "",
            why="A snapshot does not measure time: each of these requests waits until the device is idle.",
            evidence=(Evidence("the levels of memory", "memory_curve"),),
            key=name,
        )


_CHECKPOINT: Final = "- x = block(x)\n+ x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)"

RULE = Rule("MEMORY002", "Memory is nearly full", memory_near_the_limit, unfit=frozenset())
