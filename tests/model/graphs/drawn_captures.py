"""Programs that capture graphs and replay them, drawn as ROCm and as CUDA record them. Times are whole nanoseconds.

Each node has an operator whose input has the shape [number of the graph, number of the node]: so a test sees which node
of which graph a piece of replayed work was taken for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.graphs.replays import replays
from kinetoscope.model.trace.trace import Trace
from kinetoscope.reading import read
from tests import drawn
from tests.drawn import Event

Answer = list[list[tuple[int, int] | None]]
"""Of each replay, in the order of the launches, graph and node of each piece of work by start; None for none."""


@dataclass(frozen=True)
class Graph:
    """A graph: the kernels of its nodes ("Memcpy DtoD" and "Memset" are no kernels), and the stream of each."""

    kernels: Sequence[str]
    streams: Sequence[int] = ()
    thread_of: Sequence[int] = ()
    operator: str = "aten::op"


@dataclass
class Program:
    """A program; `rocm` names kernels at launches and numbers no nodes, CUDA the other way round."""

    graphs: Sequence[Graph]
    rocm: bool = True
    time: int = 0
    number: int = 100
    events: list[Event] = field(default_factory=list)
    truth: Answer = field(default_factory=list)

    def call(self, name: str, *, tid: int = 1, **args: Any) -> int:
        """A call of the runtime; its correlation."""
        self.time, self.number = self.time + 100, self.number + 1
        event = drawn.launch(self.time, 50, self.number, name=f"{'hip' if self.rocm else 'cuda'}{name}", tid=tid)
        event["args"] |= args
        self.events.append(event)
        return self.number

    def _launch(self, graph: int, node: int, *, tid: int) -> int:
        kernel = self.graphs[graph].kernels[node]
        op = drawn.op(self.graphs[graph].operator, self.time + 60, 200, tid=tid, **{"Input Dims": [[graph, node]]})
        self.events.append(op)
        if kernel.startswith("Mem"):
            return self.call("MemcpyAsync" if kernel.startswith("Memcpy") else "MemsetAsync", tid=tid)
        return self.call("LaunchKernel", tid=tid, **({"kernel": kernel} if self.rocm else {}))

    def run(self, graph: int) -> None:
        """Run what a graph holds, without a graph."""
        for node, kernel in enumerate(self.graphs[graph].kernels):
            self._work(kernel, self._launch(graph, node, tid=1), self.time + 60, 7, node)
            self.time += 200

    def capture(self, *graphs: int, label: str = "") -> None:
        """Capture some graphs, in one annotation if it has a label."""
        began = self.time
        for graph in graphs:
            self.call("StreamBeginCapture")
            for node in range(len(self.graphs[graph].kernels)):
                self._launch(graph, node, tid=dict(enumerate(self.graphs[graph].thread_of)).get(node, 1))
                self.time += 200
            self.call("StreamEndCapture")
        if label:
            self.events.append(drawn.annotation(label, began, self.time - began + 100))
        self.time += 1000

    def replay(self, graph: int, *, graph_id: int = -1, order: Sequence[int] = (), kept: slice = slice(None)) -> None:
        """Launch a graph: its work begins in an order of its nodes (that of the capture), and some is recorded."""
        correlation = self.call("GraphLaunch")
        known = self.graphs[graph]
        at, truth = self.time + 200, list[tuple[int, int] | None]()
        for node in list(order or range(len(known.kernels)))[kept]:
            stream = known.streams[node] if known.streams else 7
            ids = {} if self.rocm else {"graph id": graph_id if graph_id >= 0 else graph + 1, "graph node id": node + 1}
            self._work(known.kernels[node], correlation, at, stream, node, **ids)
            truth.append((graph, node))
            at += 20
        self.truth.append(truth)
        self.time = at + 1000

    def step(self, name: str, *graphs: int) -> None:
        """A step of an engine that replays some graphs."""
        began = self.time + 10
        for graph in graphs:
            self.replay(graph)
        self.events.append(drawn.annotation(name, began, self.time - began))
        self.time += 500

    def _work(self, kernel: str, correlation: int, start: int, stream: int, node: int, **args: Any) -> None:
        category = {"Memc": "gpu_memcpy", "Mems": "gpu_memset"}.get(kernel[:4], "kernel")
        if not self.rocm and category == "kernel":
            args |= {"grid": [node + 1, 1, 1], "block": [64, 1, 1]}
        self.events.append(drawn.kernel(kernel, start, 10, correlation, stream=stream, category=category, **args))

    def written(self, file: Path, since: int = 0) -> Path:
        """The events so far, or from one on."""
        return drawn.written(file, *self.events[since:])


def answer(trace: Trace) -> Answer:
    """What the trace has as the graph and the node of each piece of work, of replays in the order of their launches."""
    every, work = replays(trace), device_work(trace)
    result: dict[int, list[tuple[int, tuple[int, int] | None]]] = {}
    for replay in range(len(every)):
        for place in every.work_of(replay).tolist():
            op = int(work.op[place]) if work.captured[place] >= 0 else -1
            node = tuple(trace.event(op)["args"]["Input Dims"][0]) if op >= 0 else None
            result.setdefault(int(every.launch[replay]), []).append((int(work.start[place]), node))
    return [
        [node for _, node in sorted(result[row], key=lambda each: each[0])]
        for row in sorted(result, key=lambda row: int(trace.start[row]))
    ]


def joined(folder: Path, program: Program, captured: int) -> Trace:
    """The trace of a program whose first events, so many, are the recording of its captures."""
    capture = drawn.written(folder / "capture.json", *program.events[:captured])
    return read(program.written(folder / "run.json", captured), capture=capture, jobs=1).trace()
