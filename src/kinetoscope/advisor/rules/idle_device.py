"""DEVICE006: the device is idle for reasons that no other rule knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from kinetoscope.advisor.finding import Finding, Stake
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import joined, share
from kinetoscope.schema import Result
from kinetoscope.views.sentences import Quantity, Sentence, say, total

_IDLE: Final = 0.1
"""Share of the step, under which a device is not idle."""

_REASONS: Final = 3
"""Reasons that are named."""


_WORDS: Final = {
    "profiler": "the profiler's own buffers take the host's time",
    "data loading": "the host loads data",
    "synchronizing call": "the host waits for the device",
    "allocating call": "the host allocates or frees memory",
    "graph capture": "the host captures a graph",
    "other runtime call": "the host is in other calls of the runtime",
    "host operator": "the host runs operators",
    "Python": "the host runs Python",
    "nothing recorded": "nothing was recorded of the host",
    "launch call": "the host is in launch calls",
    "launch to start": "what was launched starts late on an idle device",
    "launched just before": "launches have only just been made",
    "kernel to kernel": "pauses between kernels",
    "stream or event": "streams wait for each other, or for what is not in the trace",
}
"""Of the details of idle time: what goes on meanwhile."""


def idle_device(rank: RankView) -> Iterator[Finding]:
    """Is the device idle, and why?

    What it checks. The time of the selected steps in which every device of the rank is idle, if it is a tenth of them
    or more. Time that other findings count is left out.

    Why it matters. An idle device computes nothing. At stake is the idle time that no other rule explains. None of it
    is sure, as it is not known what would shorten it.

    What to do. Look at the reasons of the idle time, and at the timeline where it is longest. Record with stacks if the
    host is late for a reason that was not recorded.
    """
    if not rank.is_complete or rank.idle.length < _IDLE * rank.time.length:
        return
    idle = rank.ask("idle_breakdown")
    by_reason = (
        idle.frame.group_by("reason", "detail").agg(pl.col("time").sum()).sort(["time", "reason", "detail"],
                                                                         descending=[True, False, False])
    )  # fmt: skip
    whole = total(idle, "time")
    if not whole:
        return
    reasons = [
        say(
            "{words} ({part})",
            words=_WORDS.get(detail, f"{reason} ({detail})"),
            part=_share(total(idle, "time", reason=reason, detail=detail), whole),
        )
        for reason, detail, _ in by_reason.head(_REASONS).iter_rows()
    ]
    yield Finding(
        message=say(
            "The device is idle for reasons that no other finding counts. In all it is idle {part} of the step:"
            " {reasons}.",
            part=share(rank.idle.length, rank.time.length),
            reasons=joined(reasons),
        ),
        stake=Stake(0.0, rank.per_step(rank.idle.length)),
        takes=rank.per_step(rank.idle.length),
        why=_why(idle),
        confidence="low",
        evidence=(rank.longest_of(rank.idle, "the longest idle time", "idle_breakdown"),),
        time=rank.idle,
        overlap_priority=2,
    )


def _why(idle: Result) -> Sentence:
    first = idle.frame.group_by("detail").agg(pl.col("time").sum()).sort("time", "detail").get_column("detail")[-1]
    if first == "profiler":
        return say("A recording has this time, and the program has not: record some steps after a warm-up.")
    return say("The trace does not tell what would shorten it.")


def _share(part: Quantity, whole: Quantity) -> Quantity:
    """A part of the idle time as a whole percentage."""
    return (part / whole).words(str(share(float(part), float(whole))))


RULE = Rule("DEVICE006", "The device is idle", idle_device, needs="device")
