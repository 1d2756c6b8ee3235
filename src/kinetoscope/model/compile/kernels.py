"""Calls of compiled code in a trace: fused kernels, and operators that generated code calls, joined with its text.

A call of a graph is a range `## Call CompiledFxGraph KEY ##`. The graph is the one of that key in torch's log; else
that of the generated file among the Python calls in the range; else the only one with these kernels in this order (or
these operators, where no kernel was recorded).
Within the range the n-th call of a name is the n-th call of that name in the code, where there are as many of them;
else a call has what all places of its name agree in.

A kernel whose call was not recorded as an operator (before torch 2.2) stands for itself, at the call that launched it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, scattered
from kinetoscope.algorithms.grouping import group
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.compile.graphs import CompiledGraph, CompiledSite, compiled_graphs
from kinetoscope.model.compile.provenance import SourceLines, source_text
from kinetoscope.model.execution.call_tree import call_tree, enclosing_op
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.frames import CodeLocation
from kinetoscope.model.execution.marks import RANGE_KINDS
from kinetoscope.model.execution.program import COMPILED_WORDS, is_compiled_kernel, operators_in_name
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_beginning, rows_named
from kinetoscope.model.trace.trace import Trace

CALL_OF_GRAPH: Final = "## Call CompiledFxGraph "
"""Beginning of the names of the ranges around each call of a compiled graph."""

_FUNCTIONS: Final = ("CompiledFunction", "CompiledFunctionBackward")
_KEY: Final = re.compile(r"## Call CompiledFxGraph (\w+) ##")
_GENERATED_FRAME: Final = re.compile(r"(?:^|/)(c[a-z2-7]{50,52}\.py)\(\d+\): ")
_IN_TRACE_ONLY: Final = re.compile(r"\Agraph_\d+_(?=cpp_)|(?<=\w)\.\w+\Z")
"""Parts of names that generated code does not have: the number of the graph, and the overload."""


@dataclass(frozen=True)
class CompiledCalls:
    """Calls of compiled code.

    Attributes:
        rows: int32 [calls], their events in order of time: calls of fused kernels, and the outermost operators that
            generated code calls.
        name: int32 [calls], what each calls.
        is_fused: bool [calls], calls of kernels that were generated.
        site: int32 [calls], place in `sites`; −1 for operators of which no code is known.
        graph: int32 [calls], place in `graphs`; −1 where it is not known.
        sites: what is known of the calls. Of a kernel of which no code is known that is what its name says.
        graphs: the graphs of the files beside the trace.
        call: int32 [events], the call among `rows` that each event of the host is or lies in, −1 for none.
        in_graph: int32 [events], the call of a compiled graph that each event lies in, −1 for none.
    """

    rows: Int32s
    name: Int32s
    is_fused: Bools
    site: Int32s
    graph: Int32s
    sites: tuple[CompiledSite, ...]
    graphs: tuple[CompiledGraph, ...]
    call: Int32s
    in_graph: Int32s


def sources_of_groups(calls: CompiledCalls, code: Int32s, groups: int, site: Int32s) -> list[str]:
    """The lines of all sites of each group, `model.py:10, 30`; "" where none is known.

    Args:
        calls: those of the trace.
        code: int32 [n], the group of each piece.
        groups: how many there are.
        site: int32 [n], place of each piece's site in `calls.sites`, negative for none.
    """
    places: list[list[CodeLocation]] = [[] for _ in range(groups)]
    _, first = group(code, site)
    for number, of_site in zip(code[first].tolist(), site[first].tolist(), strict=True):
        if of_site >= 0:
            places[number] += calls.sites[of_site].lines.places
    return [source_text(each) for each in places]


@dataclass(frozen=True)
class CompiledStacks:
    """The stacks of compiled calls, as far as files beside the trace tell them.

    Attributes:
        code: int32 [events], the stack of the compiled call that each event is or lies in, −1 for none.
        texts: frames of the compiled function and what it calls, the outermost first, parted by semicolons; of a kernel
            that several lines were fused in the first of them.
    """

    code: Int32s
    texts: tuple[str, ...]


@derived
def compiled_stacks(trace: Trace) -> CompiledStacks:
    """The places of the program that compiled calls come from, as stacks."""
    if not trace.source.files("compile"):
        return CompiledStacks(np.full(len(trace), -1, np.int32), ())
    calls = compiled_calls(trace)
    number: dict[str, int] = {"": -1}
    of_site = [number.setdefault(next(iter(each.lines.stacks), ""), len(number) - 1) for each in calls.sites]
    of_call = np.array([*of_site, -1], np.int32)[calls.site]
    return CompiledStacks(np.append(of_call, np.int32(-1))[calls.call], tuple(number)[1:])


@derived
def compiled_calls(trace: Trace) -> CompiledCalls:
    """Find the calls of compiled code, and what is known of each."""
    parent = call_tree(trace).parent
    in_graph = _inside(parent, _graph_calls(trace))
    fused = rows_named(trace, is_compiled_kernel, EventKind.HOST_OP, holding=COMPILED_WORDS)
    names = trace.name.copy()
    launches = _launches_of_their_own(trace, _inside(parent, fused))
    names[launches.keys] = launches.names
    fused[launches.keys] = True
    chosen = fused | _library_calls(trace, in_graph)
    rows = np.flatnonzero(chosen).astype(np.int32)
    rows = rows[np.argsort(trace.start[rows], kind="stable")]
    join = _Join(trace, in_graph, compiled_graphs(trace))
    site, graph = join.of(rows, names[rows], fused[rows])
    number = scattered(len(trace) + 1, rows, np.arange(len(rows)), np.int32)
    call = number[_inside(parent, chosen)]
    return CompiledCalls(rows, names[rows], fused[rows], site, graph, tuple(join.sites), join.graphs, call, in_graph)


def _inside(parent: Int32s, calls: Bools) -> Int32s:
    """The call that each event is or lies in, −1 for none: int32 [events]."""
    return ancestor(parent, calls) if calls.any() else np.full(len(parent), -1, np.int32)


def _graph_calls(trace: Trace) -> Bools:
    """Calls of compiled graphs; before torch 2.2, which named none, those of compiled functions: bool [events]."""
    calls = rows_beginning(trace, (CALL_OF_GRAPH,), *RANGE_KINDS)
    return calls if calls.any() else rows_named(trace, _FUNCTIONS.__contains__, *RANGE_KINDS, holding=_FUNCTIONS)


class _Launches(NamedTuple):
    """Rows of launches, and the names of the kernels that they launch."""

    keys: Int32s
    names: Int32s


def _launches_of_their_own(trace: Trace, in_fused: Int32s) -> _Launches:
    """Launches of one generated kernel, which no call of that kernel is recorded around."""
    generated = rows_named(trace, is_compiled_kernel, EventKind.KERNEL, holding=COMPILED_WORDS)
    if not generated.any():
        return _Launches(np.empty(0, np.int32), np.empty(0, np.int32))
    work = device_work(trace)
    place = np.flatnonzero(generated[work.rows])
    place = place[(work.caller[place] >= 0) & (work.caller[place] == work.launch[place])]
    caller = work.caller[place]
    alone = np.bincount(work.caller[work.caller >= 0], minlength=len(trace))[caller] == 1
    place = place[alone & (in_fused[caller] < 0)]
    return _Launches(work.caller[place], trace.name[work.rows[place]])


def _library_calls(trace: Trace, in_graph: Int32s) -> Bools:
    """Operators that generated code calls itself: in a call of a graph, and in no operator inside that."""
    if not (in_graph >= 0).any():
        return np.zeros(len(trace), np.bool_)
    operators = trace.kind == EventKind.HOST_OP
    above = call_tree(trace).parent
    outer = np.where(above >= 0, enclosing_op(trace)[above], np.int32(-1))
    around = np.where(outer >= 0, in_graph[outer], np.int32(-1))
    inside: Bools = operators & (in_graph >= 0) & ((around != in_graph) | (outer == in_graph))
    inside &= in_graph != np.arange(len(trace), dtype=np.int32)
    return inside


class _Join:
    """Finds the code of calls. `sites` grows as calls of kernels without code come."""

    def __init__(self, trace: Trace, in_graph: Int32s, graphs: tuple[CompiledGraph, ...]) -> None:
        self.graphs = graphs
        self.sites: list[CompiledSite] = [site for graph in graphs for site in graph.sites]
        self._trace, self._in_graph = trace, in_graph
        self._places: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
        place = 0
        for number, graph in enumerate(graphs):
            for site in graph.sites:
                self._places[number, site.callee].append(place)
                self._places[-1, site.callee].append(place)
                place += 1
        self._of_name: dict[str, int] = {}

    def of(self, rows: Int32s, called: Int32s, is_fused: Bools) -> tuple[Int32s, Int32s]:
        """Site and graph of each call of something by name; the rows stand in order of time."""
        trace = self._trace
        distinct, places = np.unique(called, return_inverse=True)
        names = [_IN_TRACE_ONLY.sub("", text) for text in trace.strings.labels(distinct.tolist())]
        name = places.astype(np.int32)
        around = self._in_graph[rows]
        graph = self._graphs_of(rows, [names[each] for each in name.tolist()], is_fused)[around]
        # The how-manieth call of its name in its range, and of how many.
        code, first = group(around, name)
        order = np.argsort(code, kind="stable")
        count = np.bincount(code, minlength=len(first))
        ordinal = np.empty(len(rows), np.int64)
        ordinal[order] = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        files = arguments.codes(trace, "kernel_file", rows)
        same, representative = group(graph, name, ordinal, count[code], files, is_fused.astype(np.int8))
        site = np.array(
            [
                self._site(
                    int(graph[row]),
                    names[name[row]],
                    int(ordinal[row]) if around[row] >= 0 else -1,
                    int(count[code[row]]),
                    trace.strings.label(int(files[row])) if files[row] >= 0 else "",
                    fused=bool(is_fused[row]),
                )
                for row in representative.tolist()
            ],
            np.int32,
        )
        return site[same], graph

    def _site(self, graph: int, name: str, ordinal: int, count: int, file: str, *, fused: bool) -> int:
        places = self._places.get((graph, name), [])
        if graph < 0 and not fused:
            return -1
        if graph < 0 and file:
            places = [place for place in places if self._file(place, name) in ("", file)]
        if graph >= 0 and len(places) == count and 0 <= ordinal < count:
            return places[ordinal]
        if places and len({self.sites[place] for place in places}) == 1:
            return places[0]
        return self._by_name(name) if fused else -1

    def _file(self, place: int, name: str) -> str:
        """The file of its own that the kernel of a site has."""
        for graph in self.graphs:
            if place < len(graph.sites):
                kernel = graph.code.kernels.get(name)
                return kernel.file if kernel is not None else ""
            place -= len(graph.sites)
        return ""

    def _by_name(self, name: str) -> int:
        if name not in self._of_name:
            self._of_name[name] = len(self.sites)
            self.sites.append(CompiledSite(name, operators_in_name(name), "", SourceLines()))
        return self._of_name[name]

    def _graphs_of(self, rows: Int32s, names: list[str], is_fused: Bools) -> Int32s:
        """The graph of each range, by its row; the last element is for calls in none: int32 [events + 1]."""
        trace = self._trace
        graph = np.full(len(trace) + 1, -1, np.int32)
        if not self.graphs:
            return graph
        ranges = np.unique(self._in_graph[self._in_graph >= 0])
        called: dict[bool, defaultdict[int, list[str]]] = {True: defaultdict(list), False: defaultdict(list)}
        for around, name, fused in zip(self._in_graph[rows].tolist(), names, is_fused.tolist(), strict=True):
            called[fused][around].append(name)
        files = self._files_of_ranges()
        by_key = {each.key: number for number, each in enumerate(self.graphs) if each.key}
        by_file = {each.code.file.rpartition("/")[2]: number for number, each in enumerate(self.graphs)}
        answers: dict[tuple[int, str, tuple[str, ...], bool], int] = {}
        for row in ranges.tolist():
            fused = bool(called[True][row])  # calls of C++ kernels may not be recorded: then the operators tell
            question = (int(trace.name[row]), files.get(row, ""), tuple(called[fused][row]), fused)
            if question not in answers:
                match = _KEY.match(trace.strings.label(question[0]))
                known = by_key.get(match[1] if match else "", -1)
                known = by_file.get(question[1], -1) if known < 0 else known
                answers[question] = self._by_calls(question[2], fused=fused) if known < 0 else known
            graph[row] = answers[question]
        return graph

    def _files_of_ranges(self) -> dict[int, str]:
        """The generated file whose function a range calls, where Python calls were recorded."""
        trace = self._trace
        frames = rows_named(
            trace, lambda name: _GENERATED_FRAME.search(name) is not None, EventKind.PYTHON, holding=(".py(",)
        )
        files: dict[int, str] = {}
        for row in np.flatnonzero(frames).tolist():
            match = _GENERATED_FRAME.search(trace.strings.label(int(trace.name[row])))
            if match and self._in_graph[row] >= 0:
                files.setdefault(int(self._in_graph[row]), match[1])
        return files

    def _by_calls(self, names: tuple[str, ...], *, fused: bool) -> int:
        """The only graph whose kernels, or operators, are these in this order, or one of several that say the same."""
        fits = [
            number
            for number, graph in enumerate(self.graphs)
            if names
            and tuple(each.callee for each in graph.sites if (each.callee in graph.code.kernels) == fused) == names
        ]
        return fits[0] if len({self.graphs[number].sites for number in fits}) == 1 else -1
