"""Owners of the allocations of a snapshot: the category of each, and how that is known.

The stack of the request tells most: optimizers, constructors, collectives and workspaces have their names in it, and
the backward pass has autograd's. What the forward pass allocates and what only passes by differ in their lifetimes: an
activation is there until the backward pass, a gradient outlives the backward pass that made it. What was there before
the history has no stack; of that, blocks with the sizes of the gradients are parameters. All else stays unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s, marked
from kinetoscope.algorithms.grouping import group
from kinetoscope.model.execution.marks import OPTIMIZER_STEP
from kinetoscope.model.memory.block_categories import backward_spans, is_in_spans, optimizer_spans
from kinetoscope.model.memory.categories import (
    ACTIVATION,
    CATEGORIES,
    COLLECTIVE,
    GRADIENT,
    GRAPH_POOL,
    INPUT,
    KV_CACHE,
    PARAMETER,
    STATE,
    TEMPORARY,
    UNKNOWN,
    WORKSPACE,
)
from kinetoscope.model.snapshot import sites
from kinetoscope.model.snapshot.of_trace import known_snapshot, time_apart
from kinetoscope.model.snapshot.replay import SnapshotHistory, history, history_of
from kinetoscope.model.snapshot.sites import StackSites, stack_sites
from kinetoscope.model.snapshot.snapshot import (
    ALLOC,
    FREE_COMPLETED,
    FREE_REQUESTED,
    NONE,
    OUT_OF_MEMORY,
    Snapshot,
    SnapshotEvents,
    private_pools,
)
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.strings import json_object
from kinetoscope.model.trace.trace import Trace

EVIDENCE: Final = ("stack", "annotation", "trace", "lifetime", "size", "pool")
"""How a category is known, in the order of the codes: by the frames of the stack; by an annotation or metadata of the
snapshot; by a range of the trace; by the passes in which it was allocated and freed; by its size; by its pool."""

BY_STACK, BY_ANNOTATION, BY_TRACE, BY_LIFETIME, BY_SIZE, BY_POOL = range(len(EVIDENCE))

CUBLAS_WORKSPACE_BYTES: Final = (8_519_680, 33_554_432)
"""Defaults of torch (CublasHandlePool.cpp): two of 4 MiB and eight of 16 KiB; 32 MiB from Hopper on."""

_FORWARD, _BACKWARD, _OPTIMIZER = range(3)
_PASS_NAMES: Final = {"forward": _FORWARD, "backward": _BACKWARD, "optimizer": _OPTIMIZER, "step": _OPTIMIZER}


@dataclass(frozen=True)
class AllocationOwners:
    """Category of each allocation of a history, and evidence for it.

    Attributes:
        category: int8, a place in CATEGORIES.
        evidence: int8, a place in EVIDENCE; NONE where the category is unknown.
    """

    category: Int8s
    evidence: Int8s


@dataclass(frozen=True)
class _Passes:
    """The passes of the program as events of a history show them; forward is all that is not of the others.

    Attributes:
        kind: int8 [events + 1], which pass an event is of, NONE where nothing tells; the last is of no event.
        source: int8 [events + 1], how that is known: a place in EVIDENCE.
        number: int32 [events + 1], which of the passes of this history, −1 before its beginning.
        unfinished: number of the pass in which memory ran out, if it is the last; else NONE.
        optimizes: whether an optimizer ran.
    """

    kind: Int8s
    source: Int8s
    number: Int32s
    unfinished: int
    optimizes: bool


@derived
def owners(trace: Trace, device: int) -> AllocationOwners:
    """The owners of the allocations of `history`."""
    snapshot, stacks = known_snapshot(trace), stack_sites(trace)
    # Where it lies beside the trace, its passes are told by the clock of its own annotations.
    past = history_of(snapshot, device) if time_apart(trace) else history(trace, device)
    stack = _own_stacks(past)
    passes = _passes(trace, snapshot, past, stack, stacks)
    marks: Int32s = stacks.marks[past.stack]
    allocated_at = past.allocated_at
    end = np.where(past.free_requested_at != NONE, past.free_requested_at, past.freed_at)
    is_over, is_recorded = end != NONE, allocated_at != NONE
    of_stack = np.where(past.stack != NONE, _kinds_of_marks(marks), np.int8(NONE))
    kind = np.where(is_recorded, passes.kind[allocated_at], of_stack)
    source = np.where(is_recorded, passes.source[allocated_at], np.int8(BY_STACK))
    end_kind = np.where(is_over, passes.kind[end], np.int8(NONE))
    end_marks = stacks.marks[stack[end]] if len(past.events) else np.zeros(len(past), np.int32)
    end_marks = np.where(is_over, end_marks, 0)
    in_pass = is_recorded & is_over & (passes.number[allocated_at] == passes.number[end])
    may_end = ~is_over & is_recorded & (passes.number[allocated_at] == passes.unfinished)
    in_module = (marks & sites.MODULE_CALL) != 0

    def shown(mark: int) -> Bools:
        return np.asarray((marks & mark) != 0)

    rules: tuple[tuple[Bools, int, int | Int8s], ...] = (
        (private_pools(snapshot)[past.pool], GRAPH_POOL, BY_POOL),
        (shown(sites.WORKSPACE), WORKSPACE, BY_STACK),
        (_is_cublas_workspace(past, passes.number), WORKSPACE, BY_SIZE),
        (shown(sites.COLLECTIVE), COLLECTIVE, BY_STACK),
        (shown(sites.OPTIMIZER_STATE), STATE, BY_STACK),
        ((kind == _OPTIMIZER) & in_pass, TEMPORARY, BY_LIFETIME),
        ((kind == _OPTIMIZER) & ~may_end, STATE, source),
        (shown(sites.RECOMPUTATION) & (kind == _BACKWARD) & in_module, ACTIVATION, BY_STACK),
        ((kind == _BACKWARD) & in_pass, TEMPORARY, BY_LIFETIME),
        ((kind == _BACKWARD) & ~may_end, GRADIENT, source),
        (shown(sites.PARAMETER) & (kind != _BACKWARD) & ~in_module, PARAMETER, BY_STACK),
        (shown(sites.KV_CACHE), KV_CACHE, BY_STACK),
        (shown(sites.INPUT | sites.COPY_TO_DEVICE) & (kind == _FORWARD) & ~in_module, INPUT, BY_STACK),
        ((end_kind == _BACKWARD) & (kind != _BACKWARD) & (kind != _OPTIMIZER), ACTIVATION, BY_LIFETIME),
        (in_module & is_over & is_recorded & ~in_pass, ACTIVATION, BY_LIFETIME),
        (((end_marks & sites.GRAPH_RELEASE) != 0) & (end_kind == _FORWARD), ACTIVATION, BY_STACK),
        ((end_kind == _OPTIMIZER) & ~is_recorded, STATE, BY_LIFETIME),
        (((end_marks & sites.ZERO_GRAD) != 0) & ~is_recorded, GRADIENT, BY_LIFETIME),
        ((kind == _FORWARD) & in_pass, TEMPORARY, BY_LIFETIME),
    )
    conditions = [condition for condition, _, _ in rules]
    category = np.select(conditions, [np.int8(each) for _, each, _ in rules], np.int8(UNKNOWN)).astype(np.int8)
    evidence = np.select(conditions, [np.asarray(how, np.int8) for *_, how in rules], np.int8(NONE)).astype(np.int8)
    owned = AllocationOwners(category, evidence)
    _as_siblings(past, end, owned)
    is_early = ~is_recorded | (passes.number[allocated_at] == 0)  # before the first pass
    _give(owned, ~is_over & (kind == _OPTIMIZER), STATE, BY_STACK)
    _give(owned, ~is_over & shown(sites.ACCUMULATION), GRADIENT, BY_STACK)
    _by_size(past, owned, is_early & ~is_over, passes.optimizes)
    _give(owned, in_module & (kind != _BACKWARD), ACTIVATION, BY_STACK)
    _as_rewritten(past, owned, end, end_kind == _OPTIMIZER)
    return owned


def _is_cublas_workspace(past: SnapshotHistory, number: Int32s) -> Bools:
    """Allocations as large as cuBLAS's workspace, alone of their stack and size, that stay through two more passes.

    Stacks of Python alone do not show the handle that allocates it at the first product of each thread and stream.
    """
    stays = (past.allocated_at != NONE) & (past.freed_at == NONE) & np.isin(past.requested, CUBLAS_WORKSPACE_BYTES)
    rows = np.flatnonzero(stays & (number.max() - number[past.allocated_at] >= 2))
    codes, first = group(past.stack[rows], past.requested[rows])
    return marked(len(past), rows[np.bincount(codes, minlength=len(first))[codes] == 1])


def _give(owned: AllocationOwners, where: Bools, category: int, evidence: int) -> None:
    """Give a category to those of some allocations that have none."""
    where = where & (owned.category == UNKNOWN)
    owned.category[where], owned.evidence[where] = category, evidence


def _as_siblings(past: SnapshotHistory, end: Int32s, owned: AllocationOwners) -> None:
    """An allocation still there is what most bytes of its stack were, of those that were there at least as long.

    If none were, it is what those were that were there longest, unless that is temporary.
    """
    recorded = (past.stack != NONE) & (past.allocated_at != NONE)
    known = np.flatnonzero((owned.category != UNKNOWN) & (end != NONE) & recorded)
    still = np.flatnonzero((owned.category == UNKNOWN) & (end == NONE) & recorded)
    if not len(known) or not len(still):
        return
    stacks, kinds = int(past.stack.max()) + 1, len(CATEGORIES)
    cell = past.stack[known].astype(np.int64) * kinds + owned.category[known]
    total = np.bincount(cell, past.requested[known], stacks * kinds).reshape(stacks, kinds)
    longest = np.full(stacks * kinds, -1, np.int64)
    np.maximum.at(longest, cell, end[known] - past.allocated_at[known])
    age = len(past.events) - past.allocated_at[still]
    of_stack = past.stack[still]
    longest = longest.reshape(stacks, kinds)[of_stack]
    fits = np.where(longest >= age[:, None], total[of_stack], -1)
    usual = np.where(fits.max(axis=1) >= 0, fits.argmax(axis=1), longest.argmax(axis=1))
    is_known = (fits.max(axis=1) >= 0) | ((longest.max(axis=1) >= 0) & (usual != TEMPORARY))
    owned.category[still[is_known]], owned.evidence[still[is_known]] = usual[is_known], BY_STACK


def _by_size(past: SnapshotHistory, owned: AllocationOwners, where: Bools, optimizes: bool) -> None:
    """Blocks that nothing else tells, by the sizes of the gradients.

    As many of each size as there are gradients of it at once are parameters. If an optimizer runs whose state was not
    allocated in the history, further ones of these sizes, or of twice as much (FP32 for 16 bits), are its state.
    """
    there = np.flatnonzero(where & (owned.category == UNKNOWN))
    sizes, counts = _sizes_of_gradients(past, owned)
    if not len(sizes) or not len(there):
        return
    requested = past.requested[there]
    rank = _rank_among_equals(requested)
    place = np.minimum(np.searchsorted(sizes, requested), len(sizes) - 1)
    fits = sizes[place] == requested
    is_parameter = fits & (rank < counts[place])
    _give(owned, marked(len(past), there[is_parameter]), PARAMETER, BY_SIZE)
    if optimizes and not (owned.category == STATE).any():
        is_state = ~is_parameter & (fits | np.isin(requested, 2 * sizes))
        _give(owned, marked(len(past), there[is_state]), STATE, BY_SIZE)


def _sizes_of_gradients(past: SnapshotHistory, owned: AllocationOwners) -> tuple[Int64s, Int64s]:
    """The sizes of the gradients when most bytes of them were there, and how many there were of each."""
    gradients = np.flatnonzero(owned.category == GRADIENT)
    changes = np.zeros(len(past.events) + 2, np.int64)
    end = np.where(past.freed_at[gradients] != NONE, past.freed_at[gradients] + 1, len(changes) - 1)
    np.add.at(changes, past.allocated_at[gradients] + 1, past.requested[gradients])
    np.subtract.at(changes, end, past.requested[gradients])
    most = int(np.argmax(np.cumsum(changes[:-1]))) - 1
    alive = gradients[past.active_after(most)[gradients]]
    sizes, counts = np.unique(past.requested[alive], return_counts=True)
    return sizes, counts


def _as_rewritten(past: SnapshotHistory, owned: AllocationOwners, end: Int32s, ends_in_optimizer: Bools) -> None:
    """Parameters that their optimizer allocates anew in each step (`p.data = p.data - …`), as it does its state.

    Where gradients have no parameters that outlast the optimizer, what it allocates last of their sizes is the
    parameters: it needs its state to compute them. What they replace was the parameters before.
    """
    sizes, counts = _sizes_of_gradients(past, owned)
    lasting = np.flatnonzero((owned.category == PARAMETER) & ~ends_in_optimizer)
    there = np.array([np.count_nonzero(past.requested[lasting] == size) for size in sizes.tolist()], np.int64)
    missing = np.maximum(counts - there, 0)
    if 2 * int((missing * sizes).sum()) <= int((counts * sizes).sum()):
        return
    fits = (owned.category == STATE) & np.isin(past.requested, sizes[missing > 0])
    new = np.flatnonzero(fits & (past.allocated_at != NONE) & (past.stack != NONE))
    old = np.flatnonzero(fits & (past.allocated_at == NONE) & ends_in_optimizer)
    old = old[np.argsort(end[old], kind="stable")]
    last = np.full(int(past.stack[new].max(initial=0)) + 1, -1, np.int64)
    np.maximum.at(last, past.stack[new], past.allocated_at[new])
    times = np.bincount(past.stack[new], minlength=len(last))
    replaced = np.count_nonzero(ends_in_optimizer & np.isin(past.requested, sizes[missing > 0]))
    last[times < int(missing.sum())] = -1
    if not len(new) or last.max() < 0 or replaced < int(missing.sum()):
        return
    chosen = new[past.stack[new] == last.argmax()]
    rows = [chosen]
    for size in sizes[missing > 0].tolist():
        olds, news = old[past.requested[old] == size], chosen[past.requested[chosen] == size]
        after = np.searchsorted(end[olds], past.allocated_at[news])
        rows.append(olds[np.unique(after[after < len(olds)])][: int(missing[sizes == size][0])])
    which = np.concatenate(rows)
    owned.category[which], owned.evidence[which] = PARAMETER, BY_SIZE


def _rank_among_equals(values: Int64s) -> Int64s:
    """How many equal values stand before each: int64."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values)) - np.searchsorted(ordered, ordered)
    return rank


