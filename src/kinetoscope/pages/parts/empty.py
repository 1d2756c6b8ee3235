"""What a page says where nothing is to be shown: whether it is the selection that leaves nothing, or the recording."""

from __future__ import annotations

from kinetoscope.model.steps.selection import Selection
from kinetoscope.pages.parts.blocks import Link, Note

EVERYTHING = Link("Show everything", clear=True)
"""The same page without a selection of steps, time, devices or threads."""


def is_part(select: Selection) -> bool:
    """Whether less is looked at than all steps: a range, a device, a thread."""
    chosen = (select.time, select.devices, select.streams, select.threads, select.annotation)
    return select.steps not in (None, "steady") or any(each is not None for each in chosen)


def nothing(what: str, select: Selection) -> str:
    """What is missing, and whether in the selection or at all: one sentence."""
    return f"There is no {what} in what is selected." if is_part(select) else f"No {what} was recorded."


def way_back(select: Selection) -> tuple[Note, ...]:
    """For a page that is empty: how to see everything, where it may be the selection that leaves nothing."""
    return (Note("What was recorded may lie outside of it.", link=EVERYTHING),) if is_part(select) else ()
