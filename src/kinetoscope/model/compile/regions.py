"""Compiled regions, calls of code that torch.compile made, and the spans of the compiler itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s, scattered
from kinetoscope.algorithms.trees.tree import ancestor, outermost
from kinetoscope.model.execution.call_tree import call_tree, owned_times
from kinetoscope.model.execution.marks import RANGE_KINDS
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
_GRAPH: Final = "CompiledFunction"
_FX_GRAPH: Final = "## Call CompiledFxGraph "


@dataclass(frozen=True)
class CompiledRegions:
    """Calls of compiled code, by thread and time.

    A region lasts until the compiled function returns: where its graph is broken, the regions of what goes on behind
    the break lie in it.

    Attributes:
        rows: int32 [regions], their events.
        around: int32 [regions], the region that each lies in, −1 for none.
        compile_id: int32 [regions], place in `compile_ids`, −1 where the name has none (until torch 2.5).
        compile_ids: texts such as `0/1`, the frame and which compilation of it.
    """

    rows: Int32s
    around: Int32s
    compile_id: Int32s
    compile_ids: tuple[str, ...]


@derived
def is_region(trace: Trace) -> Bools:
    """Spans of compiled regions: bool [events]."""
    return rows_beginning(trace, (_REGION,), *RANGE_KINDS) & call_tree(trace).member


@derived
def compiled_regions(trace: Trace) -> CompiledRegions:
    """The compiled regions of a trace."""
    calls, mask = call_tree(trace), is_region(trace)
    rows = calls.order[mask[calls.order]]
    names, of_row = np.unique(trace.name[rows], return_inverse=True)
    texts = [_compile_id(trace.strings.glance(code)) for code in names.tolist()]
    ids = tuple(sorted(set(filter(None, texts))))
    compile_id = np.array([ids.index(text) if text else -1 for text in texts], np.int32)[of_row]
    return CompiledRegions(rows, _places(trace, rows, calls.parent[rows], mask), compile_id, ids)


def _places(trace: Trace, rows: Int32s, inner: Int32s, mask: Bools) -> Int32s:
    """The place in `rows` of what each event `inner` is or lies in: int32, −1 for none; `mask` is true for `rows`."""
    place = scattered(len(trace) + 1, rows, np.arange(len(rows)), np.int32)
    around = ancestor(call_tree(trace).parent, mask)
    return place[np.where(inner >= 0, around[inner], -1)] if len(trace) else place[:0]


def _compile_id(name: str) -> str:
    match = _COMPILE_ID.search(name)
    return match[1] if match else ""


# --- pieces of a broken graph


@dataclass(frozen=True)
class TimeBetweenPieces:
    """The time in which Python runs between two pieces of a broken graph.

    Attributes:
        region: int32 [times], place in `CompiledRegions` of the region that goes on behind the break.
        start, end: int64 [times], from the end of the graph or region before it to its own start, ns; equal where the
            trace does not mark where a graph ends.
    """

    region: Int32s
    start: Int64s
    end: Int64s


@derived
def time_between_pieces(trace: Trace) -> TimeBetweenPieces:
    """The times between the pieces of broken graphs: before each region that lies in another one."""
    calls, regions = call_tree(trace), compiled_regions(trace)
    graphs = np.flatnonzero(_is_graph(trace) & calls.member).astype(np.int32)
    # A graph, or a region, ends a piece of the region directly around it.
    rows = np.concatenate([regions.rows, graphs])
    around = np.concatenate([regions.around, _places(trace, regions.rows, calls.parent[graphs], is_region(trace))])
    region = np.concatenate([np.arange(len(regions.rows)), np.full(len(graphs), -1)]).astype(np.int32)
    order = np.lexsort((trace.start[rows], around))
    order = order[around[order] >= 0]
    rows, around, region = rows[order], around[order], region[order]
    follows = np.append(False, around[1:] == around[:-1])[: len(rows)]
    before = np.where(follows, trace.end[np.roll(rows, 1)], trace.start[rows]) if len(rows) else trace.start[rows]
    nested = region >= 0
    end = trace.start[rows][nested]
    return TimeBetweenPieces(region[nested], np.minimum(before[nested], end), end)


def _is_graph(trace: Trace) -> Bools:
    """Spans of compiled graphs, the outermost: bool [events]."""
    fits = rows_named(
        trace, lambda name: name == _GRAPH or name.startswith(_FX_GRAPH), *RANGE_KINDS, holding=(_GRAPH, _FX_GRAPH)
    )
    return outermost(call_tree(trace).parent, fits)


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
    names, of_row = np.unique(trace.name[every], return_inverse=True)
    opened = [_PHASE_OF_SPAN.get(trace.strings.glance(code).removesuffix(COMPILER), -1) for code in names.tolist()]
    phase[every] = np.array(opened, np.int8)[of_row]
    whole = outermost(parent, every)
    phase[whole & (phase < 0)] = PHASES.index("at_run_time")
    rows = np.flatnonzero(whole).astype(np.int32)
    span = _places(trace, rows, np.arange(len(trace), dtype=np.int32), whole)
    ids_of_spans = _stated_ids(trace, rows, span)
    ids = tuple(sorted({text for text in ids_of_spans if text and text != _UNKNOWN_ID}))
    keep = np.array([text != _UNKNOWN_ID for text in ids_of_spans], np.bool_)
    compile_id = np.array([ids.index(text) if text in ids else -1 for text in ids_of_spans], np.int32)
    place = np.append(np.where(keep, np.cumsum(keep) - 1, -1), -1).astype(np.int32)
    return CompilerSpans(rows[keep], compile_id[keep], ids, place[span], phase)


def _stated_ids(trace: Trace, rows: Int32s, span: Int32s) -> list[str]:
    """The id that marks such as `dynamo_data: compile_id=0/0` give each span, inside it or just before; "" for none."""
    parent = call_tree(trace).parent
    marks = np.flatnonzero(rows_containing(trace, (_DATA,), *RANGE_KINDS))
    inside, adjacent = dict[int, str](), dict[int, str]()
    for row in marks[::-1].tolist():
        text = trace.strings.glance(int(trace.name[row])).rpartition(_DATA)[2]
        inside[int(span[row])] = adjacent[int(parent[row])] = text
    around = parent[rows].tolist()
    return [inside.get(place) or (adjacent.get(row, "") if row >= 0 else "") for place, row in enumerate(around)]


def time_by_phase(trace: Trace, window: tuple[int, int] | None, chosen: Bools) -> Int64s:
    """Time of each outermost span in each phase, ns: int64 [spans, phases]; its sum is the length of the span.

    Args:
        trace: the trace.
        window: the range of time that counts; None for all.
        chosen: bool [spans], those that count.
    """
    spans = compiler_spans(trace)
    opens = (spans.phase >= 0) & (spans.span >= 0)
    rows = np.flatnonzero(opens)
    rows = rows[chosen[spans.span[rows]]] if len(rows) else rows
    time = owned_times(trace, opens, window)[rows]
    result = np.zeros((len(spans.rows), len(PHASES)), np.int64)
    np.add.at(result, (spans.span[rows], spans.phase[rows]), time)
    return result
