"""A selection: the part of a trace that an analysis is about: steps, a time range, devices, streams, threads."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields, replace
from typing import Final, Literal


@dataclass(frozen=True, slots=True, repr=False)
class Selection:
    """One argument of every analysis; what is None selects everything.

    Attributes:
        steps: numbers of the steps; −1 is the last one; a range may reach beyond the last; "steady" is all but those of
            the warm-up (see `steps.steady`). Device work belongs to the step that contains its launch (work whose
            launch was not recorded: the device step that contains its start) and is not clipped.
        time: start and end in ns after the first event of the trace. Intervals are clipped to it; what is counted are
            events that start in it.
        devices, streams: numbers of devices and streams; they choose device work only.
        threads: numbers of host threads; they choose host events, and device work launched from them.
        annotation: name of an annotation; chooses what happens inside it on its thread, and device work launched there.
        steps_by: name of the annotation that is a step, instead of the profiler's own `ProfilerStep#N`.
    """

    steps: tuple[int, ...] | range | Literal["steady"] | None = None
    time: tuple[int, int] | None = None
    devices: tuple[int, ...] | None = None
    streams: tuple[int, ...] | None = None
    threads: tuple[int, ...] | None = None
    annotation: str | None = None
    steps_by: str | None = None

    def __repr__(self) -> str:
        chosen = ((each.name, getattr(self, each.name)) for each in fields(self))
        return f"Selection({', '.join(f'{name}={value!r}' for name, value in chosen if value is not None)})"

    @property
    def is_of_calls(self) -> bool:
        """It chooses calls of the host: by steps, threads or an annotation."""
        return any(each is not None for each in (self.steps, self.threads, self.annotation))


ALL: Final = Selection()
"""Everything that was recorded."""

EVERY_STEP: Final = range(sys.maxsize)
"""All steps, those of the warm-up too: the meaning of `all` on the command line and the page."""


def default_to_steady(select: Selection) -> Selection:
    """The selection with the steady steps, where it has neither steps nor a time range: the default of all faces."""
    return replace(select, steps="steady") if select.steps is None and select.time is None else select
