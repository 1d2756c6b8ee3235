"""Python call stacks of the host's calls, whether a file spells them out or only holds the Python calls.

Torch writes `Call stack` into an operator's arguments (2021, and again where `verbose` is asked for), innermost frame
first. Else the stack is the Python calls around the operator. Both give the same frames; where they differ (a call that
overlaps another only partly), what the file spells out counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s, scattered
from kinetoscope.algorithms.grouping import Prefixes, group, prefix_tree
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.compile.kernels import compiled_stacks
from kinetoscope.model.execution.autograd import belongs_to, by_start
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.frames import MAX_DEPTH, SEPARATOR, frame_text, recorded_stack
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace

_STACKS_PER_BATCH: Final = 1000


@dataclass(frozen=True)
class CallStacks:
    """The call stacks of a trace.

    Attributes:
        code: int32 [events], the stack that each call of the host was made from, −1 for none. The stack of a Python
            call does not hold the call itself.
        texts: the frames of each stack, the outermost first, parted by semicolons.
    """

    code: Int32s
    texts: tuple[str, ...]


@derived
def call_stacks(trace: Trace, python: bool = False, in_forward: bool = False) -> CallStacks:
    """The Python calls around each call of the host; around Python calls themselves only with `python`.

    in_forward: an operator of the backward pass has the stack of its operator of the forward pass.
    """
    tree = call_tree(trace)
    rows = np.flatnonzero(tree.member if python else tree.member & (trace.kind != EventKind.PYTHON)).astype(np.int32)
    around = belongs_to(trace) if in_forward else tree.parent
    spelled, nodes, frames = _spelled(trace, rows, around), *_rebuilt(trace, rows, around)
    key = np.where(spelled >= 0, spelled, np.where(nodes >= 0, len(trace.strings) + nodes.astype(np.int64), -1))
    keys, places = np.unique(key, return_inverse=True)
    number: dict[str, int] = {"": -1}
    codes = np.empty(len(keys), np.int32)
    for place, text in enumerate(_texts(trace, frames, keys)):
        codes[place] = number.setdefault(text, len(number) - 1)
    code = scattered(len(trace), rows, codes[places], np.int32)
    _add_compiled(trace, code, rows, number)
    return CallStacks(code, tuple(number)[1:])


def _add_compiled(trace: Trace, code: Int32s, rows: Int32s, number: dict[str, int]) -> None:
    """Put the frames that a compiled call was made from behind those that it is called from; no frame ran in it."""
    compiled = compiled_stacks(trace)
    rows = rows[(compiled.code[rows] >= 0) & (trace.kind[rows] != EventKind.PYTHON)]
    texts = tuple(number)[1:]
    codes, first = group(code[rows], compiled.code[rows])
    new = []
    for outer, inner in zip(code[rows[first]].tolist(), compiled.code[rows[first]].tolist(), strict=True):
        parts = (texts[outer] if outer >= 0 else "", compiled.texts[inner])
        new.append(number.setdefault(SEPARATOR.join(filter(None, parts)), len(number) - 1))
    code[rows] = np.array(new, np.int32)[codes]


def _spelled(trace: Trace, rows: Int32s, around: Int32s) -> Int64s:
    """The string code of the argument of each row: its own, else that of the nearest call around it that has one.

    The stack of a call inside Python calls is those calls alone.
    """
    own = scattered(len(trace), rows, arguments.codes(trace, "call_stack", rows), np.int64)
    empty = [code for code in np.unique(own[own >= 0]).tolist() if not trace.strings.label(code).strip("; ")]
    own[np.isin(own, empty)] = -1
    parent = call_tree(trace).parent
    moved = around != parent
    if moved.any():  # their own stacks lead to the call of backward()
        own[ancestor(parent, moved) >= 0] = -1
    if not (own >= 0).any():
        return own[rows]
    source = ancestor(around, (own >= 0) | (trace.kind == EventKind.PYTHON))[rows]
    return np.where((source >= 0) & ((trace.kind[source] != EventKind.PYTHON) | (source == rows)), own[source], -1)


def _rebuilt(trace: Trace, rows: Int32s, around: Int32s) -> tuple[Int32s, Prefixes]:
    """The node of the Python calls around each row, −1 for none, and the tree of those."""
    is_frame = trace.kind == EventKind.PYTHON
    frames = prefix_tree(by_start(trace), around, np.where(is_frame, trace.name, np.int32(-1)))
    return np.where(around[rows] >= 0, frames.node[around[rows]], np.int32(-1)), frames


def _texts(trace: Trace, frames: Prefixes, keys: Int64s) -> Iterator[str]:
    """The text of each key: of strings as they are spelled, then of nodes, by their paths."""
    strings = len(trace.strings)
    for key in keys[keys < strings].tolist():
        yield recorded_stack(trace.strings.label(key)) if key >= 0 else ""
    labels, place = np.unique(frames.label, return_inverse=True)
    names = [frame_text(name) for name in trace.strings.labels(labels.tolist())]
    nodes = keys[keys >= strings] - strings
    for begin in range(0, len(nodes), _STACKS_PER_BATCH):
        for path in _paths(frames.parent, nodes[begin : begin + _STACKS_PER_BATCH]):
            yield SEPARATOR.join([names[k] for k in place[path].tolist()])


def _paths(parent: Int32s, nodes: Int64s) -> Iterator[Int64s]:
    """The nodes from the root to each node, or the innermost of them."""
    levels: list[Int64s] = []
    while (nodes >= 0).any() and len(levels) < MAX_DEPTH:
        levels.append(nodes)
        nodes = np.where(nodes >= 0, parent[nodes], -1)
    for path in np.stack(levels[::-1], axis=1):
        yield path[path >= 0]
