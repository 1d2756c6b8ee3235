"""DATA007: the host waits for copies to the device that it need not wait for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.copies_to_device import (
    QUEUED_BYTES,
    at_rate,
    copies_to_device,
    link_rate,
    no_waiting,
    running,
    selected,
    waited,
)
from kinetoscope.advisor.evidence.source_location import event_evidence
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import wording
from kinetoscope.algorithms.intervals.intervals import intersection, merge
from kinetoscope.views.sentences import say

_CERTAIN_SHARE: Final = 0.85
"""Certain share of the gain: other host work may get in the way while a copy runs."""


def blocking_copies(rank: RankView) -> Iterator[Finding]:
    """Does the host wait for copies to the device?

    What it checks. Copies from the host to a device, from memory that the trace does not call pageable, where the call
    returns only when the copy is over, or the same operator synchronizes the stream right after it.

    Why it matters. The host blocks until the device has finished all earlier work and the copy. Meanwhile it launches
    nothing, so the device runs out of work. Copies from pinned memory need not block: the copy is queued like a kernel,
    and later work on the stream waits for it anyway. At stake is the time that the steps gain without this waiting; 85
    % of it are the lower end. Where the trace does not say whether memory was pinned (ROCm), large copies are assumed
    to run at the speed of the link, as for copies from pageable memory.

    What to do. Copy without blocking, from pinned memory.
    """
    to_device = copies_to_device(rank.trace)
    which = np.flatnonzero(selected(rank, to_device) & ~to_device.pageable & (to_device.wait >= 0))
    if not len(which):
        return
    unknown = which[~to_device.pinned[which] & (to_device.bytes[which] >= QUEUED_BYTES)]
    gains = []
    for rate in link_rate(rank, to_device):
        factors = rank.factors()
        no_waiting(rank, factors, to_device, which)
        at_rate(rank, factors, to_device, unknown, rate)
        gains.append(rank.gains(factors))
    if float(np.mean(gains[1])) <= 0:  # device work hides it
        return
    waits = waited(rank, to_device, which)
    longest = rank.longest(to_device.wait[which])
    pinned = bool(to_device.pinned[which].all())
    yield Finding(
        message=say(
            "The host waits for copies to the device{pinned}. {copies} {take} it {took} of each step.",
            pinned=" from pinned memory" if pinned else "",
            copies=rank.each_step(len(which), "copy", "copies"),
            take="takes" if len(which) == rank.step_count else "take",
            took=rank.time_per_step(waits.length),
        ),
        takes=rank.per_step(waits.length),
        stake=rank.stake(_CERTAIN_SHARE * gains[0], gains[1]),
        change=wording(rank.program).pinned
        if rank.program == "serving"
        else "- batch = batch.to(device)\n+ batch = batch.to(device, non_blocking=True)"
        + ("" if pinned else "  # with pin_memory=True in the loader"),
        why=say(
            "The host only queues these copies{then}.",
            then=", which then run at the speed of the link" if len(unknown) else "",
        ),
        confidence="high" if pinned else "medium",
        evidence=(event_evidence(rank, int(longest), "the longest wait", "synchronizations"),),
        time=merge(rank.exposed(waits), intersection(running(rank, to_device, unknown), rank.time)),
        factors=factors,
    )


RULE = Rule("DATA007", "The host waits for copies to the device", blocking_copies)
