"""The picture of a memory snapshot: which instants of a history matter, and what a report keeps of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from kinetoscope.algorithms.arrays import Int64s
from kinetoscope.algorithms.layout.bands import columns_of
from kinetoscope.model.analysis import Question
from kinetoscope.model.answer import Partial
from kinetoscope.model.memory.categories import CATEGORIES
from kinetoscope.model.snapshot.bands import bands, categories, category_changes, event_instants
from kinetoscope.model.snapshot.replay import SnapshotHistory, histories, level
from kinetoscope.model.snapshot.snapshot import OUT_OF_MEMORY
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.steps.steps import steps
from kinetoscope.model.trace.trace import Trace
from kinetoscope.pages.blocks import AllocatorBlock, Moment
from kinetoscope.schema import Column, Schema
from kinetoscope.views.numbers import grouped

MAX_FAILURES: Final = 4
"""Requests that failed for want of memory which have a button: the first ones."""

KEPT_INSTANTS: Final = 48
"""Instants, evenly over the events, whose heap a report keeps, besides those that matter."""

MEANINGS: Final = {
    "parameter": "Parameters and buffers of modules.",
    "gradient": "Allocated in the backward pass, and outlives it.",
    "optimizer state": "Allocated in the optimizer, and outlives its step.",
    "activation": "Allocated outside of the backward pass, and freed in one.",
    "temporary": "Freed in the pass in which it was allocated.",
    "workspace": "Scratch memory of a library, such as cuBLAS.",
    "collective buffer": "For communication: gathered parameters, buckets of gradients.",
    "input": "Batches on their way into the model.",
    "KV cache": "Keys and values of earlier tokens.",
    "graph pool": "In a pool of its own, as CUDA graphs have it.",
    "autograd detail": "What autograd keeps beside activations, as torch's memory timeline has it.",
    "unknown": "Nothing that was recorded says what it is for.",
}
"""What the categories of allocations mean, in a few words (model/snapshot/owners.py has their rules)."""

_DENSE_SHARE: Final = 0.1
"""Share of the time in which half of the events may happen at least, for a picture over time; else it is by event."""

_SWING_COLUMNS: Final = 400
"""Columns by which it is seen how much a category swings."""

_RESULT: Final = Schema(
    Column("rank", pl.Int64, "Rank of the process."),
    Column("device", pl.Int64, "Number of the device."),
    Column("kind", pl.String, "history, even, moment, step or category."),
    Column("label", pl.String, "Words."),
    Column("event", pl.Int64, "Place in the history; of the history its events; of a category its place from below."),
    Column("time", pl.Int64, "When it was, from the first event of the trace on.", "ns"),
    across={"key": "device kind label event", "own": "time"},
)


def devices_question(select: Selection) -> Question:
    """The question for what `allocator_block` needs of all devices that a snapshot is about; no rows without one."""
    return Question(_of_trace, _RESULT, select)


def allocator_block(facts: pl.DataFrame, device: int) -> AllocatorBlock:
    """The picture of a device; `facts` of `devices_of`."""
    here = facts.filter(device=device)
    rank = here.get_column("rank")[0]
    here = here.filter(rank=rank)

    def rows(kind: str) -> list[Moment]:
        rows = here.filter(kind=kind).select("label", "event", "time").iter_rows()
        return [Moment(label, event, time) for label, event, time in rows]

    ends, moments, marked = rows("history"), rows("moment"), rows("step")
    events = ends[-1].event
    first, last = ends[0].time, ends[-1].time
    ordered = [each.label for each in rows("category")]
    even = columns_of(0, events, KEPT_INSTANTS)[1:] - 1 if events else np.zeros(0, np.int64)
    kept = sorted({*even.tolist(), *(each.event for each in (*moments, *marked[: KEPT_INSTANTS // 2]))})
    return AllocatorBlock(
        "Memory by category",
        device=device,
        events=events,
        span=None if first is None or last is None else (first, last),
        by="time" if first is not None and here.filter(kind="even").height else "event",
        categories=[(name, MEANINGS[name]) for name in ordered],
        moments=moments,
        steps=marked,
        kept=kept,
        note="Bytes requested, the steadiest at the bottom; the line is what is reserved of the device. Each "
        "column shows its highest instant. Drag to select a stretch of time; drag along the ruler to move through it.",
    )


def _of_trace(trace: Trace, select: Selection) -> Partial:
    rows: list[tuple[int, str, str, int, int | None]] = []
    for past in histories(trace):
        device = past.device
        instants = event_instants(trace, device)
        for kind, label, event in _rows(trace, past, select, instants):
            at = min(max(event, 0), len(instants) - 1)
            rows.append((device, kind, label, event, int(instants[at]) if len(instants) else None))
    return Partial(_RESULT.per_rank.frame(rows))


def _rows(trace: Trace, past: SnapshotHistory, select: Selection, instants: Int64s) -> Iterator[tuple[str, str, int]]:
    count, requested = len(past.events), level(trace, past.device, "requested")
    yield from (("history", "", each) for each in (0, count))
    if _is_even(instants):
        yield "even", "", 0
    for label, event in _moments(past, select, instants, requested):
        yield "moment", label, event
    for label, event in _steps(trace, instants):
        yield "step", label, event
    kind, changes = categories(trace, past.device), category_changes(trace, past.device)
    layers = bands(past, kind, changes, columns_of(0, count, _SWING_COLUMNS))
    highest = layers.levels.max(axis=0)
    for place, category in enumerate(np.lexsort([-highest, highest - layers.levels.min(axis=0)]).tolist()):
        if highest[category]:
            yield "category", CATEGORIES[category], place


def _is_even(instants: Int64s) -> bool:
    """Whether time is an axis that shows something: the denser half of the events takes a tenth of it or more."""
    if len(instants) < 2:
        return False
    half = len(instants) // 2
    densest = int((instants[half:] - instants[: len(instants) - half]).min())
    return densest >= _DENSE_SHARE * int(instants[-1] - instants[0])


def _moments(
    past: SnapshotHistory, select: Selection, instants: Int64s, requested: Int64s
) -> Iterator[tuple[str, int]]:
    if select.time is not None and len(instants):
        first, last = np.searchsorted(instants, select.time).tolist()
        if last > first:
            yield "Peak of the selection", int(np.argmax(requested[first + 1 : last + 1])) + first
    yield "Peak", int(np.argmax(requested)) - 1
    failures = np.flatnonzero(past.events.action == OUT_OF_MEMORY)
    for number, event in enumerate(failures[:MAX_FAILURES].tolist(), 1):
        yield "Out of memory" + (f" {number} of {grouped(len(failures))}" if len(failures) > 1 else ""), event
    yield "Beginning", -1
    yield "Snapshot", len(past.events) - 1


def _steps(trace: Trace, instants: Int64s) -> Iterator[tuple[str, int]]:
    """The steps that begin within the history, by the event that comes first in them."""
    every = steps(trace)
    if every.origin == "window" or not len(instants):
        return
    begin = every.host.start - origin_of_time(trace)
    for number, start, event in zip(
        every.number.tolist(), begin.tolist(), np.searchsorted(instants, begin).tolist(), strict=True
    ):
        if instants[0] <= start and event < len(instants):
            yield f"step {number}", event
