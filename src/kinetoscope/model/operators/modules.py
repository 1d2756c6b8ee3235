"""The tree of modules, and the module that each call of the host works for, in the forward or in the backward pass."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, marked, scattered
from kinetoscope.algorithms.grouping import NO_NODE, Prefixes, prefix_tree
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.compile.kernels import compiled_calls
from kinetoscope.model.execution.autograd import backward_links, belongs_to, by_start
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.calls import call_names
from kinetoscope.model.execution.frames import MAX_DEPTH
from kinetoscope.model.execution.marks import LIGHTNING, MODULE, RANGE_KINDS, is_module_call
from kinetoscope.model.graphs.annotated import BACKWARD_RANGE
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.names import rows_beginning
from kinetoscope.model.trace.trace import Trace

Origin = Literal["frames", "spans", "operators", "compiled", "none"]
"""frames: Python calls named `nn.Module: `, nested by time. spans: PyTorch Lightning's, nested by their dotted names.
operators: TorchScript wrote the modules around each operator into its arguments. compiled: files of torch.compile say
whose parameters its kernels read."""

LIGHTNING_MODULE: Final = f"{LIGHTNING}module]"
"""Beginning of the names of Lightning's spans of modules: `[pl][module]torch.nn.Linear: net.0`."""

_INSTANCE: Final = re.compile(r"([^(:]+)\(([^)]*)\)")
_SELF: Final = "SELF"
"""What TorchScript calls a module that calls a method of its own."""

_MAX_LEVELS: Final = 100
"""Levels of a path; what is deeper counts as one name."""

_Parts = list[tuple[str, str]]
"""Name and class of each module of a path; "" where the class is unknown."""


@dataclass(frozen=True)
class Modules:
    """The modules of a trace; one that several others call is one for each of them.

    Attributes:
        origin: the records that they are from.
        names: of each module, without those around it; a module comes after the one that it stands in.
        parent: int32 [modules], the module around each, −1 for roots.
        node: int32 [events], the module that each call of the host works for, −1 for none. The backward pass works for
            the module whose forward pass it runs backwards.
        is_call: bool [events], calls of modules.
        is_backward: bool [events], what happens inside an operator of the backward pass, wherever that is.
        owner: bool [events], the calls that say for whom those inside them work: calls of modules, and operators of the
            backward pass that are linked to the forward pass.
    """

    origin: Origin
    names: tuple[str, ...]
    parent: Int32s
    node: Int32s
    is_call: Bools
    is_backward: Bools
    owner: Bools

    def __len__(self) -> int:
        return len(self.names)

    @property
    def paths(self) -> list[str]:
        """The names from the root to each module, parted by slashes."""
        paths: list[str] = []
        for name, parent in zip(self.names, self.parent.tolist(), strict=True):
            paths.append(f"{paths[parent]}/{name}" if parent >= 0 else name)
        return paths

    @property
    def depth(self) -> list[int]:
        """How many modules are around each."""
        depth: list[int] = []
        for parent in self.parent.tolist():
            depth.append(depth[parent] + 1 if parent >= 0 else 0)
        return depth


@derived
def modules(trace: Trace) -> Modules:
    """Find the modules of a trace."""
    tree, forward = call_tree(trace), backward_links(trace).forward
    linked = forward >= 0
    origin, is_call, names, parent, node = _module_tree(trace, belongs_to(trace), linked)
    is_backward = ancestor(tree.parent, linked | _is_annotated_backward(trace)) >= 0
    return Modules(origin, names, parent, node, is_call, is_backward, is_call | linked)


def _is_annotated_backward(trace: Trace) -> Bools:
    """The backward pass in graphs, as annotations of their nodes tell it: bool [events]."""
    code = trace.strings.code(BACKWARD_RANGE)
    rows = np.arange(len(trace)) >= trace.recorded
    return rows & (trace.name == code) if code >= 0 else np.zeros(len(trace), np.bool_)


_Tree = tuple[Origin, Bools, tuple[str, ...], Int32s, Int32s]


def _module_tree(trace: Trace, around: Int32s, linked: Bools) -> _Tree:
    member = call_tree(trace).member
    frames = is_module_call(trace) & member & (call_tree(trace).depth < MAX_DEPTH)
    if frames.any():
        return _nested(trace, frames, around, linked)
    spans = member & rows_beginning(trace, (LIGHTNING_MODULE,), *RANGE_KINDS)
    if spans.any():
        return _spelled(trace, "spans", spans, trace.name, _labelled(trace, _dotted), around)
    ops = trace.rows(EventKind.HOST_OP)
    hierarchy = scattered(len(trace), ops, arguments.codes(trace, "module_hierarchy", ops), np.int64)
    spelled = [code for code in np.unique(hierarchy[hierarchy >= 0]).tolist() if _hierarchy(trace.strings.label(code))]
    inside = member & np.isin(hierarchy, spelled)
    if inside.any():
        return _spelled(trace, "operators", inside, hierarchy, _labelled(trace, _hierarchy), around)
    calls = compiled_calls(trace)
    of_site = np.array([*(number if each.module else -1 for number, each in enumerate(calls.sites)), -1], np.int32)
    site = of_site[calls.site]
    if (site >= 0).any():
        whose = scattered(len(trace), calls.rows, site, np.int32)
        paths = (calls.sites[number].module for number in range(len(calls.sites)))
        parts = [[(name, "") for name in path.split(".", _MAX_LEVELS)] for path in paths]
        return _spelled(trace, "compiled", whose >= 0, whose, parts.__getitem__, around)
    nothing = np.full(len(trace), NO_NODE, np.int32)
    return "none", np.zeros(len(trace), np.bool_), (), np.empty(0, np.int32), nothing


