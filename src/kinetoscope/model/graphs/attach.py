"""A trace with captured calls: those of each capture, repeated behind the events of the file for each replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.algorithms.trees.tree import ancestor
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.calls import is_repeat
from kinetoscope.model.execution.marks import MODULE, is_step
from kinetoscope.model.graphs.annotated import NestedCalls, annotated_replays
from kinetoscope.model.graphs.captures import CapturedGraph, captured_graphs, captures
from kinetoscope.model.graphs.join import JoinedReplays, joined, relabelled
from kinetoscope.model.trace.captured_calls import CapturedCalls, CaptureSource, nothing_captured
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.shapes import NUMBER_TEXT, RAW, SLOTS, STRING, Item, Shapes, pack_item
from kinetoscope.model.trace.strings import Strings, spelled
from kinetoscope.model.trace.trace import Trace

LINKS: Final = frozenset(
    {
        *("External id", "external id", "correlation", "Record function id", "Ev Idx", "Profiler Event Index"),
        *("Python id", "Python parent id", "Seq"),
    }
)
"""Arguments that link an event to others of its own recording: a captured call has none of them."""

MAX_CALLS: Final = 2_000_000
"""Captured calls up to which those of Python are kept, in a file of fewer events; beyond, only calls of modules are."""

_FRAME: Final = b"python_function"

OWN_RECORDING: Final = -1
"""The number, among recordings, of the trace that replays."""

_TEXTS: Final = (STRING, RAW, NUMBER_TEXT)
"""Kinds of values that are codes of strings."""

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
        frames = [self.spell(code)[0] == _FRAME for code in self.category]
        kept = np.array(
            [not frame or self.spell(code)[0].startswith(MODULE.encode())
             for frame, code in zip(frames, self.name, strict=True)], np.bool_
        )  # fmt: skip
        around = ancestor(self.parent, kept)
        place = np.append(np.cumsum(kept) - 1, -1).astype(np.int32)
        outer = np.append(around, np.int32(-1))[self.parent[kept]]
        rows = np.flatnonzero(kept).tolist()
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


@dataclass(frozen=True)
class AttributedReplays:
    """Replays of one graph and the calls that it was captured in.

    Attributes:
        calls: of the graph.
        launch: int32 [replays], row of the launch of each.
        work: int32 [replays, nodes], rows of the device work of each.
    """

    calls: CallsOfGraph
    launch: Int32s
    work: Int32s


class CaptureRecording(Protocol):
    """A trace that was recorded while graphs were captured: engines write one for each size."""

    def graphs(self) -> Sequence[CapturedGraph]:
        """Its captures."""
        ...

    def trace(self) -> Trace:
        """The trace."""
        ...


def replays_graphs(trace: Trace) -> bool:
    """Whether a trace replays graphs, by its strings alone: quick, and true where it cannot be told."""
    return bool(trace.strings.holding(("GraphLaunch", "graph node id")).any())


def with_captured_calls(trace: Trace, recordings: Sequence[CaptureRecording] = ()) -> Trace:
    """The trace with the calls that its replays were captured in, as far as they can be told.

    Args:
        trace: as it was read.
        recordings: recordings of the capture of its graphs, beside what the trace itself holds of that.
    """
    taken = np.zeros(len(trace), np.bool_)
    parts = list[AttributedReplays]()
    graphs = captured_graphs(trace, OWN_RECORDING)
    for number, recording in enumerate(recordings):
        graphs += relabelled(recording.graphs(), number)
    found = joined(trace, graphs)
    for each in sorted(found.replays, key=lambda each: each.graph.recording):
        taken[each.work] = True
        recorded = trace if each.graph.recording == OWN_RECORDING else recordings[each.graph.recording].trace()
        parts.append(AttributedReplays(_calls_of_capture(recorded, each), each.launch, each.work))
    for annotated in annotated_replays(trace):
        fresh = (annotated.launch >= 0) & ~taken[annotated.work].any(axis=1)
        if fresh.any():
            calls = _calls_of_annotations(annotated.calls)
            parts.append(AttributedReplays(calls, annotated.launch[fresh], annotated.work[fresh]))
    return _attached(trace, parts, found.notes) if parts or found.notes else trace


def _calls_of_capture(recording: Trace, replays: JoinedReplays) -> CallsOfGraph:
    """The calls in which a capture launched its nodes: those that began after it, without what repeats another."""
    parent, found = call_tree(recording).parent, captures(recording)
    number = replays.graph.capture
    call = found.launch[found.offsets[number] : found.offsets[number + 1]][replays.node]
    shown = np.isin(recording.kind, (EventKind.HOST_OP, EventKind.ANNOTATION, EventKind.PYTHON))
    shown &= (recording.start >= int(found.begin[number])) & ~is_repeat(recording) & ~is_step(recording)
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
    place = np.full(len(recording) + 1, -1, np.int32)
    place[members] = np.arange(len(members), dtype=np.int32)
    outer = parent[members]
    strings, shapes = recording.strings, recording.shapes
    kept = [_without_links(strings, items) for items in shapes.items]
    chosen = [kept[shape] for shape in recording.shape[members].tolist()]
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


def _calls_of_annotations(nested: NestedCalls) -> CallsOfGraph:
    texts = list(dict.fromkeys(text for call in nested.calls for text in call))
    code = {text: place for place, text in enumerate(texts)}
    return CallsOfGraph(
        source=CaptureSource.ANNOTATIONS,
        label="",
        spell=lambda code: (spelled(texts[code]), 0),
        category=[code[call.category] for call in nested.calls],
        name=[code[call.name] for call in nested.calls],
        items=[() for _ in nested.calls],
        values=[[] for _ in nested.calls],
        parent=nested.parent,
        node=nested.of_node,
    )


def _without_links(strings: Strings, items: tuple[Item, ...]) -> tuple[tuple[Item, ...], Int64s]:
    """The members of an event but those that link it to others, and which of its slots they take."""
    kept, slots, slot = list[Item](), list[int](), 0
    for item in items:
        takes = item[1] < SLOTS
        if strings.label(item[0]) not in LINKS:
            kept.append(item)
            slots += [slot] * takes
        slot += takes
    return tuple(kept), np.array(slots, np.int64)


# --- the trace with them


@dataclass
class _Tables:
    """The tables of the trace as they grow.

    Attributes:
        strings: the string table.
        packed: the shapes, as the constructor of `Shapes` takes them.
        values: what is added to the values, in pieces, of which the first begins at `end`.
    """

    strings: Strings
    packed: list[Int64s]
    values: list[Int64s]
    end: int
    numbers: dict[tuple[Item, ...], int]

    def columns(self, calls: CallsOfGraph) -> dict[str, Int64s]:
        """Category, name, shape and first of the calls of a graph, whose strings, shapes and values are added."""
        used = sorted({*calls.category, *calls.name} | {key for items in calls.items for key, _, _ in items}
                      | {value for items, values in zip(calls.items, calls.values, strict=True)
                         for value, kind in zip(values, _kinds(items), strict=True) if kind in _TEXTS})  # fmt: skip
        used = [code for code in used if code >= 0]
        spellings = [calls.spell(code) for code in used]
        self.strings, codes = self.strings.extended(
            [text for text, _ in spellings], np.array([flag for _, flag in spellings], np.uint8)
        )
        code_of = {-1: -1, **dict(zip(used, codes.tolist(), strict=True))}
        shape, first, values = list[int](), list[int](), list[int]()
        for items, own in zip(calls.items, calls.values, strict=True):
            shape.append(self._shape(tuple((code_of[key], kind, level) for key, kind, level in items)))
            first.append(self.end + len(values))
            values += [
                code_of[value] if kind in _TEXTS else value for value, kind in zip(own, _kinds(items), strict=True)
            ]
        self.values.append(np.array(values, np.int64))
        self.end += len(values)
        return {
            "category": np.array([code_of[code] for code in calls.category], np.int64),
            "name": np.array([code_of[code] for code in calls.name], np.int64),
            "shape": np.array(shape, np.int64),
            "first": np.array(first, np.int64),
        }

    def _shape(self, items: tuple[Item, ...]) -> int:
        if items not in self.numbers:
            self.numbers[items] = len(self.packed)
            self.packed.append(np.array([pack_item(item) for item in items], np.int64))
        return self.numbers[items]


def _kinds(items: tuple[Item, ...]) -> list[int]:
    return [kind for _, kind, _ in items if kind < SLOTS]


def _attached(trace: Trace, parts: Sequence[AttributedReplays], on_joins: Sequence[str]) -> Trace:
    notes = list(on_joins)
    if not parts:
        trace.captured = nothing_captured(len(trace), notes)
        return trace
    if sum(len(part.launch) * len(part.calls.name) for part in parts) > max(MAX_CALLS, len(trace)):
        parts = [replace(part, calls=part.calls.without_frames()) for part in parts]
        notes.append("The Python calls of captured graphs are left out, but for modules: with them there are too many.")
    shapes = trace.shapes
    packed = [np.array([pack_item(item) for item in items], np.int64) for items in shapes.items]
    numbers = {items: code for code, items in reversed(list(enumerate(shapes.items)))}
    tables = _Tables(trace.strings, packed, [trace.values], len(trace.values), numbers)
    added: dict[str, list[Int64s]] = {name: [] for name in ("category", "name", "shape", "first")}
    launch, parent, depth, work, call, source = (list[Int64s]() for _ in range(6))
    at = len(trace)
    for part in parts:
        calls, count, size = part.calls, len(part.launch), len(part.calls.name)
        for name, column in tables.columns(calls).items():
            added[name].append(np.tile(column, count))
        own = at + np.arange(count, dtype=np.int64)[:, None] * size
        depth.append(np.tile(calls.depth().astype(np.int64), count))
        told = calls.node >= 0
        launch.append(np.repeat(part.launch.astype(np.int64), size))
        parent.append(np.where(calls.parent >= 0, own + calls.parent, part.launch[:, None]).reshape(-1))
        work.append(part.work[:, told].reshape(-1).astype(np.int64))
        call.append((own + calls.node[told]).reshape(-1))
        source.append(np.full(len(call[-1]), calls.source))
        at += count * size
    own_launch, rows = np.concatenate(launch), np.concatenate(work)
    order = np.argsort(rows, kind="stable")
    labels = tuple(dict.fromkeys(part.calls.label for part in parts))
    replayed = np.concatenate([part.launch for part in parts])
    label = np.concatenate([np.full(len(part.launch), labels.index(part.calls.label)) for part in parts])
    by_launch = np.argsort(replayed, kind="stable")
    captured = CapturedCalls(
        recorded=len(trace),
        parent=np.concatenate(parent).astype(np.int32),
        launch=own_launch.astype(np.int32),
        depth=np.concatenate(depth).astype(np.int32),
        work=rows[order].astype(np.int32),
        call=np.concatenate(call)[order].astype(np.int32),
        source=np.concatenate(source)[order].astype(np.int8),
        replay=replayed[by_launch].astype(np.int32),
        label=label[by_launch].astype(np.int32),
        labels=labels,
        notes=tuple(notes),
    )
    columns = {name: np.concatenate(pieces) for name, pieces in added.items()}
    columns["ph"] = np.full(len(own_launch), ord("X"))
    columns["track"] = trace.track[own_launch].astype(np.int64)
    columns["start"] = columns["end"] = trace.start[own_launch]
    return Trace(
        source=trace.source,
        columns={
            name: np.concatenate([own, column.astype(own.dtype)])
            for name, column in columns.items()
            if (own := getattr(trace, name)) is not None
        },
        values=np.concatenate(tables.values),
        strings=tables.strings,
        shapes=Shapes(tables.packed),
        tracks=trace.tracks,
        members=trace.members,
        members_before_events=trace.members_before_events,
        reading=trace.reading,
        text_bytes=trace.text_bytes,
        captured=captured,
    )
