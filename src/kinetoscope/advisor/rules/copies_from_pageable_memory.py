"""DATA005: batches are copied to the device from memory that is not pinned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.copies_to_device import (
    QUEUED_BYTES,
    at_rate,
    copies_to_device,
    is_rate_shown,
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
from kinetoscope.views.sentences import measured, say

_CERTAIN_SHARE: Final = 0.9
"""Certain share of the gain at the rate of the slowest link: pinning costs the host some time."""


def copies_from_pageable_memory(rank: RankView) -> Iterator[Finding]:
    """Is data copied to the device from pageable memory?

    What it checks. Copies of 64 KiB and more from the host to a device whose name says that the host's memory was
    pageable: how fast they are, and how long the host blocks in their calls and in the synchronization behind them.

    Why it matters. A device can only read pinned memory. The driver copies other memory piece by piece into a pinned
    buffer first, which is several times slower, and the host blocks until that and all earlier work of the stream is
    done. At stake is the time that the steps gain if the host only queues these copies and they run at the speed of the
    link. That speed is taken from copies from pinned memory in the trace, else it is at most what the device's link
    allows and at least 11 GB/s (PCI Express 3.0). Nine tenths of the gain at the lower speed are the lower end.

    What to do. Let the loader pin its batches, which it does in a thread of its own, and copy them without blocking.
    """
    trace = rank.trace
    to_device = copies_to_device(trace)
    which = np.flatnonzero(
        selected(rank, to_device) & to_device.pageable & ((to_device.bytes >= QUEUED_BYTES) | (to_device.bytes < 0))
    )
    if not len(which):
        return
    place = to_device.work[which]
    took = rank.work.end[place] - rank.work.start[place]
    slow, fast = link_rate(rank, to_device)
    gains = []
    for rate in (slow, fast):
        factors = rank.factors()
        no_waiting(rank, factors, to_device, which)
        at_rate(rank, factors, to_device, which, rate)
        gains.append(rank.gains(factors))
    size, time = int(np.maximum(to_device.bytes[which], 0).sum()), int(took.sum())
    copying = running(rank, to_device, which)
    longest = int(rank.work.rows[place[np.argmax(took)]])
    call = int(to_device.call[which[np.argmax(took)]])
    waits = rank.exposed(waited(rank, to_device, which))
    gone = merge(intersection(copying, rank.time), waits)
    yield Finding(
        message=say(
            "Copies to the device come from pageable memory. {copies}: {size} in {took} ({rate}); with the host's"
            " waiting for them {whole}.",
            copies=rank.each_step(len(which), "copy", "copies"),
            size=measured(rank.per_step(size), "bytes"),
            took=rank.time_per_step(time),
            rate=measured(size * 1e9 / max(time, 1), "bytes/s"),
            whole=rank.time_per_step(gone.length),
        ),
        takes=rank.per_step(gone.length),
        stake=rank.stake(_CERTAIN_SHARE * gains[0], gains[1]),
        change=wording(rank.program).pinned,
        why=say(
            "The host does not wait for pinned copies. They are assumed to run at {slow} at least, and at {fast} at"
            " most.",
            slow=measured(slow * 1e9, "bytes/s"),
            fast=measured(fast * 1e9, "bytes/s"),
        ),
        confidence="high" if is_rate_shown(rank, to_device) else "medium",
        evidence=(
            event_evidence(rank, call, "the call of the longest of them", "memory_bandwidth"),
            event_evidence(rank, longest, "the longest of them"),
        ),
        time=gone,
        factors=factors,
    )


RULE = Rule("DATA005", "Copies from pageable memory", copies_from_pageable_memory)
