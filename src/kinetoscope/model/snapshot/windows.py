"""Steps as places in the history of a device: those of the trace, else the periods of its allocations."""

from __future__ import annotations

from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.model.memory.windows import MemoryWindows
from kinetoscope.model.snapshot.replay import history
from kinetoscope.model.snapshot.sites import MODULE_CALL, PARAMETER, stack_sites
from kinetoscope.model.snapshot.snapshot import ALLOC, NONE
from kinetoscope.model.steps.proposed_steps import dividers
from kinetoscope.model.steps.scope import Scope
from kinetoscope.model.steps.selection import STEADY_STEPS
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note

_MIN_ALLOCATIONS: Final = 8
"""Allocations of a period, on average: shorter ones are layers of a model."""

_EVEN_PERIODS_SHARE: Final = 0.8
"""Share of the periods that must be about as long as the median one."""

_COMMON_STACKS_SHARE: Final = 0.5
"""Share of the stacks that a period must have in common with the next, of all that either has."""

_COVERAGE: Final = 0.6
"""Share of all allocations that the number of periods times their median must reach."""


FEWEST_STEPS: Final = 4
"""Steps from which growth can be told: three, after one that warms up."""


def history_not_selected(device: str) -> Note:
    """The note that a device has no row because the selection has nothing of its history."""
    return Note("HISTORY_NOT_SELECTED", f"The history of {device} has nothing in what is selected.")


def windows(view: Scope, device: int) -> MemoryWindows:
    """The steps of a selection in the history of a device; those of which the history has nothing are left out.

    Where none are selected by number, and the trace has none, or so few that nothing can be said of their growth, they
    are the periods of the allocations: a history may be longer than the trace of the same run.
    """
    trace, select = view.trace, view.select
    past = history(trace, device)
    if not len(past.events):
        none = np.zeros(0, np.int64)
        return MemoryWindows(none, none, none, view.steps.note)
    time = np.maximum.accumulate(past.events.time - trace.base)  # threads may report out of order by a hair
    start, end = (np.searchsorted(time, each) for each in (view.steps.host.start, view.steps.host.end))
    there = (end > 0) & (start < len(time))
    marked = MemoryWindows(view.places[there], start[there], end[there], view.steps.note)
    unmarked = view.steps.origin == "window"
    if select.steps in (None, STEADY_STEPS) and select.time is None and (unmarked or len(marked) < FEWEST_STEPS):
        at = periods(trace, device)
        if len(at) - 1 > (0 if unmarked else len(marked)):
            lack = "No steps were marked" if unmarked else f"The history has {len(marked)} of the marked steps"
            note = Note(
                "STEPS_OF_ALLOCATIONS",
                f"{lack}; {len(at) - 1} are proposed from a sequence of allocations that repeats.",
            )
            return MemoryWindows(np.arange(len(at) - 1), at[:-1], at[1:], note)
    return marked


@derived
def periods(trace: Trace, device: int) -> Int64s:
    """Events with which each period of a device's allocations begins, and the last one ends: int64; [] for none.

    A stack that occurs once in each period begins it. It is of the user's program, and in no module's forward or
    constructor: what repeats there are layers. Of several the rarest one counts. Periods are about as long (80 % of
    them from half to twice the median) and consecutive ones have most stacks in common (in the median half of all that
    either has).
    """
    past, sites = history(trace, device), stack_sites(trace)
    requests = np.flatnonzero(past.events.action == ALLOC)
    codes = past.events.stack[requests]
    begins = (sites.user != NONE) & ((sites.marks & (MODULE_CALL | PARAMETER)) == 0)
    for places in dividers(codes, _MIN_ALLOCATIONS):
        length = np.diff(places)
        even = np.abs(np.log2(length / np.median(length))) <= 1
        covers = len(length) * np.median(length) >= _COVERAGE * len(codes)
        is_step = begins[codes[places[0]]] and covers and even.mean() >= _EVEN_PERIODS_SHARE
        if is_step and _are_same(codes, places):
            return np.asarray(requests[places], np.int64)
    return np.zeros(0, np.int64)


def _are_same(codes: Int32s, places: Int64s) -> bool:
    """True if consecutive pieces have most of their codes in common."""
    length = np.diff(places)
    piece = np.repeat(np.arange(len(length)), length)
    inside = codes[places[0] : places[-1]].astype(np.int64) + 1  # NONE is 0
    room = int(inside.max()) + 1
    pairs = np.unique(piece * room + inside)
    of_piece = np.bincount(pairs // room, minlength=len(length))
    common = np.intersect1d(pairs, pairs - room, assume_unique=True) // room
    shared = np.bincount(common[common >= 0], minlength=len(length))[:-1]
    return bool(np.median(shared / (of_piece[:-1] + of_piece[1:] - shared)) >= _COMMON_STACKS_SHARE)
