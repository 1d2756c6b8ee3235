"""Calls that launch device work, of all vendors: the work of each, and the delay until it begins.

A call launches what carries its correlation id, whatever its name. Its name decides only where nothing that it
launched was recorded; and while a graph is captured, such a call launches nothing: it becomes part of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, scattered
from kinetoscope.algorithms.intervals.priority_sweep import charge
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.graphs.lost_work import captured, launches_without_work, no_device_work
from kinetoscope.model.steps.scope import Scope
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.text import number_of
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note


@dataclass(frozen=True)
class Launches:
    """The calls that launch device work, in order of time.

    Attributes:
        rows: int32 [launches], their rows.
        work: int32 [linked work], places in `device_work`: what each launched, in order of start.
        offsets: int64 [launches + 1]: call n launched `work[offsets[n]:offsets[n + 1]]`, nothing if none was recorded.
        first: int32 [launches], place in `device_work` of what started first, −1 for nothing.
        delay: int64 [launches], from the end of the call to the start of the first work, ns; 0 if that began before,
            and where nothing was recorded.
        busy: int64 [launches], time in which any of what it launched ran, ns.
    """

    rows: Int32s
    work: Int32s
    offsets: Int64s
    first: Int32s
    delay: Int64s
    busy: Int64s

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def pieces(self) -> Int64s:
        """How many pieces of device work each launched: int64 [launches]."""
        return np.diff(self.offsets)


@derived
def launches(trace: Trace) -> Launches:
    """The launch calls of a trace."""
    work = device_work(trace)
    rows = np.concatenate([np.unique(work.launch[work.launch >= 0]), launches_without_work(trace)]).astype(np.int32)
    rows = rows[np.lexsort((rows, trace.start[rows]))]
    place_of = scattered(len(trace), rows, np.arange(len(rows)), np.int32)
    linked = np.flatnonzero(work.launch >= 0).astype(np.int32)
    place = place_of[work.launch[linked]]
    order = np.lexsort((linked, work.start[linked], place))
    linked, place = linked[order], place[order]
    offsets = np.searchsorted(place, np.arange(len(rows) + 1)).astype(np.int64)
    first = np.full(len(rows), -1, np.int32)
    some = np.flatnonzero(np.diff(offsets))
    first[some] = linked[offsets[some]]
    delay = np.zeros(len(rows), np.int64)
    delay[some] = np.maximum(work.start[first[some]] - np.maximum(trace.end[rows[some]], trace.start[rows[some]]), 0)
    return Launches(rows, linked, offsets, first, delay, _union_lengths(work, linked, place, len(rows)))


def is_selected(view: Scope, calls: Launches) -> Bools:
    """Launch calls that are selected, by their start, and by device and stream of their first work: bool [launches]."""
    chosen = view.host_mask[calls.rows]
    work = view.device_work
    for wanted, have in ((view.select.devices, work.device), (view.select.streams, work.stream)):
        if wanted is not None:
            chosen &= (calls.first >= 0) & np.isin(have[calls.first], wanted) if len(work) else False
    return chosen


def _union_lengths(work: DeviceWork, linked: Int32s, place: Int32s, launches: int) -> Int64s:
    """Length of the union of the work of each call, ns: int64 [launches]."""
    alone = np.full(launches, -1, np.int32)
    each = np.arange(launches, dtype=np.int32)
    return charge(work.start[linked], work.end[linked], place, alone, each, launches, climb=False).covered


def launch_notes(view: Scope, calls: Launches, chosen: Int64s) -> list[Note]:
    """Notes on the chosen calls, and on device work without a recorded launch."""
    work, trace = view.device_work, view.trace
    notes: list[Note] = []
    part = int((captured(trace) & view.host_mask).sum())
    if part:
        notes.append(
            Note(
                "LAUNCHES_CAPTURED",
                f"{number_of(part, 'launch call')} became part of a graph: nothing ran, and they are left out.",
            )
        )
    if not len(calls):
        none = Note("NO_LAUNCHES", "No call that launches device work was recorded.")
        return [*notes, none if len(work) else no_device_work(trace)]
    if not len(chosen):
        return [*notes, Note("NO_LAUNCHES_SELECTED", "No launch is selected.")]
    lost = int((work.launch < 0).sum())
    if lost:
        notes.append(
            Note(
                "LAUNCHES_UNLINKED",
                f"{lost:,} of {len(work):,} pieces of device work have no recorded launch and are left out.",
            )
        )
    alone = int((calls.first[chosen] < 0).sum())
    if alone:
        notes.append(
            Note(
                "DELAYS_UNKNOWN",
                f"Of {alone:,} of {len(chosen):,} calls the work was not recorded: their delay is not known.",
            )
        )
    return notes
