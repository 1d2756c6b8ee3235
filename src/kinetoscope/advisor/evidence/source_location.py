"""The place in the user's source from which something was called, and what lies inside some calls."""

from __future__ import annotations

import numpy as np

from kinetoscope.advisor.finding import Evidence
from kinetoscope.advisor.rule import RankView
from kinetoscope.advisor.wording import place
from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s
from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.intervals.intervals import Intervals, intersection, merge
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.compile.kernels import compiled_stacks
from kinetoscope.model.execution.autograd import belongs_to
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.device_work import launched_by
from kinetoscope.model.execution.frames import MAX_DEPTH, CodeLocation, frame_text, recorded_stack, user_source
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_named
from kinetoscope.model.trace.trace import Trace

NO_SOURCE = CodeLocation(None, None, None)


def in_source(source: CodeLocation | Evidence) -> str:
    """` in `train.py:12``, to follow the name of what is there; "" where it is not known."""
    return f" in {place(source.file, source.line or 0)}" if source.file else ""


def mostly_in_source(source: CodeLocation | Evidence) -> str:
    """The same of the place where most of several things are: `, mostly in `train.py:12``."""
    return f", mostly{in_source(source)}" if source.file else ""


def event_evidence(rank: RankView, row: int, text: str, analysis: str | None = None, **params: str) -> Evidence:
    """An event as evidence, with the line that it was called from; `text` says what is to be seen there."""
    return rank.event(row, text, analysis, source_of(rank.trace, row), **params)


def user_evidence(rank: RankView, row: int, text: str, analysis: str, **params: str) -> Evidence:
    """An event as evidence, with the line of the user's function that it was called from; see `user_source_of`."""
    return rank.event(row, text, analysis, user_source_of(rank.trace, row), **params)


@derived
def user_frames(trace: Trace) -> Bools:
    """Python calls of functions that are the user's own: bool [events]."""
    return rows_named(
        trace, lambda name: user_source(frame_text(name)).file is not None, EventKind.PYTHON, holding=(".py(",)
    )


def user_frame_of(trace: Trace, rows: Int32s) -> Int32s:
    """The user's function that each call was made from, of the backward pass the forward one: int32, −1 unknown."""
    return ancestor(belongs_to(trace), user_frames(trace))[rows]


def user_source_of(trace: Trace, row: int) -> CodeLocation:
    """The line of the user's function that a call was made from; of the backward pass the one that called forward."""
    if row < 0:
        return NO_SOURCE
    if compiled_stacks(trace).code[row] >= 0:
        return source_of(trace, row)
    frame = int(user_frame_of(trace, np.array([row], np.int32))[0])
    return source_of(trace, frame if frame >= 0 else row)


def row_of_most(trace: Trace, rows: Int32s, time: Int64s) -> int:
    """The longest of the calls of the user's function, else of the operator, that takes most time of some calls.

    Args:
        trace: the trace.
        rows: int32 [calls], one at least.
        time: int64 [calls], that each takes.
    """
    frame = user_frame_of(trace, rows)
    code, first = group(trace.name[np.where(frame >= 0, frame, rows)])
    most = np.bincount(code, time, len(first)).argmax()
    mine = np.flatnonzero(code == most)
    return int(rows[mine[np.argmax(time[mine])]])


def source_of(trace: Trace, row: int) -> CodeLocation:
    """The line of the user's own code that an event of the host was called from; nothing where that is not known.

    Found by climbing from the one event, where `model.operators.call_stacks.call_stacks` puts together those of all.
    """
    parent = call_tree(trace).parent
    for _ in range(MAX_DEPTH):
        if row < 0:
            break
        if (compiled := int(compiled_stacks(trace).code[row])) >= 0:
            stack = compiled_stacks(trace).texts[compiled]
        elif trace.kind[row] == EventKind.PYTHON:
            stack = frame_text(trace.strings.label(int(trace.name[row])))
        else:
            code = int(arguments.codes(trace, "call_stack", np.array([row], np.int32))[0])
            stack = recorded_stack(trace.strings.label(code)) if code >= 0 else ""
        if stack and (source := user_source(stack)).file is not None:
            return source
        row = int(parent[row])
    return NO_SOURCE


def host_and_device_time(rank: RankView, rows: Int64s, calls: Bools) -> Intervals:
    """The exposed time of some events (rows), and that of the device work that `calls` launch, in selected steps."""
    launched = launched_by(rank.trace, calls)
    work = rank.work_spans(launched)
    return intersection(merge(rank.exposed(rank.spans(rows)), work), rank.time)