# --- passes


def _kinds_of_marks(marks: Int32s) -> Int8s:
    """The pass that a stack with these marks is of."""
    is_optimizer = (marks & (sites.OPTIMIZER | sites.OPTIMIZER_STATE)) != 0
    is_backward = (marks & sites.BACKWARD) != 0
    return np.where(is_optimizer, _OPTIMIZER, np.where(is_backward, _BACKWARD, _FORWARD)).astype(np.int8)


def _passes(trace: Trace, snapshot: Snapshot, past: SnapshotHistory, stack: Int32s, stacks: StackSites) -> _Passes:
    """The passes of a history: by stacks; where there are none, by annotations, metadata, the trace, and neighbours."""
    events = past.events
    marks = stacks.marks[stack]
    kind, source = np.full(len(events), NONE, np.int8), np.full(len(events), BY_STACK, np.int8)
    is_memory = (events.action == ALLOC) | (events.action == FREE_REQUESTED) | (events.action == FREE_COMPLETED)
    with_stack = is_memory & (stack != NONE)
    kind[with_stack] = _kinds_of_marks(marks[with_stack])
    if not stacks.has_cpp:  # the thread of autograd has no frames of Python
        for of in (events.action == ALLOC, is_memory & (events.action != ALLOC)):
            if (with_stack & of).any():
                kind[of & ~with_stack] = _BACKWARD
    in_step = _in_annotations(snapshot, past) & is_memory & (kind != _BACKWARD) & (kind != _OPTIMIZER)
    kind[in_step], source[in_step] = _OPTIMIZER, BY_ANNOTATION
    annotated = _of_metadata(snapshot, events)
    where = is_memory & (kind == NONE) & (annotated != NONE)
    kind[where], source[where] = annotated[where], BY_ANNOTATION
    for spans, which in ((backward_spans(trace), _BACKWARD), (optimizer_spans(trace), _OPTIMIZER)):
        if len(spans.start) and len(events.time):
            where = is_memory & (kind == NONE) & is_in_spans(events.time - trace.base, spans)
            kind[where], source[where] = which, BY_TRACE
    anchor = (kind == _BACKWARD) | (kind == _OPTIMIZER) | ((marks & (sites.MODULE_CALL | sites.ZERO_GRAD)) != 0)
    anchor |= (kind == _FORWARD) & (source != BY_STACK)
    at = np.flatnonzero(anchor)
    shown = np.where((marks[at] & sites.ZERO_GRAD) != 0, np.int8(_OPTIMIZER), kind[at])
    begins = np.concatenate([[True], shown[1:] != shown[:-1]]) if len(at) else np.zeros(0, np.bool_)
    number = np.zeros(len(events), np.int32)
    number[at[begins]] = 1
    number = np.cumsum(number, dtype=np.int32)
    _fill(kind, source)
    ran_out = np.flatnonzero(events.action == OUT_OF_MEMORY)
    first_of_last = int(at[begins][-1]) if len(at) else 0
    unfinished = int(number[-1]) if len(ran_out) and ran_out[-1] >= first_of_last else NONE
    return _Passes(
        np.append(kind, np.int8(NONE)),
        np.append(source, np.int8(NONE)),
        np.append(number, np.int32(-1)),
        unfinished,
        optimizes=bool((kind == _OPTIMIZER).any()) or bool(len(_optimizer_ranges(snapshot, past.device))),
    )


