"""Paths around each call: annotations, modules and operators, by names that are the same in every run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s
from kinetoscope.algorithms.grouping import Prefixes, prefix_tree
from kinetoscope.compare.diff.normalize_names import normalized, normalized_frame, without_digits
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.calls import call_name
from kinetoscope.model.execution.frames import MAX_DEPTH, SEPARATOR
from kinetoscope.model.execution.marks import RANGE_KINDS, is_mark, is_module_call
from kinetoscope.model.steps.steps import step_of
from kinetoscope.model.steps.steps import steps as find_steps
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace

_MAX_PATH_CALLS: Final = 100
"""Calls of a path, the innermost ones: crafted files have more, and would fill the memory."""

_MAX_CALL_CHARACTERS: Final = 300
"""Characters of a call in a path."""


@dataclass(frozen=True)
class Paths:
    """The calls around each call.

    Attributes:
        tree: annotations, modules and operators as a prefix tree over all events.
        around: int32 [events], the node around each event, not its own.
        labels: the text of each label of the tree.
    """

    tree: Prefixes
    around: Int32s
    labels: dict[int, str]

    def texts(self, nodes: Sequence[int]) -> Iterator[str]:
        """The path of each node, "" for none."""
        known: dict[int, str] = {-1: ""}
        parent, label = self.tree.parent, self.tree.label
        for node in nodes:
            open_nodes = []
            while node not in known:
                open_nodes.append(node)
                node = int(parent[node])
            for each in reversed(open_nodes):
                above = known[int(parent[each])]
                text = self.labels[int(label[each])]
                node = each
                parts = above.split(SEPARATOR)[1 - _MAX_PATH_CALLS :]
                known[each] = SEPARATOR.join([*parts, text]) if above else text
            yield known[node]


@derived
def paths(trace: Trace) -> Paths:
    """The calls around each call of a trace."""
    tree = call_tree(trace)
    shown = (np.isin(trace.kind, RANGE_KINDS) & ~is_mark(trace)) | is_module_call(trace)
    shown &= tree.member & (tree.depth < MAX_DEPTH)
    same, labels = _labels(trace, shown)
    prefixes = prefix_tree(tree.order, tree.parent, np.where(shown, same[trace.name], np.int32(-1)))
    around = np.where(shown, _above(prefixes, prefixes.node), prefixes.node)
    return Paths(prefixes, around.astype(np.int32), labels)


def _above(tree: Prefixes, node: Int32s) -> Int32s:
    parent = np.append(tree.parent, np.int32(-1))  # the last is that of no node
    return parent[node]


def _labels(trace: Trace, shown: Bools) -> tuple[Int32s, dict[int, str]]:
    """A code for each string code that names a call that is shown, the same for names that are alike; and the texts."""
    same = np.full(len(trace.strings) + 1, -1, np.int32)
    first: dict[str, int] = {}
    labels: dict[int, str] = {}
    nameless = np.int32(len(trace.strings))
    names = np.where(trace.name >= 0, trace.name, nameless)
    texts = plain_names(trace)
    for code in np.unique(names[shown]).tolist():
        text = _cut(texts.get(code) or normalized(trace.strings.label(code) if code < nameless else ""))
        same[code] = first.setdefault(text, code)
        labels[int(same[code])] = text
    return same, labels


def _cut(text: str) -> str:
    half = _MAX_CALL_CHARACTERS // 2
    return text if len(text) <= 2 * half else f"{text[:half]}…{text[-half:]}"


@derived
def plain_names(trace: Trace) -> dict[int, str]:
    """By string code, the names of annotations, operators and modules as they are in every run, where they are not.

    What `alike` knows, and numbers of the user's own: of annotations that differ in their numbers only, each of which
    occurs in one step and no other, the numbers are those of the steps.
    """
    plain: dict[int, str] = {}
    rows = np.flatnonzero(np.isin(trace.kind, (EventKind.HOST_OP, EventKind.ANNOTATION)))
    for kind in (EventKind.HOST_OP, EventKind.ANNOTATION):
        for code in np.unique(trace.name[rows[trace.kind[rows] == kind]]).tolist():
            plain[code] = normalized(call_name(trace.strings.label(code), kind))
    modules = np.flatnonzero(is_module_call(trace))
    for code in np.unique(trace.name[modules]).tolist():
        plain[code] = normalized_frame(trace.strings.label(code))
    plain |= _numbered(trace, plain)
    return plain


def _numbered(trace: Trace, names: dict[int, str]) -> dict[int, str]:
    """The names of annotations that are numbered by steps, without the numbers."""
    rows = np.flatnonzero(trace.kind == EventKind.ANNOTATION)
    step = step_of(find_steps(trace, None).host, trace.start[rows])
    steps_of: dict[int, list[int]] = {}
    if len(rows):
        for code, number in np.unique(np.stack([trace.name[rows], step], axis=1), axis=0).tolist():
            steps_of.setdefault(code, []).append(number)
    families: dict[str, list[int]] = {}
    for code in steps_of:
        family = without_digits(names[code])
        if family != names[code]:
            families.setdefault(family, []).append(code)
    plain: dict[int, str] = {}
    for family, codes in families.items():
        if all(len(steps_of[code]) == 1 for code in codes) and len({steps_of[code][0] for code in codes}) > 1:
            plain |= dict.fromkeys(codes, family)
    return plain
