"""MEMORY008: the program empties the allocator's cache in its loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.finding import Evidence, Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import counted, quoted
from kinetoscope.algorithms.arrays import any_of
from kinetoscope.model.memory.allocator import CUDA, device_name
from kinetoscope.model.snapshot.releases import EMPTIED, releases
from kinetoscope.model.snapshot.replay import histories
from kinetoscope.model.snapshot.sites import stack_sites
from kinetoscope.model.snapshot.snapshot import GROWING
from kinetoscope.views.sentences import measured, say

_LOOP: Final = 3
"""Calls from one line from which on they count as made in a loop."""

_REALLOCATED: Final = 0.5
"""Share of what was freed that is allocated on the device again, from which on it was needed."""


def emptied_caches(rank: RankView) -> Iterator[Finding]:
    """Does the program empty the allocator's cache in its loop?

    What it checks. A memory snapshot records when unused segments go back to the device, and from which line. The rule
    reports a line that called `torch.cuda.empty_cache` three times or more, if half of what went back, or more, was
    allocated on the device again.

    Why it matters. `empty_cache` waits until the device is idle, and each segment that is needed again is a call of
    `cudaMalloc`. It frees no memory that the allocator itself could not use. A snapshot measures no time, so it is a
    note; MEMORY003 counts the time of the calls in a trace.

    What to do. Leave `empty_cache` out of the loop. Where it was to fight fragmentation, let segments grow.
    """
    trace = rank.trace
    for past in histories(trace):
        went, sites = releases(trace, past.device), stack_sites(trace)
        rows = went.of(EMPTIED)
        if not len(rows):
            continue
        events = past.events
        grown = np.where(any_of(events.action, GROWING), events.size, 0)
        frames = sites.user[events.stack[went.first[rows]]]
        for frame in np.unique(frames[frames >= 0]).tolist():
            here = rows[frames == frame]
            back = int(went.size[here].sum())
            again = min(int(grown[went.last[here[0]] :].sum()), back)
            if len(here) < _LOOP or again < _REALLOCATED * back:
                continue
            name = device_name(CUDA, past.device)
            line = sites.line_of(frame)
            yield Finding(
                message=say(
                    "The allocator's cache is emptied in the loop. {line} calls it {times}: {back} of {device} were"
                    " freed, and {again} were reserved again.",
                    line=quoted(line),
                    times=counted(len(here), "time"),
                    back=measured(back, "bytes"),
                    device=quoted(name),
                    again=measured(again, "bytes"),
                ),
                change=f"- torch.cuda.empty_cache()  # {line}",
                why="A snapshot does not measure time: each call waits for the device, and what is needed again is"
                " allocated anew.",
                evidence=(Evidence("segments that come and go", "memory_curve"),),
                key=f"{name} {line}",
            )


RULE = Rule("MEMORY008", "The allocator's cache is emptied in the loop", emptied_caches, unfit=frozenset())
