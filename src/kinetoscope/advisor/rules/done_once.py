"""RECORDING003: what the host does once lies in the recorded steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import NO_PROGRAM, RankView, Rule
from kinetoscope.advisor.saving import saving
from kinetoscope.advisor.wording import joined, quoted, wording
from kinetoscope.algorithms.intervals.intervals import intersection, union
from kinetoscope.model.device.one_time import OneTimeKind, one_time_work
from kinetoscope.model.execution.call_tree import main_thread
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.views.sentences import measured, say

_WORDS: Final[dict[OneTimeKind, str]] = {
    OneTimeKind.LOADING: "code is loaded",
    OneTimeKind.COMPILING: "code is compiled",
    OneTimeKind.SETTING_UP: "operators are set up",
    OneTimeKind.PROFILING: "the profiler takes memory for its records",
}
"""What is done, as a sentence."""


def done_once(rank: RankView) -> Iterator[Finding]:
    """Do the steps hold what a program does once?

    What it checks. Calls of the selected steps that do something once, while no device works: launches of 1 ms and more
    that are the first of their kernel and ten times as long as the usual one, other calls of the runtime likewise, what
    the driver or CUPTI name as loading, CUPTI's requests for memory of its own, and operators with 5 ms and more of
    their own that are the first of their name. In a recording that is mostly a warm-up the compiler of torch.compile,
    too.

    Why it matters. The first launch of a kernel loads its code, the first convolution tries algorithms, the first use
    of a library opens it: that takes tenths of a second, and no later step has it. An average step with it is no
    average step. At stake is what the recorded steps gain without it, of which nine tenths are the lower end; other
    findings do not count this time again.

    What to do. Run some steps before the recording begins: `schedule(wait=1, warmup=3, active=5)`.
    """
    once = one_time_work(rank.trace)
    chosen = rank.scope.host_mask[once.rows]
    if "warm-up" not in rank.recorded:
        chosen &= once.kind != OneTimeKind.COMPILING  # HOST007 has it
    rows = once.rows[chosen]
    time = intersection(intersection(once.time, rank.spans(rows)), rank.time)
    if not len(rows) or not time.length:
        return
    trace, factors = rank.trace, rank.factors()
    own = trace.kind[rows] == EventKind.OVERHEAD  # on a lane of CUPTI's, in calls of a host thread
    tracks = np.where(own, main_thread(trace), trace.track[rows])
    for track in np.unique(tracks).tolist():
        factors.cut[track] = intersection(time, rank.spans(rows[tracks == track]))
    launched = np.isin(rank.work.launch, rows)  # it waits for the launch alone
    factors.delay[launched] = factors.gap[launched] = 0.0
    gains = np.minimum(rank.gains(factors), rank.by_step(time))
    saved = saving(rank, _CERTAIN_SHARE, gains, time, factors=factors, as_recorded=True)
    if saved is None:
        return
    longest = rank.longest(rows)
    took = union(trace.start[[longest]], trace.end[[longest]]).length
    steps = "the window" if rank.scope.steps.origin == "window" else "an average step"
    yield saved.finding(
        message=say(
            "{what} in the recorded steps, once. {count} {calls} {take} {time} of {steps}, the longest ({name})"
            " {longest}.",
            what=joined([_WORDS[kind] for kind in once.kinds(trace, chosen)]),
            count=measured(len(rows)),
            calls="call" if len(rows) == 1 else "calls",
            take="takes" if len(rows) == 1 else "take",
            time=saved.per_step,
            steps=steps,
            name=quoted(trace.strings.label(int(trace.name[longest]))),
            longest=measured(took, "ns"),
        ).capitalized(),
        change=wording(rank.program).steps,
        why=say("Later steps do not have it: warm up before you measure."),
        evidence=rank.event(longest, "the longest of these calls", "step_breakdown"),
        at_most="warning",
        overlap_priority=-1,
    )


_CERTAIN_SHARE: Final = 0.9
"""Certain share of the gain: a usual call of the name remains."""


RULE = Rule(
    "RECORDING003",
    "What happens once is in the recorded steps",
    done_once,
    unfit=NO_PROGRAM - {"warm-up"},
    needs="steps",
)
