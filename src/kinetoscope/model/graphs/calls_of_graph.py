"""The calls that the nodes of a graph were captured in: those of a capture, those that annotations name, or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s, scattered
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.calls import is_repeat
from kinetoscope.model.execution.marks import MODULE, is_step
from kinetoscope.model.graphs.annotated import FRAME_CATEGORY, Call, Path
from kinetoscope.model.graphs.captures import captures
from kinetoscope.model.graphs.join import JoinedReplays
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.captured_calls import CaptureSource
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.shapes import SLOTS, Item
from kinetoscope.model.trace.strings import Strings, spelled
from kinetoscope.model.trace.trace import Trace

LINKS: Final = frozenset(
    {
        *("External id", "external id", "correlation", "Record function id", "Ev Idx", "Profiler Event Index"),
        *("Python id", "Python parent id", "Seq"),
    }
)
"""Arguments that link an event to others of its own recording: a captured call has none of them."""

OPERATOR_CATEGORY: Final = "cpu_op"

_FIRST_OWN_CODE: Final = 1 << 40
"""From here on codes are those of texts of annotations."""

_NO_CALLS: Final = np.empty(0, np.int32)

Spelling = tuple[bytes, int]
"""A string as a string table holds it, and what is odd about it."""


@dataclass(frozen=True)
class CallsOfGraph:
    """The calls that the nodes of a graph were captured in, each call after the one around it.

    Attributes:
        source: what tells them.
        label: name of the annotation around the capture, "" for none.
        spell: the string of a code of `category`, `name`, the keys of `items`, and the texts among `values`.
        category, name: a code for each call.
        items: the members of each call's event, as `Shapes.items` has them.
        values: what stands in the slots of each call.
        parent: int32 [calls], the call around each, −1 for the outermost.
        node: int32 [nodes], the innermost call that each node was launched in, −1 for none.
    """

    source: CaptureSource
    label: str
    spell: Callable[[int], Spelling]
    category: list[int]
    name: list[int]
    items: list[tuple[Item, ...]]
    values: list[list[int]]
    parent: Int32s
    node: Int32s

    def depth(self) -> Int32s:
        """How many calls are around each: int32 [calls]."""
        depth = np.zeros(len(self.parent), np.int32)
        for call, around in enumerate(self.parent.tolist()):
            depth[call] = depth[around] + 1 if around >= 0 else 0
        return depth

    def without_frames(self) -> CallsOfGraph:
        """The calls without Python's, but for calls of modules."""
        frames = [self.spell(code)[0] == FRAME_CATEGORY.encode() for code in self.category]
        remaining = np.array(
            [not frame or self.spell(code)[0].startswith(MODULE.encode())
             for frame, code in zip(frames, self.name, strict=True)], np.bool_
        )  # fmt: skip
        around = ancestor(self.parent, remaining)
        place = np.append(np.cumsum(remaining) - 1, -1).astype(np.int32)
        outer = np.append(around, np.int32(-1))[self.parent[remaining]]
        rows = np.flatnonzero(remaining).tolist()
        return CallsOfGraph(
            source=self.source,
            label=self.label,
            spell=self.spell,
            category=[self.category[row] for row in rows],
            name=[self.name[row] for row in rows],
            items=[self.items[row] for row in rows],
            values=[self.values[row] for row in rows],
            parent=place[outer],
            node=place[np.append(around, np.int32(-1))[self.node]],
        )


def calls_of_capture(recording: Trace, replays: JoinedReplays) -> CallsOfGraph:
    """The calls in which a capture launched its nodes: those that began after it, without what repeats another."""
    parent, captured = call_tree(recording).parent, captures(recording)
    number = replays.graph.capture
    call = captured.launch[captured.offsets[number] : captured.offsets[number + 1]][replays.node]
    shown = np.isin(recording.kind, (EventKind.HOST_OP, EventKind.ANNOTATION, EventKind.PYTHON))
    shown &= (recording.start >= int(captured.begin[number])) & ~is_repeat(recording) & ~is_step(recording)
    around = ancestor(parent, shown)
    node = around[call]
    inside = np.zeros(len(recording), np.bool_)
    rows = np.unique(node[node >= 0])
    while len(rows):
        inside[rows] = True
        rows = np.unique(parent[rows])
        rows = np.unique(around[rows[rows >= 0]])
        rows = rows[rows >= 0]
    members = np.flatnonzero(inside).astype(np.int32)
    start, end = recording.start[members], recording.end[members]
    members = members[np.lexsort((members, -end, start, recording.track[members]))]
    place = scattered(len(recording) + 1, members, np.arange(len(members)), np.int32)
    outer = parent[members]
    strings, shapes = recording.strings, recording.shapes
    remaining = [_without_links(strings, items) for items in shapes.items]
    chosen = [remaining[shape] for shape in recording.shape[members].tolist()]
    first = recording.first[members].tolist()
    return CallsOfGraph(
        source=CaptureSource.CAPTURE,
        label=replays.graph.label,
        spell=lambda code: (strings.raw(code), int(strings.oddities_of(np.array([code]))[0])),
        category=recording.category[members].tolist(),
        name=recording.name[members].tolist(),
        items=[items for items, _ in chosen],
        values=[recording.values[start + slots].tolist() for start, (_, slots) in zip(first, chosen, strict=True)],
        parent=place[np.where(outer >= 0, around[outer], -1)],
        node=place[node],
    )


