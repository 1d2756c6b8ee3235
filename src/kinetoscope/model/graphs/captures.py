"""Captures of graphs: what was launched between the beginning and the end of a capture becomes the nodes of a graph."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int8s, Int32s, Int64s, any_of
from kinetoscope.model.execution.call_tree import call_tree, enclosing_op
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.runtime_calls import RuntimeCallKind, runtime_call_kinds
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.mangled import demangled
from kinetoscope.model.trace.names import rows_containing
from kinetoscope.model.trace.trace import Trace

KERNEL_ARGUMENT: Final = "kernel"
"""The argument in which ROCm's launches name the kernel; CUDA's do not."""

TRITON: Final = "triton_"
"""How the names of the operators begin that torch.compile makes of its kernels: they are the kernels' names."""

NODE_CALLS: Final = (RuntimeCallKind.LAUNCH, RuntimeCallKind.COPY, RuntimeCallKind.COPY_AND_WAIT, RuntimeCallKind.SET)
"""Calls of the runtime that become nodes with work of the device."""

HOST_NODES: Final = ("LaunchHostFunc",)
"""In the names of calls that become nodes on the host: no work of a device follows."""

UNKNOWN_TEXT: Final = 0
"""The hash of a text that nothing tells."""

_SIZE: Final = re.compile(r"capture_(\d{1,9})(?!\d)")
"""The annotation of vLLM and SGLang around the capture of one size, `capture_32_FULL`."""

_SIZE_IN_URL: Final = re.compile(r"(?:^|/)bs_(\d{1,9})(?!\d)[^/]*\Z")
"""The file in which SGLang records the captures of one size, `bs_32_rank0.json.gz`."""

MAX_LAUNCHES_BEFORE: Final = 4
"""Launches before a capture, as a multiple of its own, among which a run of it is looked for."""

_COPY_KERNEL: Final = "__amd_rocclr_copy"
_SET_KERNEL: Final = "__amd_rocclr_fill"
"""Kernels by which ROCm copies and sets memory, also that of nodes."""


@dataclass(frozen=True)
class Captures:
    """The captures of a trace, in order of their beginning.

    Attributes:
        begin, end: int64 [captures], when the capture begins and ends, ns.
        span: int32 [captures], row of the annotation around it that names the size, else of the outermost one; −1.
        offsets: int64 [captures + 1], where the nodes of each begin.
        launch: int32 [nodes], row of the call that made the node.
        event: int8 [nodes], the `EventKind` of its work: KERNEL, MEMCPY or MEMSET.
        kernel: int32 [nodes], code of the kernel's name; −1 where nothing tells.
        shape: int32 [nodes], row whose arguments tell the grid and the block; −1 where nothing does.
        is_stated: bool [nodes], the launch or its operator names the kernel; else a run before the capture does.
    """

    begin: Int64s
    end: Int64s
    span: Int32s
    offsets: Int64s
    launch: Int32s
    event: Int8s
    kernel: Int32s
    shape: Int32s
    is_stated: Bools

    def __len__(self) -> int:
        return len(self.begin)


@dataclass(frozen=True)
class Nodes:
    """The nodes of a graph, in the order of their capture or of their work.

    Attributes:
        event: int8 [nodes], the `EventKind` of each.
        name: int64 [nodes], a hash of the kernel's name, UNKNOWN_TEXT where nothing tells; copies and sets have none.
        shape: int64 [nodes], a hash of grid and block, UNKNOWN_TEXT where nothing tells.
    """

    event: Int8s
    name: Int64s
    shape: Int64s

    def __len__(self) -> int:
        return len(self.event)


@dataclass(frozen=True)
class CapturedGraph:
    """A capture without its trace: what tells which replays are its own.

    Attributes:
        recording: which of the recordings has it; −1 the trace that replays.
        capture: its place among the captures of that recording.
        begin, end: ns since 1970 where the recording tells, else as it counts them.
        label: the annotation around it, "" for none.
        round: the captures of one round have the same number: those in one annotation, or all without.
        size: the batch or the number of tokens that it was captured for, −1 if nothing tells.
        nodes: of the graph.
        is_stated: see `Captures`.
        content: a hash of the operators of its nodes and of their shapes.
    """

    recording: int
    capture: int
    begin: int
    end: int
    label: str
    round: int
    size: int
    nodes: Nodes
    is_stated: Bools
    content: int


