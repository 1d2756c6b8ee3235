"""DATA009: copies that the host does not wait for run while nothing computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.evidence.copies_to_device import copies_to_device, running, selected
from kinetoscope.advisor.evidence.source_location import event_evidence
from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import share
from kinetoscope.algorithms.intervals.intervals import difference, intersection, union
from kinetoscope.model.trace.event_kinds import WorkKind
from kinetoscope.views.sentences import measured, say

_MIN_STEP_SHARE: Final = 0.05
"""Share of the step in which nothing computes beside such copies, from which on it is worth a word."""

_MIN_BYTES: Final = 1 << 20
"""Size from which on the time of a copy is that of its bytes."""

_CHANGE: Final = "\n".join(
    (
        "+ copies = torch.cuda.Stream()",
        "+ with torch.cuda.stream(copies): following = batch.to(device, non_blocking=True)  # during the step before",
        "+ torch.cuda.current_stream().wait_stream(copies)  # where it is needed",
    )
)


def exposed_copies_to_device(rank: RankView) -> Iterator[Finding]:
    """Does the device stand still while it is sent data that could come earlier?

    What it checks. Copies of 1 MiB and more that the host does not wait for, as it need not if its memory is pinned:
    when they run and no kernel does, on no stream of the rank. Together that must be a twentieth of the step.

    Why it matters. A stream does one thing after the other: what is copied in front of its kernels delays them by its
    whole length, whether the host waits or not. On a stream of its own a copy runs beside the kernels before it. At
    most, all of that time is hidden. None of it is sure: the trace does not show how early the data is there, nor
    whether the device has room for it.

    What to do. Copy the next batch, or the next layer's weights, on another stream during the work before. What is sent
    anew in each step without having changed, as weights that are kept on the host, stays on the device if it fits.
    """
    to_device = copies_to_device(rank.trace)
    large = (to_device.bytes >= _MIN_BYTES) & ~to_device.pageable  # ROCm does not say which memory it is
    returned = rank.trace.end[to_device.call] < rank.work.end[to_device.work]
    which = np.flatnonzero(selected(rank, to_device) & large & returned & (to_device.wait < 0))
    if not len(which):
        return
    computes = rank.work.kind == WorkKind.COMPUTATION
    kernels = union(rank.work.start[computes], rank.work.end[computes])
    gone = intersection(difference(running(rank, to_device, which), kernels), rank.time)
    if rank.per_step(gone.length) < _MIN_STEP_SHARE * rank.step:
        return
    factors = rank.factors()
    factors.work[to_device.work[which]] = 0.0
    gains = np.minimum(rank.gains(factors), rank.by_step(gone))
    place = to_device.work[which]
    longest = int(rank.work.rows[place[np.argmax(rank.work.end[place] - rank.work.start[place])]])
    size = int(to_device.bytes[which].sum())
    yield Finding(
        message=say(
            "Nothing computes while data is copied to the device, {whole} of each step ({part}). {copies} bring"
            " {size}.",
            whole=rank.time_per_step(gone.length),
            part=share(rank.per_step(gone.length), rank.step),
            copies=rank.each_step(len(which), "copy", "copies"),
            size=measured(rank.per_step(size), "bytes"),
        ),
        takes=rank.per_step(gone.length),
        stake=rank.stake(0.0 * gains, gains),
        change=_CHANGE,
        why=say("How early the data is there, and whether the device has room for it, the trace does not show."),
        confidence="medium",
        evidence=(event_evidence(rank, longest, "the longest of them", "memory_bandwidth"),),
        time=gone,
        factors=factors,
    )


RULE = Rule("DATA009", "Nothing computes while data is copied to the device", exposed_copies_to_device)
