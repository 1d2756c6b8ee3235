"""RECORDING002: options were off whose answers would matter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import joined
from kinetoscope.model.device.hardware import devices
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.recording import of_other_program, recorded_options
from kinetoscope.views.sentences import say

_IDLE: Final = 0.1
"""Share of the steps in which the devices are idle from which on more would help."""


def recording_options(rank: RankView) -> Iterator[Finding]:
    """Which data does the recording lack, and which options record it?

    What it checks. Whether there is device work where there is a device, operators where there are calls of the
    runtime, and shapes of inputs. If devices are idle a tenth of the time or more, also memory and Python stacks, so
    that a larger batch and source lines would help: not of a server, which stacks slow and whose cache fills the memory
    on purpose, nor of a capture of graphs. No option brings back device work that the recorder or a damaged file lost.
    What another profiler does not record of torch is said by a note, and not here.

    Why it matters. Rules need data. Without shapes, operators of one name look alike, and there are no FLOPs;
    without memory events it is unknown whether a larger batch fits; without stacks findings have no source line. Stacks
    cost time, so record them separately. No time is at stake: it is a note.

    What to do. Switch on the missing options in the next recording.
    """
    lacks = list(_lacks(rank))
    if not lacks or of_other_program(rank.trace):
        return
    missing, options = [f"no {what}" for what, _ in lacks], [option for _, option in lacks]
    yield Finding(
        message=say("The recording holds {missing}.", missing=joined(missing)),
        change=f"- with profile(...) as prof:\n+ with profile(..., {', '.join(options)}) as prof:",
        why=say("No time is at stake, but rules that need this data report nothing."),
    )


def _lacks(rank: RankView) -> Iterator[tuple[str, str]]:
    trace, known = rank.trace, recorded_options(rank.trace)
    if "no operators" in rank.recorded:
        yield "operators", "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
        return
    if not len(trace.rows(EventKind.HOST_OP)):
        return
    if (
        not rank.has_device
        and rank.is_complete
        and "lost device work" not in rank.recorded
        and (devices(trace) or len(trace.rows(EventKind.RUNTIME)))
    ):
        yield "device work", "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]"
    if "record_shapes" not in known:
        yield "shapes of inputs", "record_shapes=True"
    if rank.program == "serving" or "graph capture" in rank.recorded:
        return
    idle = rank.has_device and rank.idle.length >= _IDLE * max(rank.time.length, 1)
    if idle and "profile_memory" not in known:
        yield "memory events", "profile_memory=True"
    if idle and "with_stack" not in known:
        yield "Python stacks", "with_stack=True"


RULE = Rule(
    "RECORDING002",
    "Options of the recording",
    recording_options,
    unfit=frozenset({"autograd profiler", "collectives only", "sums only"}),
)