def _nested(trace: Trace, is_call: Bools, around: Int32s, linked: Bools) -> _Tree:
    """Modules as their calls nest: the same names from the root on are the same module."""
    tree = call_tree(trace)
    paths = prefix_tree(by_start(trace), around, np.where(is_call, call_names(trace), np.int32(-1)))
    in_forward = marked(len(paths.label), paths.node[is_call & (ancestor(tree.parent, linked) < 0)])
    number, parent, label = _once(paths, in_forward)
    names = tuple(trace.strings.label(code).removeprefix(MODULE) for code in label)
    node = np.where(paths.node >= 0, number[paths.node], np.int32(NO_NODE))
    return "frames", is_call, names, parent, node


def _once(paths: Prefixes, in_forward: Bools) -> tuple[Int32s, Int32s, list[int]]:
    """The tree without a second place for modules that checkpointing calls anew: new numbers, parents and labels.

    What is called anew is called within the backward pass of a module inside it, or of one beside that. A name is that
    of one object, so it is the nearest module of this name that is around, or in one that is.
    """
    number, parent, label = [NO_NODE] * len(in_forward), list[int](), list[int]()
    places: dict[tuple[int, int], int] = {}
    for node, (above, name, fixed) in enumerate(
        zip(paths.parent.tolist(), paths.label.tolist(), in_forward.tolist(), strict=True)
    ):
        around = number[above] if above >= 0 else NO_NODE
        node_of_name = places.get((around, name), NO_NODE) if fixed else _nearest(around, name, places, parent, label)
        if node_of_name == NO_NODE:
            node_of_name = places[around, name] = len(parent)
            parent.append(around)
            label.append(name)
        number[node] = node_of_name
    return np.array(number, np.int32), np.array(parent, np.int32), label


def _nearest(around: int, name: int, places: dict[tuple[int, int], int], parent: list[int], label: list[int]) -> int:
    while around != NO_NODE:
        if (around, name) in places:
            return places[around, name]
        if label[around] == name:
            return around
        around = parent[around]
    return places.get((NO_NODE, name), NO_NODE)


def _spelled(
    trace: Trace, origin: Origin, is_call: Bools, text: Int32s | Int64s, spell: Callable[[int], _Parts], around: Int32s
) -> _Tree:
    """Modules whose calls have a code, in `text`, of which `spell` gives the whole path."""
    rows = np.flatnonzero(is_call)
    codes, places = np.unique(text[rows], return_inverse=True)
    spelled = _SpelledModules({}, [], [])
    own = scattered(
        len(trace), rows, np.array([spelled.add(spell(code)) for code in codes.tolist()], np.int32)[places], np.int32
    )
    nearest = ancestor(around, is_call)
    node = np.where(nearest >= 0, own[nearest], np.int32(NO_NODE))
    names = (
        f"{name}({kind})" if kind else name for (_, name), kind in zip(spelled.number, spelled.classes, strict=True)
    )
    return origin, is_call, tuple(names), np.array(spelled.parent, np.int32), node


def _labelled(trace: Trace, spell: Callable[[str], _Parts]) -> Callable[[int], _Parts]:
    """`spell`, of the text of a string's code."""
    return lambda code: spell(trace.strings.label(code))


@dataclass(frozen=True)
class _SpelledModules:
    """Modules as they come: numbers by the module around and the name; classes, "" where unknown; modules around."""

    number: dict[tuple[int, str], int]
    classes: list[str]
    parent: list[int]

    def add(self, parts: _Parts) -> int:
        """The number of the module of this path; it and those around it get one if they have none yet."""
        node = NO_NODE
        for name, kind in parts:
            around, node = node, self.number.setdefault((node, name), len(self.parent))
            if node == len(self.parent):
                self.parent.append(around)
                self.classes.append("")
            self.classes[node] = self.classes[node] or kind
        return node


def _dotted(text: str) -> _Parts:
    """`[pl][module]torch.nn.modules.linear.Linear: net.0` is module 0, a Linear, in module net."""
    kind, _, path = text.removeprefix(LIGHTNING_MODULE).rpartition(": ")
    *around, last = path.strip().split(".", _MAX_LEVELS)
    return [*((name, "") for name in around), (last, kind.rpartition(".")[2])]


def _hierarchy(text: str) -> _Parts:
    """`TOP(Net)::forward.conv(Conv2d)::forward.SELF(Conv2d)::_conv_forward` is conv, a Conv2d, in a Net."""
    matches = (_INSTANCE.match(part) for part in text.split(".", _MAX_LEVELS))
    return [(match[1], match[2]) for match in matches if match and match[1] != _SELF]
