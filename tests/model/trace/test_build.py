"""Traces that are built of columns are those that the same events give as Kineto's JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinetoscope.analyses import named
from kinetoscope.engines.threads import Threads
from kinetoscope.model.job import Job
from kinetoscope.model.trace.build import TraceBuilder
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.source import Source
from kinetoscope.model.trace.trace import Trace
from kinetoscope.reading import read
from tests.drawn import Event, annotation, kernel, launch, memory, op, written

STEP = 1000


def drawn(folder: Path) -> Trace:
    events: list[Event] = []
    for step in range(3):
        begin = step * STEP
        shapes: dict[str, Any] = {"Input Dims": [[2, 3], [3, 4]], "External id": step}
        events += [annotation(f"ProfilerStep#{step}", begin, STEP), op("aten::mm", begin + 100, 200, **shapes)]
        events += [launch(begin + 150, 50, step + 1), kernel("gemm", begin + 250, 500, step + 1)]
    events.append(memory(500, 64))
    return read(written(folder / "x.json", *events, distributedInfo={"rank": 3}), jobs=1).trace()


def built() -> Trace:
    begin = np.arange(3) * STEP
    trace = TraceBuilder()
    host = {"process": 1, "thread": 1}
    names = [f"ProfilerStep#{step}" for step in range(3)]
    trace.add(EventKind.ANNOTATION, names, begin, begin + STEP, **host)
    dims = [[[2, 3], [3, 4]]] * 3
    trace.add(EventKind.HOST_OP, "aten::mm", begin + 100, begin + 300, **host, input_dims=dims, external_id=range(3))
    number = np.arange(1, 4)
    trace.add(EventKind.RUNTIME, "cudaLaunchKernel", begin + 150, begin + 200, **host, correlation=number)
    work: dict[str, Any] = {"device": 0, "stream": 7, "correlation": number}
    trace.add(EventKind.KERNEL, "gemm", begin + 250, begin + 750, thread=7, **work)
    trace.add_memory([500], **host, memory_device_type=0, memory_device=-1, memory_bytes=64)
    return trace.build(Source("x", rank=3), metadata={"distributedInfo": {"rank": 3}})


def job(trace: Trace) -> Job:
    return Job("x", (trace.source,), Threads(lambda _: trace, jobs=1))


def members(event: dict[str, Any]) -> str:
    return str(sorted((key, value) for key, value in event.items() if value != {}))


def test_events_read_back_as_kineto_writes_them(tmp_path: Path) -> None:
    assert sorted(map(members, built().events())) == sorted(map(members, drawn(tmp_path).events()))
    assert list(built().event(3)) == ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args"]
    assert built().metadata == {"distributedInfo": {"rank": 3}}


@pytest.mark.parametrize(
    "name", ["kernels", "operators", "step_breakdown", "idle_breakdown", "launches", "critical_path"]
)
def test_analyses_say_the_same_of_both(tmp_path: Path, name: str) -> None:
    ask = named(name)
    assert ask(job(built())).frame.equals(ask(job(drawn(tmp_path))).frame)


def test_columns_hold_numbers_texts_and_json_or_one_value_for_all() -> None:
    trace = TraceBuilder()
    texts = ["a\\b", "\u00e9\n", '"']
    shared: dict[str, Any] = {"occupancy": [0.5, 1, 2], "collective": texts, "registers": 9}
    trace.add(EventKind.KERNEL, texts, [0, 1, 2], [1, 2, 3], thread=["stream 7", 7, "x"], **shared)
    events = list(trace.build(Source("x")).events())
    assert [each["name"] for each in events] == texts
    assert [each["tid"] for each in events] == ["stream 7", 7, "x"]
    keys = ("est. achieved occupancy %", "Collective name", "registers per thread")
    expected = [(0.5, texts[0], 9), (1, texts[1], 9), (2, texts[2], 9)]
    assert [tuple(each["args"][key] for key in keys) for each in events] == expected


def test_marks_and_names_of_threads() -> None:
    trace = TraceBuilder()
    trace.mark("begins", 1500)
    trace.name_thread("loader", process=4, thread=2)
    trace.name_process("python", process=4)
    mark, thread, process = trace.build(Source("x")).events()
    assert mark == {"ph": "i", "s": "g", "name": "begins", "pid": 0, "tid": 0, "ts": 1.5}
    assert thread == {
        "ph": "M", "name": "thread_name", "ts": 0.0, "pid": 4, "tid": 2, "args": {"name": "loader"},
    }  # fmt: skip
    assert (process["name"], process["pid"], process["args"]) == ("process_name", 4, {"name": "python"})


def test_nothing_is_a_trace_too() -> None:
    assert len(TraceBuilder().build(Source("x"))) == 0


def test_a_mangled_name_is_shown_as_what_it_stands_for_and_kept() -> None:
    trace = TraceBuilder()
    trace.add(EventKind.KERNEL, "_Z3addPf", [0], [1])
    got = trace.build(Source("x"))
    assert got.strings.text(int(got.name[0])) == "add(float*)"
    assert got.event(0)["name"] == "_Z3addPf"


def test_an_argument_that_no_event_has_is_refused() -> None:
    with pytest.raises(KeyError):
        TraceBuilder().add(EventKind.KERNEL, "x", [0], [1], corelation=1)