def configuration(recording: Trace, replays: JoinedReplays) -> list[list[Spelling | None]]:
    """Grid and block that the capture tells of each node; None where it does not."""
    captured, number = captures(recording), replays.graph.capture
    rows = captured.shape[captured.offsets[number] : captured.offsets[number + 1]][replays.node]
    strings = recording.strings
    result = []
    for name in arguments.CONFIGURATION:
        codes = np.where(rows >= 0, arguments.codes(recording, name, rows), -1)
        flags = strings.oddities_of(np.maximum(codes, 0)).tolist()
        result.append(
            [(strings.raw(code), flag) if code >= 0 else None for code, flag in zip(codes.tolist(), flags, strict=True)]
        )
    return result


def calls_of_annotations(paths: Sequence[Path]) -> CallsOfGraph:
    """The calls that annotations name, by the path of each node; nodes in a row share those that they agree in."""
    return _nested(CallsOfGraph(CaptureSource.ANNOTATIONS, "", _nothing, [], [], [], [], _NO_CALLS, _NO_CALLS), paths)


def with_annotations(calls: CallsOfGraph, paths: Sequence[Path]) -> CallsOfGraph:
    """The calls of a capture, and those that annotations name by the path of each node.

    A range or module that is annotated lies around the operators and inside everything else that was captured. Where
    the capture has calls of Python it knows the modules itself.
    """
    category = [calls.spell(code)[0].decode("utf-8", "replace") for code in calls.category]
    known = [(what, calls.spell(code)[0]) for what, code in zip(category, calls.name, strict=True)]
    mixed: list[Path | tuple[int | Call, ...]] = []
    for node, path in zip(calls.node.tolist(), paths, strict=True):
        chain = _chain(calls.parent, node)
        inside = next((level for level, call in enumerate(chain) if category[call] == OPERATOR_CATEGORY), len(chain))
        around = {known[call] for call in chain}
        has_frames = any(category[call] == FRAME_CATEGORY for call in chain)
        annotated = (
            each
            for each in path
            if not (has_frames and each.category == FRAME_CATEGORY)
            and (each.category, spelled(each.name)) not in around
        )
        mixed.append((*chain[:inside], *annotated, *chain[inside:]))
    return _nested(replace(calls, source=CaptureSource.BOTH), mixed)


def _chain(parent: Int32s, call: int) -> list[int]:
    """A call and those around it, outermost first."""
    chain = list[int]()
    while call >= 0:
        chain.append(call)
        call = int(parent[call])
    return chain[::-1]


def _nested(calls: CallsOfGraph, paths: Sequence[tuple[int | Call, ...]]) -> CallsOfGraph:
    """Calls as the paths of nodes nest them.

    Args:
        calls: those that the paths mean by number; each has one place below each call around it.
        paths: for each node numbers of calls, and calls that annotations name, outermost first.
    """
    parent, nodes, members = list[int](), list[int](), list[int | Call]()
    place: dict[tuple[int, int | Call], int] = {}
    before: tuple[int | Call, ...] = ()
    for path in paths:
        shared = next((level for level, (a, b) in enumerate(zip(before, path, strict=False)) if a != b), len(before))
        around = -1
        for level, member in enumerate(path):
            is_open = level < shared or isinstance(member, int)
            if not is_open or (around, member) not in place:
                place[around, member] = len(members)
                members.append(member)
                parent.append(around)
            around = place[around, member]
        nodes.append(around)
        before = path
    texts = list(dict.fromkeys(text for member in members if isinstance(member, Call) for text in member))
    code = {text: _FIRST_OWN_CODE + number for number, text in enumerate(texts)}
    return CallsOfGraph(
        source=calls.source,
        label=calls.label,
        spell=lambda number: (
            calls.spell(number) if number < _FIRST_OWN_CODE else (spelled(texts[number - _FIRST_OWN_CODE]), 0)
        ),
        category=[calls.category[each] if isinstance(each, int) else code[each.category] for each in members],
        name=[calls.name[each] if isinstance(each, int) else code[each.name] for each in members],
        items=[calls.items[each] if isinstance(each, int) else () for each in members],
        values=[calls.values[each] if isinstance(each, int) else [] for each in members],
        parent=np.array(parent, np.int32),
        node=np.array(nodes, np.int32),
    )


def _nothing(code: int) -> Spelling:
    raise KeyError(code)


def _without_links(strings: Strings, items: tuple[Item, ...]) -> tuple[tuple[Item, ...], Int64s]:
    """The members of an event but those that link it to others, and which of its slots they take."""
    remaining, slots, slot = list[Item](), list[int](), 0
    for item in items:
        takes = item[1] < SLOTS
        if strings.label(item[0]) not in LINKS:
            remaining.append(item)
            slots += [slot] * takes
        slot += takes
    return tuple(remaining), np.array(slots, np.int64)
