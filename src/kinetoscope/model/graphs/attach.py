"""A trace with captured calls: those of each capture, repeated behind the events of the file for each replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import numpy as np

from kinetoscope.algorithms.arrays import Int32s, Int64s
from kinetoscope.errors import InputError
from kinetoscope.model.graphs.annotated import Path, annotated_replays, node_paths
from kinetoscope.model.graphs.calls_of_graph import (
    CallsOfGraph,
    Spelling,
    calls_of_annotations,
    calls_of_capture,
    configuration,
    with_annotations,
)
from kinetoscope.model.graphs.captures import CapturedGraph, captured_graphs
from kinetoscope.model.graphs.join import joined, relabelled
from kinetoscope.model.trace.captured_calls import CapturedCalls, nothing_captured
from kinetoscope.model.trace.shapes import NUMBER_TEXT, RAW, SLOTS, STRING, Item, Shapes, pack_item
from kinetoscope.model.trace.strings import Strings
from kinetoscope.model.trace.trace import Trace
from kinetoscope.notes import Note

MAX_CALLS: Final = 2_000_000
"""Captured calls up to which those of Python are kept, in a file of fewer events; beyond, only calls of modules are."""

OWN_RECORDING: Final = -1
"""The number, among recordings, of the trace that replays."""

_TEXTS: Final = (STRING, RAW, NUMBER_TEXT)
"""Kinds of values that are codes of strings."""


@dataclass(frozen=True)
class AttributedReplays:
    """Replays of one graph and the calls that it was captured in.

    Attributes:
        calls: of the graph.
        launch: int32 [replays], row of the launch of each.
        work: int32 [replays, nodes], rows of the device work of each.
        configuration: grid and block of each node; nothing where the capture tells none.
        is_whole: is the work all that the capture recorded?
    """

    calls: CallsOfGraph
    launch: Int32s
    work: Int32s
    configuration: Sequence[Sequence[Spelling | None]] = ()
    is_whole: bool = False


class CaptureRecording(Protocol):
    """A trace that was recorded while graphs were captured: engines write one for each size."""

    def graphs(self) -> Sequence[CapturedGraph]:
        """Its captures."""
        ...

    def trace(self) -> Trace:
        """The trace."""
        ...


def with_captured_calls(
    trace: Trace, recordings: Sequence[CaptureRecording] = (), dump: Mapping[int, Path] | None = None
) -> Trace:
    """The trace with the calls that its replays were captured in, as far as they can be told.

    Args:
        trace: as it was read.
        recordings: recordings of the capture of its graphs, beside what the trace itself holds of that.
        dump: the calls around nodes from files, by `annotated.node_keys`.
    """
    dump = dump or {}
    taken = np.zeros(len(trace), np.bool_)
    parts = list[AttributedReplays]()
    graphs = captured_graphs(trace, OWN_RECORDING)
    problems = list[Note]()
    for number, recording in enumerate(recordings):
        try:
            graphs += relabelled(recording.graphs(), number)
        except InputError as error:  # the run is asked about, and can be read
            problems.append(Note("CAPTURE_LEFT_OUT", f"A capture trace is left out: {error}"))
    joins = joined(trace, graphs)
    last, recorded = OWN_RECORDING, trace
    for each in sorted(joins.replays, key=lambda each: each.graph.recording):
        taken[each.work] = True
        if each.graph.recording != last:
            last = each.graph.recording
            recorded = recordings[last].trace()
        calls = calls_of_capture(recorded, each)
        paths = node_paths(trace, each.work[0], dump)
        if any(paths):
            calls = with_annotations(calls, paths)
        parts.append(AttributedReplays(calls, each.launch, each.work, configuration(recorded, each), each.is_whole))
    for annotated in annotated_replays(trace, dump):
        fresh = (annotated.launch >= 0) & ~taken[annotated.work].any(axis=1)
        if fresh.any():
            calls = calls_of_annotations(annotated.paths)
            parts.append(AttributedReplays(calls, annotated.launch[fresh], annotated.work[fresh]))
    notes = (*problems, *joins.notes)
    return _attached(trace, parts, notes) if parts or notes else trace


# --- the trace with them


@dataclass
class _Tables:
    """The tables of the trace as they grow.

    Attributes:
        strings: the string table.
        packed: the shapes, as the constructor of `Shapes` takes them.
        values: what is added to the values, in pieces, of which the first begins at `end`.
        numbers: codes of shapes.
        known: codes of the strings that were asked for.
    """

    strings: Strings
    packed: list[Int64s]
    values: list[Int64s]
    end: int
    numbers: dict[tuple[Item, ...], int]
    known: dict[Spelling, int] = field(default_factory=dict)

    def columns(self, calls: CallsOfGraph) -> dict[str, Int64s]:
        """Category, name, shape and first of the calls of a graph, whose strings, shapes and values are added."""
        used = _codes_of(calls)
        codes = self.codes([calls.spell(code) for code in used])
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

    def codes(self, texts: Sequence[Spelling | None]) -> Int64s:
        """Codes of texts, which are added; −1 for None."""
        new = [text for text in dict.fromkeys(texts) if text is not None and text not in self.known]
        if new:
            flags = np.array([flag for _, flag in new], np.uint8)
            self.strings, codes = self.strings.extended([text for text, _ in new], flags)
            self.known.update(zip(new, codes.tolist(), strict=True))
        return np.array([-1 if text is None else self.known[text] for text in texts], np.int64)

    def _shape(self, items: tuple[Item, ...]) -> int:
        if items not in self.numbers:
            self.numbers[items] = len(self.packed)
            self.packed.append(np.array([pack_item(item) for item in items], np.int64))
        return self.numbers[items]


def _codes_of(calls: CallsOfGraph) -> list[int]:
    """Codes of all strings of the calls of a graph."""
    used = {*calls.category, *calls.name} | {key for items in calls.items for key, _, _ in items}
    for items, values in zip(calls.items, calls.values, strict=True):
        used |= {value for value, kind in zip(values, _kinds(items), strict=True) if kind in _TEXTS}
    return sorted(code for code in used if code >= 0)


def _kinds(items: tuple[Item, ...]) -> list[int]:
    return [kind for _, kind, _ in items if kind < SLOTS]


def _attached(trace: Trace, parts: Sequence[AttributedReplays], on_joins: Sequence[Note]) -> Trace:
    notes = list(on_joins)
    if not parts:
        trace.captured = nothing_captured(len(trace), notes)
        return trace
    if sum(len(part.launch) * len(part.calls.name) for part in parts) > max(MAX_CALLS, len(trace)):
        parts = [replace(part, calls=part.calls.without_frames()) for part in parts]
        notes.append(
            Note(
                "GRAPH_PYTHON_LEFT_OUT",
                "The Python calls of captured graphs are left out, but for modules: with them there are too many.",
            )
        )
    shapes = trace.shapes
    packed = [np.array([pack_item(item) for item in items], np.int64) for items in shapes.items]
    numbers = {items: code for code, items in reversed(list(enumerate(shapes.items)))}
    tables = _Tables(trace.strings, packed, [trace.values], len(trace.values), numbers)
    added: dict[str, list[Int64s]] = {name: [] for name in ("category", "name", "shape", "first")}
    launch, parent, depth, work, call, source, grid, block = (list[Int64s]() for _ in range(8))
    at = len(trace)
    tables.codes([part.calls.spell(code) for part in parts for code in _codes_of(part.calls)])  # all at once: quicker
    for part in parts:
        calls, count, size = part.calls, len(part.launch), len(part.calls.name)
        for name, column in tables.columns(calls).items():
            added[name].append(np.tile(column, count))
        own = at + np.arange(count, dtype=np.int64)[:, None] * size
        depth.append(np.tile(calls.depth().astype(np.int64), count))
        said = calls.node >= 0
        launch.append(np.repeat(part.launch.astype(np.int64), size))
        parent.append(np.where(calls.parent >= 0, own + calls.parent, part.launch[:, None]).reshape(-1))
        work.append(part.work[:, said].reshape(-1).astype(np.int64))
        call.append((own + calls.node[said]).reshape(-1))
        source.append(np.full(len(call[-1]), calls.source))
        for codes, texts in zip((grid, block), part.configuration or ([None] * len(said),) * 2, strict=True):
            codes.append(np.tile(tables.codes(texts)[said], count))
        at += count * size
    own_launch, rows = np.concatenate(launch), np.concatenate(work)
    order = np.argsort(rows, kind="stable")
    labels = tuple(dict.fromkeys(part.calls.label for part in parts))
    replayed = np.concatenate([part.launch for part in parts])
    label = np.concatenate([np.full(len(part.launch), labels.index(part.calls.label)) for part in parts])
    is_whole = np.concatenate([np.full(len(part.launch), part.is_whole) for part in parts])
    by_launch = np.argsort(replayed, kind="stable")
    captured = CapturedCalls(
        recorded=len(trace),
        parent=np.concatenate(parent).astype(np.int32),
        launch=own_launch.astype(np.int32),
        depth=np.concatenate(depth).astype(np.int32),
        work=rows[order].astype(np.int32),
        call=np.concatenate(call)[order].astype(np.int32),
        source=np.concatenate(source)[order].astype(np.int8),
        grid=np.concatenate(grid)[order],
        block=np.concatenate(block)[order],
        replay=replayed[by_launch].astype(np.int32),
        label=label[by_launch].astype(np.int32),
        is_whole=is_whole[by_launch],
        labels=labels,
        notes=tuple(notes),
    )
    columns = {name: np.concatenate(pieces) for name, pieces in added.items()}
    columns["ph"] = np.full(len(own_launch), ord("X"))
    columns["track"] = trace.track[own_launch].astype(np.int64)
    columns["start"] = columns["end"] = trace.start[own_launch]
    own_columns = {name: getattr(trace, name) for name in columns}
    return trace.with_columns(
        {name: np.concatenate([own, columns[name].astype(own.dtype)]) for name, own in own_columns.items()},
        values=np.concatenate(tables.values),
        strings=tables.strings,
        shapes=Shapes(tables.packed),
        captured=captured,
    )
