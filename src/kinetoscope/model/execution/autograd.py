"""Links from each operator of the backward pass to its operator of the forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, rows_of
from kinetoscope.algorithms.grouping import group, match_first
from kinetoscope.algorithms.trees.tree import NO_ROW
from kinetoscope.model.execution.call_tree import call_tree, inside
from kinetoscope.model.execution.flows import joined_flows, op_at
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_beginning
from kinetoscope.model.trace.trace import Trace

ENGINE_SPAN: Final = "autograd::engine::evaluate_function: "
"""Beginning of the names of the spans in which autograd's engine runs one node each."""

_FLOWS: Final = ("fwdbwd", "forward_backward")

_MAX_THREADS: Final = 256
"""Forward threads that are matched to tracks; a file that names more is not in order."""


@dataclass(frozen=True)
class BackwardLinks:
    """Forward–backward links.

    Attributes:
        forward: int32 [events], for each operator of the backward pass the one of the forward pass that it belongs to,
            −1 for all other events. It began earlier.
        by_flow: how many rest on flow events; the others rest on sequence numbers.
    """

    forward: Int32s
    by_flow: int


@derived
def backward_links(trace: Trace) -> BackwardLinks:
    """Link the backward pass to the forward pass: by flow events, else by sequence number and forward thread.

    Flows are drawn from the operator that made the node of the graph to the one that runs it; the engine's span around
    that one has the same numbers, and is linked by them.
    """
    forward = np.full(len(trace), NO_ROW, np.int32)
    first, last = _flows(trace)
    forward[last] = first
    by_flow = int((forward >= 0).sum())
    rows, sources = _by_sequence(trace, forward)
    unlinked = forward[rows] < 0
    forward[rows[unlinked]] = sources[unlinked]
    return BackwardLinks(forward, by_flow)


@derived
def belongs_to(trace: Trace) -> Int32s:
    """The call that each call belongs to, which began no later: int32 [events], −1 for none.

    That is the call around it; in the backward pass it is the operator of the forward pass.
    """
    forward, parent = backward_links(trace).forward, call_tree(trace).parent
    same = (parent >= 0) & (forward[parent] == forward)  # the engine's span around an operator stands for both
    return np.where((forward >= 0) & ~same, forward, parent)


@derived
def by_start(trace: Trace) -> Int32s:
    """Rows of the call tree by start, so that each comes after what it belongs to: int32 [members]."""
    order = call_tree(trace).order
    return order[np.argsort(trace.start[order], kind="stable")]


@derived
def engine_spans(trace: Trace) -> Bools:
    """The spans in which autograd's engine runs one node of the backward pass each: bool [events]."""
    return rows_beginning(trace, (ENGINE_SPAN,), EventKind.HOST_OP) & (call_tree(trace).depth >= 0)


@derived
def in_backward(trace: Trace) -> Bools:
    """Events that run in the backward pass: bool [events]."""
    return inside(trace, engine_spans(trace))


@derived
def recomputed_ops(trace: Trace) -> Bools:
    """Operators of the forward pass that the backward pass runs again, as activation checkpointing asks: bool [events].

    Torch numbers operators where gradients are on, and of the backward pass only nodes, with the forward thread beside:
    an operator with a number of its own is one of the forward pass, if one of the same name and shapes ran there, too.
    (Where gradients of gradients are wanted, the backward pass has numbers as well.) All that it calls is marked, too.
    """
    ops = trace.rows(EventKind.HOST_OP)
    is_inside = in_backward(trace)[ops]
    again = np.zeros(len(trace), np.bool_)
    if is_inside.any():
        is_numbered = (arguments.integers(trace, "sequence", ops) >= 0) & is_inside
        is_numbered[is_numbered] = arguments.integers(trace, "forward_thread", ops[is_numbered]) == 0
        group_of, first = group(trace.name[ops], arguments.codes(trace, "input_dims", ops))
        ran_before = np.bincount(group_of[~is_inside], minlength=len(first)) > 0
        again[ops[is_numbered & ran_before[group_of]]] = True
    return inside(trace, again)


# --- flows


def _flows(trace: Trace) -> tuple[Int32s, Int32s]:
    """The operators at both ends of each flow."""
    starts, ends = joined_flows(trace, _FLOWS)
    first, last = op_at(trace, starts), op_at(trace, ends)
    good = (first >= 0) & (last >= 0)
    good[good] = trace.start[first[good]] < trace.start[last[good]]
    return first[good], last[good]


# --- sequence numbers


@dataclass(frozen=True)
class _Numbered:
    """The operators that have a sequence number and a place in the call tree.

    Attributes:
        rows, track: int32 [ops]. sequence: int64 [ops]. thread: int64 [ops], the forward thread; 0 in the forward pass.
    """

    rows: Int32s
    track: Int32s
    sequence: Int64s
    thread: Int64s


def _by_sequence(trace: Trace, linked: Int32s) -> tuple[Int32s, Int32s]:
    """Operators of the backward pass, and the one of the forward pass of the same sequence number."""
    rows = trace.rows(EventKind.HOST_OP)
    rows = rows[call_tree(trace).depth[rows] >= 0]
    sequence = arguments.integers(trace, "sequence", rows)
    ops = _Numbered(rows, trace.track[rows], sequence, arguments.integers(trace, "forward_thread", rows))
    forward, backward = (rows_of(ops, (sequence >= 0) & which) for which in (ops.thread == 0, ops.thread > 0))
    # Several operators have one number, those before the one that makes the node: of them the last counts.
    forward = rows_of(forward, np.argsort(-trace.start[forward.rows], kind="stable"))
    track = _forward_tracks(trace, forward, backward, linked)
    groups, _ = group(np.append(forward.track, track), np.append(forward.sequence, backward.sequence))
    codes = groups.astype(np.int64)
    origin = match_first(codes[len(forward.rows) :], codes[: len(forward.rows)])
    first, last = forward.rows[origin[origin >= 0]], backward.rows[origin >= 0]
    earlier = trace.start[first] < trace.start[last]
    return last[earlier], first[earlier]


def _forward_tracks(trace: Trace, forward: _Numbered, backward: _Numbered, linked: Int32s) -> Int64s:
    """The track of the forward thread of each operator of the backward pass, −1 if unknown: int64 [backward].

    Torch numbers threads in its own way, and nothing in a file says how. A thread is where most of its flows begin; if
    it has none, where most of its sequence numbers are: each thread counts its own.
    """
    threads, place = np.unique(backward.thread, return_inverse=True)
    tracks, lane = np.unique(forward.track, return_inverse=True)
    if not len(threads) or not len(tracks):
        return np.full(len(place), -1, np.int64)
    flow = np.searchsorted(tracks, trace.track[linked[backward.rows]])
    flow = np.where(linked[backward.rows] >= 0, np.minimum(flow, len(tracks) - 1), -1)
    best = np.full(len(threads), -1, np.int64)
    for thread in np.argsort(-np.bincount(place), kind="stable")[:_MAX_THREADS].tolist():
        own = place == thread
        votes = np.bincount(flow[own & (flow >= 0)], minlength=len(tracks))
        if not votes.any():
            votes = np.bincount(lane[np.isin(forward.sequence, backward.sequence[own])], minlength=len(tracks))
        best[thread] = tracks[votes.argmax()] if votes.any() else -1
    return best[place]