@derived
def captures(trace: Trace) -> Captures:
    """The captures of a trace; one whose end was not recorded is none.

    A launch becomes a node if it starts no work itself. What other threads launch while one captures counts, for the
    backward pass launches on threads of its own; not where several capture at once, or where it started work.
    """
    kinds = runtime_call_kinds(trace)
    begins, ends = _pairs(trace, kinds)
    begin, end = trace.end[begins], trace.start[ends]
    work = device_work(trace)
    launch = np.flatnonzero(any_of(kinds, NODE_CALLS)).astype(np.int32)
    launch = launch[~np.isin(launch, work.launch) & ~rows_containing(trace, HOST_NODES, EventKind.RUNTIME)[launch]]
    launch = launch[np.argsort(trace.start[launch], kind="stable")]
    start, track = trace.start[launch], trace.track[launch]
    open_captures = np.searchsorted(np.sort(begin), start, "right") - np.searchsorted(np.sort(end), start, "left")
    chosen = list[Int32s]()
    for row, since, until in zip(begins.tolist(), begin.tolist(), end.tolist(), strict=True):
        part = slice(*np.searchsorted(start, (since, until)).tolist())
        own = (track[part] == trace.track[row]) | (open_captures[part] == 1)
        chosen.append(launch[part][own])
    nodes = np.concatenate([launch[:0], *chosen])
    event = np.full(len(nodes), EventKind.KERNEL, np.int8)
    event[any_of(kinds[nodes], (RuntimeCallKind.COPY, RuntimeCallKind.COPY_AND_WAIT))] = EventKind.MEMCPY
    event[kinds[nodes] == RuntimeCallKind.SET] = EventKind.MEMSET
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in chosen])]).astype(np.int64)
    kernel = _named_by_launch(trace, nodes)
    is_stated = (kernel >= 0) | (event != EventKind.KERNEL)
    run = _runs_before(trace, offsets, nodes, begin)
    kernel = np.where((kernel < 0) & (run >= 0), trace.name[run], kernel)
    return Captures(
        begin=begin,
        end=end,
        span=_spans(trace, begins),
        offsets=offsets,
        launch=nodes,
        event=event,
        kernel=np.where(event == EventKind.KERNEL, kernel, -1).astype(np.int32),
        shape=np.where(arguments.codes(trace, "grid", nodes) >= 0, nodes, run).astype(np.int32),
        is_stated=is_stated,
    )


def captured_graphs(trace: Trace, recording: int) -> list[CapturedGraph]:
    """The captures of a recording, each without its trace."""
    every = captures(trace)
    name = _hashed(trace, every.kernel, demangled)  # launches name kernels as the file has them
    shape = _shapes(trace, every.shape)
    op = enclosing_op(trace)[every.launch]
    columns = np.where(op >= 0, trace.name[op], -1), arguments.codes_where(trace, "input_dims", op)
    content = [_hashed(trace, codes) for codes in columns]
    in_url = _SIZE_IN_URL.search(trace.source.url.replace("\\", "/")) if recording >= 0 else None
    result = []
    for place in range(len(every)):
        part = slice(int(every.offsets[place]), int(every.offsets[place + 1]))
        span = int(every.span[place])
        label = trace.strings.label(int(trace.name[span])) if span >= 0 else ""
        size = _SIZE.match(label) or in_url
        result.append(
            CapturedGraph(
                recording=recording,
                capture=place,
                begin=trace.base + int(every.begin[place]),
                end=trace.base + int(every.end[place]),
                label=label,
                round=hash((recording, span)) if span >= 0 else 0,
                size=int(size[1]) if size else -1,
                nodes=Nodes(every.event[part], name[part], shape[part]),
                is_stated=every.is_stated[part],
                content=hash(tuple(column[part].tobytes() for column in content)),
            )
        )
    return result


def nodes_of_work(trace: Trace, rows: Int32s) -> Nodes:
    """The nodes that device work, given by row, is a run of."""
    event = trace.kind[rows].astype(np.int8)
    codes = np.unique(trace.name[rows])
    labels = trace.strings.labels(codes.tolist())
    for kind, words in ((EventKind.MEMCPY, _COPY_KERNEL), (EventKind.MEMSET, _SET_KERNEL)):
        by_kernel = codes[[label.startswith(words) for label in labels]]
        event[np.isin(trace.name[rows], by_kernel)] = kind
    name = np.where(event == EventKind.KERNEL, _hashed(trace, trace.name[rows], demangled), UNKNOWN_TEXT)
    return Nodes(event, name, _shapes(trace, rows))


# --- the parts