def _own_stacks(past: SnapshotHistory) -> Int32s:
    """The stack from which each event came: int32 [events]; NONE where only that of the allocation is recorded.

    With `context="alloc"` torch writes the stack of the allocation again where it is freed.
    """
    stack = past.events.stack
    end = np.where(past.free_requested_at != NONE, past.free_requested_at, past.freed_at)
    both = np.flatnonzero((past.allocated_at != NONE) & (end != NONE))
    if len(both) and (stack[end[both]] == past.stack[both]).all():
        return np.where(past.events.action == ALLOC, stack, np.int32(NONE))
    return stack


def _fill(kind: Int8s, source: Int8s) -> None:
    """Give events of which nothing is known the pass of the known ones before and after, where these agree."""
    known = np.flatnonzero(kind != NONE)
    unknown = np.flatnonzero(kind == NONE)
    if not len(known) or not len(unknown):
        return
    after = np.searchsorted(known, unknown)
    between = (after > 0) & (after < len(known))
    before, after = known[np.maximum(after - 1, 0)], known[np.minimum(after, len(known) - 1)]
    same = between & (kind[before] == kind[after])
    kind[unknown[same]], source[unknown[same]] = kind[before[same]], source[before[same]]


def _in_annotations(snapshot: Snapshot, past: SnapshotHistory) -> Bools:
    """Events inside an `Optimizer.step` of the snapshot's annotations: bool [events]."""
    ranges, here = snapshot.annotations, _optimizer_ranges(snapshot, past.device)
    if not len(here) or not len(past.events):
        return np.zeros(len(past.events), np.bool_)
    here = here[np.argsort(ranges.time[here], kind="stable")]
    sign = np.where(ranges.is_start[here], 1, -1)
    change = np.zeros(len(past.events) + 1, np.int32)
    # An end without its beginning: it began before the history.
    change[0] = -min(int(np.cumsum(sign).min()), 0)
    np.add.at(change, np.searchsorted(past.events.time, ranges.time[here]), sign)
    inside: Bools = np.cumsum(change[:-1]) > 0
    return inside


def _optimizer_ranges(snapshot: Snapshot, device: int) -> Int64s:
    """The rows of annotations of optimizers' steps on a device."""
    ranges = snapshot.annotations
    codes = np.unique(ranges.name).tolist()
    steps = [code for code in codes if snapshot.strings.label(code).startswith(OPTIMIZER_STEP)]
    return np.flatnonzero(np.isin(ranges.name, steps) & (ranges.device == device))


def _of_metadata(snapshot: Snapshot, events: SnapshotEvents) -> Int8s:
    """The pass that the metadata of each event names as its `phase`: int8 [events], NONE for none."""
    codes = np.unique(events.metadata)
    kinds = np.array(
        [_pass_named(snapshot.strings.label(code)) if code >= 0 else NONE for code in codes.tolist()], np.int8
    )
    return kinds[np.searchsorted(codes, events.metadata)] if len(codes) else np.zeros(0, np.int8)


def _pass_named(text: str) -> int:
    phase = json_object(text).get("phase")
    return _PASS_NAMES.get(phase, NONE) if isinstance(phase, str) else NONE
