"""Replays of annotated graphs, drawn as each version of torch writes them. Times are whole nanoseconds.

A graph is a list of nodes. `torch.cuda.graph_annotations` knows the annotation that `mark_kernels` gave a node and the
lane that `mark_stream` gave it; CUPTI knows the stream that it ran on. The writers follow torch's
`_annotate_cuda_graph_trace.py` (2.12, 2.13) and `profiler/_chrome_trace_export.py` (2.14, 2.15).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests import drawn
from tests.drawn import Event

FIRST_CORRELATION: Final = 100
DEFAULT_LANE: Final = 7
INLINE: Final[Mapping[str, Any]] = {"cudaGraphInlineAnnotated": True}
"""What stands at the top level of a file with annotations written by the exporter."""


@dataclass(frozen=True)
class Node:
    """A kernel of a graph: its id in the graph, its annotation, its lane and its stream."""

    name: str
    node: int
    duration: int = 10
    annotation: Mapping[str, Any] = field(default_factory=dict)
    lane: int | None = None
    stream: int = 7
    gap: int = 0
    args: Mapping[str, Any] = field(default_factory=dict)


Writer = Callable[[Event, Node], Event]


def replay(
    nodes: Sequence[Node], start: int, number: int, *, graph: int | None = 1, written: Writer | None = None
) -> list[Event]:
    """The launch at `start`, and its nodes one after the other from 100 ns on."""
    launch = drawn.launch(start, 20, FIRST_CORRELATION + number, name="cudaGraphLaunch")
    events, time = [launch], start + 100
    for node in nodes:
        time += node.gap
        ids: dict[str, Any] = {} if graph is None else {"graph id": graph, "graph node id": node.node}
        kernel = drawn.kernel(
            node.name, time, node.duration, FIRST_CORRELATION + number, stream=node.stream, **ids, **node.args
        )
        events.append(written(kernel, node) if written else kernel)
        time += node.duration
    return events


def _lane(event: Event, lane: int) -> None:
    event["tid"] = event["args"]["stream"] = lane


def post_processed(event: Event, node: Node) -> Event:
    """torch 2.12 and 2.13: a script moves all work of graphs to lanes; a bare string is `str`; streams are lost."""
    event["args"] |= {("str" if key == "name" else key): str(value) for key, value in node.annotation.items()}
    _lane(event, DEFAULT_LANE if node.lane is None else node.lane)
    return event


def inline(event: Event, node: Node) -> Event:
    """torch 2.15, `graph_lanes="none"`: nothing moves; a lane that was asked for is an argument."""
    event["args"] |= {key: str(value) for key, value in node.annotation.items()}
    if node.lane is not None:
        event["args"]["annotated_stream"] = node.lane
    return event


def inline_lanes(event: Event, node: Node) -> Event:
    """torch 2.14, and 2.15 with `graph_lanes="all"`: work moves to lanes, and keeps the stream that it ran on."""
    event["args"] |= {key: str(value) for key, value in node.annotation.items()}
    lane = DEFAULT_LANE if node.lane is None else node.lane
    if lane != event["tid"]:
        event["args"]["original_stream"] = event["tid"]
        _lane(event, lane)
    return event


WRITERS: Final[dict[str, tuple[Writer, Mapping[str, Any]]]] = {
    "2.12 post-processed": (post_processed, {}),
    "2.14 on lanes": (inline_lanes, INLINE),
    "2.15 in place": (inline, INLINE),
}
"""The forms by name: the writer, and what stands at the top level of its files."""
