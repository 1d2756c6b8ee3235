"""Steps as places in a record of memory, and what is selected of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.algorithms.arrays import NO_PLACE, Bools, Int32s, Int64s
from kinetoscope.model.steps.scope import Scope
from kinetoscope.model.steps.steps import step_of
from kinetoscope.notes import Note


@dataclass(frozen=True)
class MemoryWindows:
    """Steps as places in the changes of a device's memory, in order of time.

    Attributes:
        places: int64 [steps], which of all steps they are.
        start: int64 [steps], how many changes are before each.
        end: int64 [steps], how many are before its end.
        note: where they are from; None where the profiler marked them.
    """

    places: Int64s
    start: Int64s
    end: Int64s
    note: Note | None

    def __len__(self) -> int:
        return len(self.start)

    def at(self, chosen: Bools) -> MemoryWindows:
        """The chosen ones, bool [steps]."""
        return MemoryWindows(self.places[chosen], self.start[chosen], self.end[chosen], self.note)

    def of(self, change: Int32s) -> Int64s:
        """The step of each change, as its place here: int64, NO_PLACE for none and for place NO_PLACE."""
        step = np.searchsorted(self.start, change, side="right") - 1
        inside = (
            (step >= 0) & (change < self.end[np.maximum(step, 0)]) if len(self) else np.zeros(len(change), np.bool_)
        )
        return np.where(inside, step, NO_PLACE)


def changes_in(view: Scope, time: Int64s) -> Bools:
    """Changes of a history, by time on the trace's clock, in the selected steps and range of time: bool [changes].

    Where the trace has no steps, its window is no step of the history, which may be longer: all changes are selected.
    """
    chosen = view.begins(time)
    if view.select.steps is not None and view.steps.origin != "window":
        chosen &= step_of(view.steps.host, time) >= 0
    return chosen
