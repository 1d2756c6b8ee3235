"""RECORDING001: the recording shows no steady steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView, Rule
from kinetoscope.advisor.wording import counted, joined, wording
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.trace.recording import of_other_program, recording
from kinetoscope.views.sentences import say

_MIN_STEPS: Final = 3
"""Steps from which on their variation shows."""

_LIMITS: Final = {
    "MB of memory": "--max-memory 4GB",
    "more than": "--max-events 0",
    "the longest before it": "--max-step 0",
}
"""Options of `kinetoscope record` that move the limit at which a window ended, by words of its reason."""

_RANGES: Final = """+ torch.cuda.nvtx.range_push("step")  # in each iteration; then --steps-by step
+ ...
+ torch.cuda.nvtx.range_pop()"""
"""How steps are marked for a profiler of devices."""

_ARGUMENTS: Final = {
    "MB of memory": "max_memory=4_000_000_000",
    "more than": "max_events=0",
    "the longest before it": "max_step=0",
}
"""The same of `kinetoscope.profile`."""


def recording_without_steps(rank: RankView) -> Iterator[Finding]:
    """Does the recording hold a few complete steps after the warm-up?

    What it checks. Whether steps are marked, whether three or more remain after the warm-up, and whether the recording,
    its file and the device's records of what was launched are complete.

    Why it matters. All findings are about an average step. Without marks the whole recording counts as one step,
    including everything that happens only once; one or two steps do not show what is usual, and the times at stake are
    only as good as that. No time is at stake: it is a note.

    What to do. Call `prof.step()` at the end of each iteration, and record five steps or so after a few that warm up.
    Where a limit of the recorder ended it, move that one: `--max-memory`, `--max-events` or `--max-step`.
    """
    trace = rank.trace
    steps = rank.scope.steps
    lacks: list[str] = []
    known = recording(trace)
    if known is not None and known.truncated:
        lacks.append("it was ended early")
    elif not rank.is_complete and not rank.lost_launches:
        lacks.append("its file is not whole")
    if rank.lost_launches:
        what = counted(rank.lost_launches, "launch", "launches")
        lacks.append(say("the device's records of {what} were lost, so that devices seem idle", what=what))
    if steps.origin == "window":
        lacks.append("no steps are marked, so that all of it counts as one")
    elif rank.step_count < _MIN_STEPS and rank.select.time is None:
        lacks.append(say("only {steps} can be looked at", steps=counted(rank.step_count, "step")))
    if not lacks or not (call_tree(trace).member.any() or rank.has_device):
        return
    yield Finding(
        message=say("The recording says little about an average step: {lacks}.", lacks=joined(lacks)),
        change=_change(rank),
        why=say("No time is at stake, but all other findings are less sure."),
    )


def _change(rank: RankView) -> str:
    """More steps where there are some; else how they are marked."""
    known = recording(rank.trace)
    if known is not None and known.reason == "schedule":
        limit = next((option for words, option in _LIMITS.items() if words in known.truncated), "--active 10")
        return f"- kinetoscope record -- ...\n+ kinetoscope record {limit} -- ..."
    if known is not None and known.reason == "profile":
        raised = [option for words, option in _ARGUMENTS.items() if words in known.truncated]
        if raised:
            return f"- with kinetoscope.profile(...) as prof:\n+ with kinetoscope.profile(..., {raised[0]}) as prof:"
    if of_other_program(rank.trace):
        return _RANGES
    if rank.scope.steps.origin == "profiler":
        return "+ with profile(schedule=schedule(wait=1, warmup=3, active=5), ...) as prof:  # more active steps"
    return wording(rank.program).steps


RULE = Rule(
    "RECORDING001",
    "The recording shows no steady steps",
    recording_without_steps,
    unfit=frozenset({"graph capture", "autograd profiler", "collectives only", "sums only"}),
)
