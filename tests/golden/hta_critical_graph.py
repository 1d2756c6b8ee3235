"""HTA's critical path, built as it builds it: its graph from the start of an annotation to its end."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kinetoscope import Trace
from kinetoscope.model.execution.device_work import DeviceWork, device_work
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from tests.golden.hta import CALLS

BLOCKING: Final = (
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventQuery",
    "cudaEventSynchronize",
    "cudaMemcpy",
)
FAR: Final = 1_500_000
"""Gaps between kernels from which on they are not linked, ns."""

Node = tuple[int, int]
"""Row, and 0 for its start, 1 for its end."""


@dataclass
class Graph:
    """Edges by the node that they end at, with what each weighs, ns."""

    trace: Trace
    after_kernel: int = 0
    """Kernels that wait for the one before and not for their launch."""

    into: dict[Node, list[tuple[Node, int]]] = field(default_factory=lambda: defaultdict(list))

    def link(self, begin: Node, end: Node, *, weight: bool = True) -> None:
        self.into[end].append((begin, max(self.time(end) - self.time(begin), 0) if weight else 0))

    def time(self, node: Node) -> int:
        return int((self.trace.end if node[1] else self.trace.start)[node[0]])

    @property
    def nodes(self) -> int:
        return len(set(self.into) | {begin for links in self.into.values() for begin, _ in links})

    @property
    def links(self) -> int:
        return sum(map(len, self.into.values()))

    def longest(self) -> int:
        """Length of the longest path."""
        out: dict[Node, list[tuple[Node, int]]] = defaultdict(list)
        waiting = {node: len(links) for node, links in self.into.items()}
        for node, links in self.into.items():
            for begin, weight in links:
                out[begin].append((node, weight))
                waiting.setdefault(begin, 0)
        best = dict.fromkeys(waiting, 0)
        ready = [node for node, links in waiting.items() if not links]
        while ready:
            node = ready.pop()
            for end, weight in out[node]:
                best[end] = max(best[end], best[node] + weight)
                waiting[end] -= 1
                if not waiting[end]:
                    ready.append(end)
        assert not any(waiting.values()), "not acyclic"
        return max(best.values(), default=0)


def graph(trace: Trace, annotation: str, instance: int) -> Graph:
    """The graph of one annotation, of those whose name contains the text; of everything for no text."""
    low, high = _window(trace, annotation, instance)
    host = np.isin(trace.kind, (EventKind.HOST_OP, EventKind.RUNTIME)) & (trace.ph == ord("X"))
    host &= (trace.start >= low) & (trace.start <= high) & (trace.end > trace.start)
    found = Graph(trace)
    _calls(found, host)
    pieces = _chosen(trace, host)
    _kernels(found, pieces)
    _waits(found, host, pieces)
    return found


def _window(trace: Trace, annotation: str, instance: int) -> tuple[int, int]:
    complete = np.flatnonzero(trace.ph == ord("X"))
    if not annotation:
        return int(trace.start[complete].min()), int(trace.end[complete].max())
    labels = trace.strings.labels(trace.name[complete].tolist())
    row = [row for row, label in zip(complete.tolist(), labels, strict=True) if annotation in label][instance]
    return int(trace.start[row]), int(trace.end[row])


def _calls(found: Graph, host: NDArray[np.bool_]) -> None:
    """Between nodes in order the time between them; nothing between outermost calls, nor up to the end of a wait."""
    trace = found.trace
    blocking = np.isin(trace.name, trace.strings.codes(BLOCKING))
    track = _threads(trace)
    rows = np.flatnonzero(host)
    stack: list[int] = []
    last: Node | None = None

    def leave() -> None:
        nonlocal last
        row = stack.pop()
        assert last is not None
        found.link(last, (row, 1), weight=not blocking[row])
        last = (row, 1)

    before = -1
    for row in rows[np.lexsort((rows, -trace.end[rows], trace.start[rows], track[rows]))].tolist():
        while stack and (track[row] != before or trace.end[stack[-1]] <= trace.start[row]):
            leave()
        if track[row] != before:
            before, last = int(track[row]), None
        if last is not None:
            found.link(last, (row, 0), weight=bool(stack))
        last = (row, 0)
        stack.append(row)
    while stack:
        leave()


def _threads(trace: Trace) -> NDArray[np.int32]:
    """The track of each event; the thread of the backward pass counts as that of the forward pass, if it is clear."""
    rows = np.flatnonzero(np.isin(trace.kind, (EventKind.HOST_OP, EventKind.RUNTIME, EventKind.ANNOTATION)))
    found = {}
    for word in ("autograd", "forward"):
        codes = [code for code in np.unique(trace.name[rows]).tolist() if word in trace.strings.label(code)]
        found[word] = np.unique(trace.track[rows][np.isin(trace.name[rows], codes)]).tolist()
    if any(len(tracks) != 1 for tracks in found.values()):
        return trace.track
    return np.where(trace.track == found["autograd"][0], np.int32(found["forward"][0]), trace.track)


def _chosen(trace: Trace, host: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Device work launched by those calls; of several that one call launched the last in the file."""
    work = device_work(trace)
    linked = np.flatnonzero((work.launch >= 0) & host[np.maximum(work.launch, 0)])
    return np.sort(list({int(work.launch[piece]): piece for piece in linked.tolist()}.values())).astype(np.int64)