def _pairs(trace: Trace, kinds: Int8s) -> tuple[Int64s, Int64s]:
    """Rows of the beginnings and of the ends of captures: the next end on the thread, before another begins there."""
    rows = np.flatnonzero(any_of(kinds, (RuntimeCallKind.BEGIN_CAPTURE, RuntimeCallKind.END_CAPTURE)))
    rows = rows[np.lexsort((trace.start[rows], trace.track[rows]))]
    begins = kinds[rows] == RuntimeCallKind.BEGIN_CAPTURE
    pair = np.flatnonzero(begins[:-1] & ~begins[1:] & (trace.track[rows[:-1]] == trace.track[rows[1:]]))
    pair = pair[np.argsort(trace.start[rows[pair]], kind="stable")]
    return rows[pair], rows[pair + 1]


def _named_by_launch(trace: Trace, nodes: Int32s) -> Int64s:
    """Code of the kernel's name by the launch, or by its operator where that is a kernel of Triton, else −1."""
    stated = trace.codes_of(KERNEL_ARGUMENT, nodes)
    op = enclosing_op(trace)[nodes]
    names = np.where(op >= 0, trace.name[op], -1)
    triton = [code for code in np.unique(names[names >= 0]).tolist() if trace.strings.label(code).startswith(TRITON)]
    return np.where((stated < 0) & np.isin(names, triton), names, stated)


def _runs_before(trace: Trace, offsets: Int64s, nodes: Int32s, begin: Int64s) -> Int32s:
    """The work that a run before the capture started at the place of each node: int32 [nodes], a row, −1 for none.

    Programs run what they capture once or twice before. The last launches on the thread of the capture, as many as it
    has, by the same functions from the same operators, are such a run.
    """
    result = np.full(len(nodes), -1, np.int32)
    work = device_work(trace)
    launch, first = np.unique(work.launch, return_index=True)
    launch, rows = launch[launch >= 0], work.rows[first[launch >= 0]]
    order = np.argsort(trace.start[launch], kind="stable")
    launch, rows = launch[order], rows[order]
    ops = enclosing_op(trace)
    for place, since in enumerate(begin.tolist()):
        part = slice(int(offsets[place]), int(offsets[place + 1]))
        own = nodes[part]
        if not len(own):
            continue
        before = np.flatnonzero((trace.track[launch] == trace.track[own[0]]) & (trace.start[launch] < since))
        before = before[len(before) - MAX_LAUNCHES_BEFORE * len(own) :] if len(before) else before
        keys = [_steps(trace, ops, calls) for calls in (launch[before], own)]
        at = _last_place(keys[0], keys[1])
        if at >= 0:
            result[part] = rows[before[at : at + len(own)]]
    return result


def _steps(trace: Trace, ops: Int32s, calls: Int32s) -> Int64s:
    """A number for each call: that of its function and of the operator around it."""
    op = ops[calls]
    return trace.name[calls].astype(np.int64) << 32 | np.where(op >= 0, trace.name[op], 0)


def _last_place(text: Int64s, word: Int64s) -> int:
    """The last place at which a sequence stands in another, −1 for nowhere."""
    starts = np.flatnonzero(text[: len(text) - len(word) + 1] == word[0]) if len(text) >= len(word) else text[:0]
    same = (int(at) for at in reversed(starts.tolist()) if np.array_equal(text[at : at + len(word)], word))
    return next(same, -1)


def _spans(trace: Trace, rows: Int64s) -> Int32s:
    """The annotation around each of a few calls that names a size, else the outermost: int32 [rows], −1 for none."""
    parent, is_annotation = call_tree(trace).parent, trace.kind == EventKind.ANNOTATION
    result = np.full(len(rows), -1, np.int32)
    for place, row in enumerate(rows.tolist()):
        while row >= 0:
            if is_annotation[row]:
                result[place] = row
                if _SIZE.match(trace.strings.label(int(trace.name[row]))):
                    break
            row = int(parent[row])
    return result


def _shapes(trace: Trace, rows: Int32s) -> Int64s:
    grid, block = (
        _hashed(trace, arguments.codes_where(trace, key, rows), lambda text: text.replace(" ", ""))
        for key in ("grid", "block")
    )
    return np.where((grid != UNKNOWN_TEXT) & (block != UNKNOWN_TEXT), grid * 31 + block, UNKNOWN_TEXT)


def _hashed(trace: Trace, codes: Int64s | Int32s, spelling: Callable[[str], str] = str) -> Int64s:
    """Hashes of texts, the same in all traces of this process; UNKNOWN_TEXT for a negative code."""
    unique, places = np.unique(codes, return_inverse=True)
    hashes = [hash(spelling(trace.strings.label(code))) if code >= 0 else UNKNOWN_TEXT for code in unique.tolist()]
    return np.array(hashes, np.int64)[places]
