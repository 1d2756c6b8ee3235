"""The two sentences of the summary: where the step goes, and the largest loss with what makes it smaller.

The words are the same for all runs; the rules of `advise` look closer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kinetoscope.views.numbers import shown

_SMALL = 0.05  # a loss under this share of the step is not worth advice


class Share(Protocol):
    """A kind of time, its words, and nanoseconds of the average step."""

    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def label(self) -> str: ...  # noqa: D102
    @property
    def time(self) -> float: ...  # noqa: D102


_DEVICE = {
    "communication": "collectives that no computation hides. Overlap them with the backward pass, send less, or see"
    " which rank the others wait for.",
    "memory": "copies that no computation hides. Pin host memory and copy with non_blocking=True, or leave data on the"
    " device.",
    "runtime": "the host launches work or waits for the device, which runs nothing meanwhile. Fewer and larger kernels"
    " (torch.compile, CUDA graphs) and fewer synchronizations (.item(), .cpu()) shorten it.",
    "data_loading": "the device waits for the next batch. More loader workers, or less work for each sample, shorten"
    " it.",
    "host": "the host runs operators while the device has nothing to do. Larger batches, torch.compile or CUDA graphs"
    " let it run ahead.",
    "idle": "nothing was recorded then: Python between operators, or waiting. Record with_stack=True to see where.",
}

_HOST = _DEVICE | {
    "communication": "the host waits in collectives. See which rank the others wait for, or overlap them.",
    "data_loading": "the step waits for the next batch. More loader workers, or less work for each sample, shorten it.",
    "runtime": "the host is in calls of a device's runtime, but no work of a device was recorded.",
}


def headline(parts: Sequence[Share], *, ranks: int, device: bool, marked: bool) -> str:
    """Where the average step goes, in one sentence."""
    total = sum(part.time for part in parts)
    if not total:
        return "There is no time to account for: the trace has neither steps nor work."
    step = f"A step takes {shown(total, 'ns')}" if marked else f"The whole window of {shown(total, 'ns')} is one step"
    across = f" on average over {ranks} ranks" if ranks > 1 else ""
    if not device:
        return f"{step}{across}; no device work was recorded, so this is the host's time."
    computing = next((part.time for part in parts if part.kind == "computation"), 0.0) / total
    return f"{step}{across}, and the device computes for {shown(computing, 'fraction')} of it."


def advice(parts: Sequence[Share], *, device: bool, gap: float = 0.0) -> str:
    """The largest loss, and what makes it smaller.

    Args:
        parts: the average step.
        device: whether device work was recorded; if not, the operators of the host are the work itself.
        gap: nanoseconds a step that look like waiting for data, beside the parts.
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
    why = (_DEVICE if device else _HOST)[largest.kind]
    time, share = shown(largest.time, "ns"), shown(largest.time / total, "fraction")
    found = f"The largest loss is {largest.label}, {time} ({share}): {why}"
    if gap > _SMALL * total and largest.kind != "data_loading":
        found += f" A gap of {shown(gap, 'ns')} before the forward pass looks like waiting for data."
    return found