def _kernels(found: Graph, chosen: NDArray[np.int64]) -> None:
    """A kernel starts after its launch if its queue was empty then, else after the kernel before."""
    trace, work = found.trace, device_work(found.trace)
    listed = np.array([CALLS["listed calls only"].match(name) is not None for name in _names(trace, work)], np.bool_)
    for stream in np.unique(work.stream[chosen]).tolist():
        here = chosen[work.stream[chosen] == stream]
        here = here[np.lexsort((work.rows[here], work.start[here]))]
        queued = np.flatnonzero((work.stream == stream) & listed)
        launched, begun = np.sort(trace.start[work.launch[queued]]), np.sort(work.start[queued])
        last = -1
        for piece in here.tolist():
            row, launch = int(work.rows[piece]), int(work.launch[piece])
            found.link((row, 0), (row, 1))
            at_launch = _queue(launched, begun, int(trace.start[launch]))
            at_start = _queue(launched, begun, int(work.start[piece]))
            idle = last < 0 or trace.end[last] < trace.start[launch]
            if at_launch == 1 and at_start == 0 and idle:
                found.link((launch, 0), (row, 0))
            elif last >= 0 and work.start[piece] - trace.end[last] < FAR:
                found.link((last, 1), (row, 0))
                found.after_kernel += 1
            last = row


def _names(trace: Trace, work: DeviceWork) -> list[str]:
    """Of the call that launched each work; "" where that was not recorded."""
    return [trace.strings.label(int(trace.name[launch])) if launch >= 0 else "" for launch in work.launch.tolist()]


def _queue(launched: NDArray[np.int64], begun: NDArray[np.int64], time: int) -> int:
    return int(np.searchsorted(launched, time, side="right") - np.searchsorted(begun, time, side="right"))


def _waits(found: Graph, host: NDArray[np.bool_], chosen: NDArray[np.int64]) -> None:
    """Recorded waits: a call ends, or the next kernel of a stream starts, after the last kernel launched before."""
    trace, work = found.trace, device_work(found.trace)
    calls = trace.rows(EventKind.RUNTIME)
    of_id = dict(zip(arguments.integers(trace, "correlation", calls).tolist(), calls.tolist(), strict=True))
    waits = trace.rows(EventKind.DEVICE_SYNC)

    def last_before(time: int, stream: int) -> int:
        """Row of the work launched last before that on the stream, −1 for none."""
        here = chosen[(work.stream[chosen] == stream) & (trace.start[work.launch[chosen]] < time)]
        return int(work.rows[here[np.argmax(trace.start[work.launch[here]])]]) if len(here) else -1

    for wait in waits.tolist():
        args = trace.event(wait)["args"]
        call = of_id.get(args.get("correlation"), -1)
        record = of_id.get(args.get("wait_on_cuda_event_record_corr_id"), -1)
        if call < 0 or not host[call]:
            continue
        match args.get("cuda_sync_kind"):
            case "Stream Sync":
                sources = [last_before(int(trace.start[call]), args["stream"])]
            case "Context Sync":
                streams = np.unique(work.stream[chosen]).tolist()
                sources = [last_before(int(trace.start[call]), stream) for stream in streams]
            case _ if record >= 0:
                sources = [last_before(int(trace.start[record]), args["wait_on_stream"])]
            case _:
                sources = []
        end: Node = (call, 1)
        if args.get("cuda_sync_kind") == "Stream Wait Event":
            later = chosen[(work.stream[chosen] == args["stream"])]
            later = later[trace.start[work.launch[later]] > trace.start[call]]
            if not len(later):
                continue
            end = (int(work.rows[later[np.argmin(trace.start[work.launch[later]])]]), 0)
        for source in sources:
            if source >= 0:
                found.link((source, 1), end, weight=False)
