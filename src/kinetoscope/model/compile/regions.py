"""Compiled regions, calls of code that torch.compile made, and the spans of the compiler itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.call_tree import call_tree, enclosing_frame
from kinetoscope.model.execution.marks import RANGE_KINDS
from kinetoscope.model.steps.steps import step_of, steps
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.names import rows_beginning, rows_containing, rows_named
from kinetoscope.model.trace.trace import Trace

COMPILER: Final = " (dynamo_timed)"
"""Ending of the names of spans of the compiler."""

RESUMED: Final = "torch_dynamo_resume_in_"
"""Beginning of the names of the functions that go on behind a graph break."""

PHASES: Final = ("tracing", "aot_autograd", "inductor", "code_generation", "kernel_compilation", "at_run_time")
"""Phases of a compilation, from the outermost: each is the time inside its spans and inside none of the next."""

_PHASE_OF_SPAN: Final = {
    "_compile.compile_inner": 0,
    "OutputGraph.call_user_compiler": 1,
    "backward._backward_impl": 1,
    "compile_fx.<locals>.bw_compiler": 1,
    "compile_fx_inner": 2,
    "GraphLowering.compile_to_module": 3,
    "async_compile.wait": 4,
}
"""Phases by the spans that torch itself sums for its metrics (`dynamo_timed` with a `dynamo_compile_column_us`)."""

_REGION: Final = "Torch-Compiled Region"
_COMPILE_ID: Final = re.compile(r"(!?\d{1,9}(?:/\d{1,9}){1,2}|!\d{1,9})\Z")
_DATA: Final = "compile_id="
_UNKNOWN_ID: Final = "None"
_MAX_PAUSE_NS: Final = 5_000_000
"""Between two regions: what lies further apart are two functions and not the pieces of one."""


@dataclass(frozen=True)
class CompiledRegions:
    """Calls of compiled code, by thread and time; those inside another are left out.

    Attributes:
        rows: int32 [regions], their events.
        compile_id: int32 [regions], place in `compile_ids`, −1 where the name has none (until torch 2.5).
        compile_ids: texts such as `0/1`, the frame and which compilation of it.
        frame: int32 [regions], place of the compile id without its last number among all of them, −1 for none.
    """

    rows: Int32s
    compile_id: Int32s
    compile_ids: tuple[str, ...]
    frame: Int32s


@derived
def compiled_regions(trace: Trace) -> CompiledRegions:
    """The compiled regions of a trace."""
    calls = call_tree(trace)
    is_region = rows_beginning(trace, (_REGION,), *RANGE_KINDS) & calls.member
    around = ancestor(calls.parent, is_region)
    order = calls.order[is_region[calls.order]]
    rows = order[(calls.parent[order] < 0) | (around[calls.parent[order]] < 0)]
    texts = {code: _compile_id(trace.strings.glance(code)) for code in np.unique(trace.name[rows]).tolist()}
    ids = tuple(sorted({text for text in texts.values() if text}))
    frames = sorted({text.rpartition("/")[0] for text in ids})
    place = {code: ids.index(text) if text else -1 for code, text in texts.items()}
    frame = {code: frames.index(text.rpartition("/")[0]) if text else -1 for code, text in texts.items()}
    names = trace.name[rows].tolist()
    return CompiledRegions(
        rows,
        np.array([place[code] for code in names], np.int32),
        ids,
        np.array([frame[code] for code in names], np.int32),
    )


def _compile_id(name: str) -> str:
    match = _COMPILE_ID.search(name)
    return match[1] if match else ""


# --- pieces of a broken graph


@dataclass(frozen=True)
class GraphPieces:
    """Where a piece of a broken graph ends and the next begins, on one thread.

    Attributes:
        before, after: int32 [pairs], places in `CompiledRegions`.
    """

    before: Int32s
    after: Int32s


@derived
def graph_pieces(trace: Trace) -> GraphPieces:
    """The pairs of compiled regions between which a graph is broken.

    The function behind a break has a name of its own, `torch_dynamo_resume_in_forward_at_20`. Where Python calls were
    not recorded, two regions of different frames count that follow one another in a step within 5 ms.
    """
    regions = compiled_regions(trace)
    rows = regions.rows
    start, end, track = trace.start[rows], trace.end[rows], trace.track[rows]
    step = step_of(steps(trace).host, start)
    follows = (track[1:] == track[:-1]) & (step[1:] == step[:-1]) & (start[1:] > end[:-1])
    frame = enclosing_frame(trace)[rows]
    known = frame >= 0
    resumed = rows_containing(trace, (RESUMED,))
    goes_on = known & resumed[np.maximum(frame, 0)] if len(trace) else known
    guessed = (regions.frame[1:] != regions.frame[:-1]) & (start[1:] - end[:-1] < _MAX_PAUSE_NS) & (step[1:] >= 0)
    before = np.flatnonzero(follows & np.where(known[1:], goes_on[1:], guessed)).astype(np.int32)
    return GraphPieces(before, before + np.int32(1))


# --- the compiler


@derived
def is_compiler(trace: Trace) -> Bools:
    """Spans of the compiler: bool [events]."""
    return rows_named(trace, lambda name: name.endswith(COMPILER), *RANGE_KINDS, holding=(COMPILER,))


@dataclass(frozen=True)
class CompilerSpans:
    """Spans of the compiler that lie in no other, and the compilation that each belongs to.

    Attributes:
        rows: int32 [spans], their events, in order of the file.
        compile_id: int32 [spans], place in `compile_ids`, −1 where the trace does not say (until torch 2.5).
        compile_ids: the texts.
        span: int32 [events], the span that each event is or lies in, −1 for none.
        phase: int8 [events], place in PHASES of the spans that open one, −1 for all others.
    """

    rows: Int32s
    compile_id: Int32s
    compile_ids: tuple[str, ...]
    span: Int32s
    phase: Int8s


@derived
def compiler_spans(trace: Trace) -> CompilerSpans:
    """The outermost spans of the compiler; what helpers on other threads compile is waited for, and left out."""
    parent = call_tree(trace).parent
    every = is_compiler(trace)
    phase = np.full(len(trace), -1, np.int8)
    names = trace.name[every]
    by_code = {
        code: _PHASE_OF_SPAN.get(trace.strings.glance(code).removesuffix(COMPILER), -1)
        for code in np.unique(names).tolist()
    }
    phase[every] = [by_code[code] for code in names.tolist()]
    around = ancestor(parent, every)
    outermost = every & ((parent < 0) | (around[parent] < 0))
    phase[outermost & (phase < 0)] = PHASES.index("at_run_time")
    rows = np.flatnonzero(outermost).astype(np.int32)
    which = np.full(len(trace), -1, np.int32)
    which[rows] = np.arange(len(rows), dtype=np.int32)
    inside = ancestor(parent, outermost)
    span = np.where(inside >= 0, which[np.maximum(inside, 0)], -1).astype(np.int32) if len(trace) else which
    told = _told_ids(trace, span, len(rows))
    ids = tuple(sorted({text for text in told if text and text != _UNKNOWN_ID}))
    keep = np.array([text != _UNKNOWN_ID for text in told], np.bool_)
    compile_id = np.array([ids.index(text) if text in ids else -1 for text in told], np.int32)
    place = np.append(np.where(keep, np.cumsum(keep) - 1, -1), -1).astype(np.int32)
    return CompilerSpans(rows[keep], compile_id[keep], ids, place[span], phase)


def _told_ids(trace: Trace, span: Int32s, spans: int) -> list[str]:
    """What the marks inside each span, `dynamo_data: compile_id=0/0`, say of it; "" where there is none."""
    told = [""] * spans
    marks = np.flatnonzero(rows_containing(trace, (_DATA,), *RANGE_KINDS) & (span >= 0))
    for row in marks[::-1].tolist():
        told[int(span[row])] = trace.strings.glance(int(trace.name[row])).rpartition(_DATA)[2]
    return told


def time_by_phase(trace: Trace, window: tuple[int, int] | None, chosen: Bools) -> Int64s:
    """Time of each outermost span in each phase, ns: int64 [spans, phases]; its sum is the length of the span.

    Args:
        trace: the trace.
        window: the range of time that counts; None for all.
        chosen: bool [spans], those that count.
    """
    from kinetoscope.model.execution.call_tree import owned_times

    spans = compiler_spans(trace)
    opens = (spans.phase >= 0) & (spans.span >= 0)
    rows = np.flatnonzero(opens)
    rows = rows[chosen[spans.span[rows]]] if len(rows) else rows
    time = owned_times(trace, opens, window)[rows]
    result = np.zeros((len(spans.rows), len(PHASES)), np.int64)
    np.add.at(result, (spans.span[rows], spans.phase[rows]), time)
    return result
