"""Annotations of a graph's nodes, which a program makes while it captures the graph, as torch writes them.

Since torch 2.12 `mark_kernels("decoder")` or `mark_kernels({"module_fqn": "layers.0.norm"})` marks what is captured
inside it. Each key of the annotation becomes an argument of the replayed work, with its value as a text: a script adds
them after the recording (2.12, 2.13), or the exporter does (2.14 and later). The same annotations, or the Python stacks
of the nodes (2.15), may also stand in a JSON file of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np

from kinetoscope.algorithms.arrays import Bools, Int32s, Int64s, any_of, scattered
from kinetoscope.algorithms.grouping import distinct_sequences, group
from kinetoscope.errors import InputError
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.graphs.replays import NODE_BITS, node_ids, replays
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.arguments import ARGUMENTS
from kinetoscope.model.trace.derived import derived
from kinetoscope.model.trace.shapes import ARGUMENT_LEVEL, INT, RAW, STRING
from kinetoscope.model.trace.trace import Trace

FRAME_CATEGORY: Final = "python_function"
RANGE_CATEGORY: Final = "user_annotation"
"""Categories of the calls that annotations stand for: those of modules and Python functions, and of named ranges."""

BACKWARD: Final = "backward"
"""Value of `autograd_phase` for work that belongs to the backward pass of what was annotated."""

BACKWARD_RANGE: Final = f"autograd_phase: {BACKWARD}"
"""Name of the call around all others of such work."""

MAX_KEYS: Final = 16
"""Keys of annotations that are offered to group by."""

MAX_LEVELS: Final = 100
"""Calls around a node; what is deeper counts as one."""

INLINE_KEY: Final = "cudaGraphInlineAnnotated"
"""At the top level of files whose annotations the exporter wrote."""

_MODULE: Final = "nn.Module: "
_FRAME: Final = re.compile(r"(?P<file>.*):(?P<line>\d+):(?P<function>.*)", re.DOTALL)
_NODE_ID: Final = re.compile(r"\d{1,20}")

_WRITTEN_BY_PROFILERS: Final = frozenset(
    {*(key for keys in ARGUMENTS.values() for key in keys), "kind", "copy kind", "src kind", "dst kind", "memory kind"}
    | {
        "channel_type",
        "arch",
        "column",
        "row",
        "process_name",
        "hsa_queue",
        "queued",
        "Trace name",
        "Rank",
        "Is asynchronized op",
    }
) - {*ARGUMENTS["node_name"], *ARGUMENTS["node_module"], *ARGUMENTS["node_phase"]}
"""Arguments of device work that profilers write as texts; others are annotations that somebody chose."""


class Call(NamedTuple):
    """A call around a node: the category that its event would have, and its name."""

    category: str
    name: str


Path = tuple[Call, ...]
"""The calls around a node, outermost first."""


# --- annotations as arguments


@dataclass(frozen=True)
class WorkAnnotations:
    """The annotations that device work has as arguments.

    Attributes:
        path: int32 [work], place in `paths`, −1 for work without one.
        paths: the calls around a node: modules by the parts of their qualified name, then the range.
        backward: bool [work], what belongs to the backward pass of what was annotated.
    """

    path: Int32s
    paths: tuple[Path, ...]
    backward: Bools


def work_annotations(trace: Trace, work: Int32s) -> WorkAnnotations:
    """The annotations of some device work, given by row."""
    module, name = (arguments.codes(trace, key, work) for key in ("node_module", "node_name"))
    phase = trace.strings.code(BACKWARD)
    backward = (arguments.codes(trace, "node_phase", work) == phase) & (phase >= 0)
    some = np.flatnonzero((module >= 0) | (name >= 0))
    codes, first = group(module[some], name[some], backward[some].astype(np.int8))
    label, chosen = trace.strings.label, some[first]
    paths = tuple(
        path_of(label(module), label(name), is_backward=is_backward)
        for module, name, is_backward in zip(
            module[chosen].tolist(), name[chosen].tolist(), backward[chosen].tolist(), strict=True
        )
    )
    is_path = np.array([bool(path) for path in paths], np.bool_)
    path = scattered(len(work), some, np.where(is_path[codes], codes, np.int32(-1)), np.int32)
    return WorkAnnotations(path, paths, backward)


def path_of(module: str, name: str, *, is_backward: bool) -> Path:
    """The calls around a node of this module and this name, either "" where there is none."""
    parts = [part for part in module.split(".", MAX_LEVELS - 1) if part]
    path = [
        *(Call(FRAME_CATEGORY, f"{_MODULE}{part}") for part in parts),
        *([Call(RANGE_CATEGORY, name)] if name else []),
    ]
    return (Call(RANGE_CATEGORY, BACKWARD_RANGE), *path) if path and is_backward else tuple(path)


def node_paths(trace: Trace, work: Int32s, dump: Mapping[int, Path]) -> list[Path]:
    """The calls around each node that some device work replays.

    Args:
        trace: the trace.
        work: rows of the device work.
        dump: calls from files, by `node_keys`; they lie around those from arguments.
    """
    ranges, keys = work_annotations(trace, work), node_keys(trace, work).tolist() if dump else [0] * len(work)
    own = (ranges.paths[path] if path >= 0 else () for path in ranges.path.tolist())
    return [(*dump.get(key, ()), *path) for key, path in zip(keys, own, strict=True)]


def node_keys(trace: Trace, work: Int32s) -> Int64s:
    """The graph's id and the node's id as one number, as torch's files have them, of device work, given by row.

    −1 where the trace does not say; the node's id alone where it says no more.
    """
    graph, node = node_ids(trace, work)
    return np.where(node > 0, np.maximum(graph, 0) << NODE_BITS | node, -1)


@dataclass(frozen=True)
class AnnotatedReplays:
    """Replays whose nodes have the same annotations.

    Attributes:
        paths: of each node.
        launch: int32 [replays], row of the launch of each, −1 where it was not recorded.
        work: int32 [replays, nodes], rows of the device work of each.
    """

    paths: list[Path]
    launch: Int32s
    work: Int32s


def annotated_replays(trace: Trace, dump: Mapping[int, Path]) -> list[AnnotatedReplays]:
    """The replays of a trace with annotated nodes; `dump` as in `node_paths`."""
    every, work = replays(trace), device_work(trace)
    rows = work.rows[every.work]
    path = work_annotations(trace, rows).path.astype(np.int64)
    key = node_keys(trace, rows) if dump else np.zeros(len(rows), np.int64)
    known = np.isin(key, [*dump]) if dump else np.zeros(len(rows), np.bool_)
    is_annotated = np.logical_or.reduceat((path >= 0) | known, every.offsets[:-1]) if len(every) else known
    marks, _ = group(path, np.where(known, key, -1))
    sequence, _ = distinct_sequences(every.offsets, marks)
    group_of, _ = group(every.template, sequence)
    result = []
    for members in np.split(np.argsort(group_of, kind="stable"), np.cumsum(np.bincount(group_of))[:-1]):
        if len(members) and is_annotated[members[0]]:
            of_replays = np.stack([work.rows[every.work_of(replay)] for replay in members.tolist()])
            paths = node_paths(trace, of_replays[0], dump)
            result.append(AnnotatedReplays(paths, every.launch[members], of_replays))
    return result


@derived
def has_lost_streams(trace: Trace) -> bool:
    """True if the script of torch 2.12 and 2.13 moved work of graphs to lanes, and so lost the streams that it ran on.

    Exporters that annotate say so in the file, or keep the stream as `original_stream`.
    """
    if INLINE_KEY in trace.metadata or trace.strings.code("original_stream") >= 0:
        return False
    rows = device_work(trace).rows[replays(trace).work]
    return bool((work_annotations(trace, rows).path >= 0).any())


def annotated_keys(trace: Trace, work: Int32s) -> tuple[str, ...]:
    """Keys of the texts among the arguments of some device work, given by row, that no profiler writes; 16 at most."""
    keys = (
        key
        for shape in np.flatnonzero(np.bincount(trace.shape[work])).tolist()
        for key, kind, level in trace.shapes.items[shape]
        if level == ARGUMENT_LEVEL and kind == STRING
    )
    labels = (key for key in map(trace.strings.label, dict.fromkeys(keys)) if key not in _WRITTEN_BY_PROFILERS)
    return tuple(islice(labels, MAX_KEYS))


def argument_values(trace: Trace, key: str, work: Int32s) -> tuple[Int64s, list[str]]:
    """The value of an argument of some device work, as the number of its text, −1 for none: int64; and the texts."""
    kinds = trace.kinds_of(key, work)
    values = np.where(kinds == INT, trace.integers(key, work), trace.codes_of(key, work))
    known = np.flatnonzero(any_of(kinds, (INT, STRING, RAW)))
    codes, first = group(kinds[known], values[known])
    texts = [
        str(value) if kind == INT else trace.strings.label(value)
        for kind, value in zip(kinds[known[first]].tolist(), values[known[first]].tolist(), strict=True)
    ]
    number = scattered(len(work), known, codes, np.int64)
    return number, texts


# --- annotations in a file of their own


def dumped_paths(text: str, source: str) -> dict[int, Path]:
    """The calls around each node by `node_keys`, from what torch writes as JSON.

    That is an object by these keys; a value is a list of annotations, or a Python stack: lines of
    `file:line:function`, the innermost first (`dump_kernel_py_stacks`).

    Raises:
        InputError: it is something else.
    """
    try:
        dump = json.loads(text)
    except ValueError as error:
        raise InputError(f"{source} is no JSON: {error}") from error
    if not is_dump(dump):
        raise InputError(f"{source} has no annotations of graph nodes: its keys should be ids of nodes")
    known = ((int(node), _dumped_path(value)) for node, value in dump.items())
    return {node: path for node, path in known if path and node < 1 << 63}


def is_dump(dump: Any) -> bool:
    """True if a JSON value is an object by ids of nodes, not empty."""
    return isinstance(dump, dict) and bool(dump) and all(_NODE_ID.fullmatch(key) for key in dump)


def _dumped_path(value: Any) -> Path:
    if isinstance(value, str):
        frames = [_frame(line) for line in value.split("\n", MAX_LEVELS - 1) if line]
        return tuple(Call(FRAME_CATEGORY, frame) for frame in reversed(frames))
    merged: dict[str, str] = {}
    for each in value if isinstance(value, list) else [value]:
        merged |= {
            str(key): str(value) for key, value in (each if isinstance(each, Mapping) else {"name": each}).items()
        }
    module, name, phase = (_first(merged, ARGUMENTS[key]) for key in ("node_module", "node_name", "node_phase"))
    return path_of(module, name, is_backward=phase == BACKWARD)


def _first(values: Mapping[str, str], keys: Iterable[str]) -> str:
    return next((values[key] for key in keys if key in values), "")


def _frame(line: str) -> str:
    """`model.py:12:forward` as Kineto names calls of Python: `model.py(12): forward`."""
    match = _FRAME.fullmatch(line)
    return f"{match['file']}({match['line']}): {match['function']}" if match else line
