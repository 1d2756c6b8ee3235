"""The two sentences of the summary: where the step goes, and its largest loss.

The words are the same for all runs; what to change is said by the rules of `advise`, which look closer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kinetoscope.views.numbers import shown

_SMALL = 0.05  # a loss under this share of the step is not worth a word


class Share(Protocol):
    """A kind of time, its words, and nanoseconds of the average step."""

    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def label(self) -> str: ...  # noqa: D102
    @property
    def time(self) -> float: ...  # noqa: D102


_DEVICE = {
    "communication": "no computation hides these collectives",
    "memory": "no computation hides these copies",
    "runtime": "the host launches work or waits for the device, which runs nothing meanwhile",
    "data_loading": "the device waits for the next batch",
    "host": "the host runs operators while the device has nothing to do",
    "idle": "nothing was recorded then; with_stack=True records Python",
}

_HOST = _DEVICE | {
    "communication": "the host waits in collectives",
    "data_loading": "the step waits for the next batch",
    "runtime": "the host is in calls of a device's runtime, but no work of a device was recorded",
}

_STACKS = {"idle": "the host runs Python outside of operators, or waits"}


def headline(parts: Sequence[Share], *, ranks: int, device: bool, marked: bool, before: bool = False) -> str:
    """Where the average step goes, in one sentence.

    Args:
        parts: the average step.
        ranks: how many ranks it is the mean of.
        device: whether device work was recorded.
        marked: whether there are steps, marked or proposed; if not, the whole window is one.
        before: whether work from before the recording was left out.
    """
    total = sum(part.time for part in parts)
    if not total:
        return "There is no time to account for: the trace has neither steps nor work."
    time = shown(total, "ns")
    if marked:
        step = f"A step takes {time}"
    elif before:
        step = f"After work from before the recording, the rest of {time} is one step"
    else:
        step = f"The whole window of {time} is one step"
    across = f" on average over {ranks} ranks" if ranks > 1 else ""
    if not device:
        return f"{step}{across}; no device work was recorded, so this is the host's time."
    computing = next((part.time for part in parts if part.kind == "computation"), 0.0) / total
    return f"{step}{across}, and the device computes for {shown(computing, 'fraction')} of it."


def largest_loss(parts: Sequence[Share], *, device: bool, stacks: bool = False) -> str:
    """The largest loss of the average step, and what it means.

    Args:
        parts: the average step.
        device: whether device work was recorded; if not, the operators of the host are the work itself.
        stacks: whether Python's calls were recorded.
    """
    total = sum(part.time for part in parts)
    work = "computation" if device else "host"
    losses = [part for part in parts if part.kind != work and (device or part.kind != "computation")]
    largest = max(losses, key=lambda part: part.time, default=None)
    if largest is None or not total:
        return ""
    if largest.time < _SMALL * total:
        what = "kernels" if device else "operators"
        return f"No loss is larger than {shown(_SMALL, 'fraction')}: only faster {what}, or less work, shorten it now."
    why = {**(_DEVICE if device else _HOST), **(_STACKS if stacks else {})}[largest.kind]
    time, share = shown(largest.time, "ns"), shown(largest.time / total, "fraction")
    return f"The largest loss is {largest.label}, {time} ({share}): {why}."
