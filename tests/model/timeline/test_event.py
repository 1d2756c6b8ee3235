"""What the timeline says about one event, a search, a range, and the events that a range cuts out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinetoscope.model.execution.call_tree import self_times
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.operators.call_stacks import call_stacks
from kinetoscope.model.timeline.call_context import Frame, call_context, launched_in
from kinetoscope.model.timeline.cut import rows_between
from kinetoscope.model.timeline.event import EventDetails, event_details
from kinetoscope.model.timeline.layout import timeline
from kinetoscope.model.timeline.range import in_range
from kinetoscope.model.timeline.search import BUCKETS, by_bucket, hits, near, within
from kinetoscope.model.trace.event_kinds import EventKind
from kinetoscope.model.trace.trace import Trace
from kinetoscope.reading import read
from tests.conftest import OURS
from tests.drawn import Event, annotation, job, kernel, launch, op, python

ROWS = {name: row for row, name in enumerate(("step", "main", "linear", "addmm", "launch", "gemm", "sum", "back"))}


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """A step with a forward operator that launches a kernel, and its backward operator on another thread."""
    events: list[Event] = [
        annotation("ProfilerStep#4", 0, 10_000),
        python("train.py(7): main", 100, 9_000),
        python("nn.Module: Linear_0", 200, 2_000),
        op("aten::addmm", 300, 1_000, **{"Sequence number": 5, "Fwd thread id": 0}),
        launch(400, 100, 1),
        kernel("gemm", 2_000, 700, 1),
        op("aten::sum", 3_000, 500),
        op("AddmmBackward0", 5_000, 800, tid=2, **{"Sequence number": 5, "Fwd thread id": 1}),
        launch(5_100, 100, 2, tid=2),
        kernel("gemm", 5_900, 300, 2),
    ]
    return job(tmp_path, *events).trace()


def about(trace: Trace, what: str) -> EventDetails:
    return event_details(trace, ROWS[what])


def test_an_operator(trace: Trace) -> None:
    found = about(trace, "addmm")
    assert (found.name, found.kind, found.start, found.duration, found.self_time) == (
        "aten::addmm",
        "host",
        300,
        1_000,
        900,
    )
    assert (found.step, found.parent, found.depth) == (4, ROWS["linear"], 3)
    assert found.launched == (ROWS["gemm"],)
    assert (found.device_total, found.device_kernels, found.launch_delay) == (700, 1, 1_500)
    assert (found.forward, found.backward) == (None, ROWS["back"])
    assert found.module == "Linear_0"
    assert found.stack == (Frame("main", "train.py", 7), Frame("nn.Module: Linear_0", "", 0))
    assert found.arguments["Sequence number"] == 5
    ends = [(arrow.kind, arrow.start.row, arrow.start.time, arrow.end.row, arrow.end.time) for arrow in found.arrows]
    assert ends == [
        ("forward_backward", ROWS["addmm"], 300, ROWS["back"], 5_000),
        ("launch", ROWS["launch"], 400, ROWS["gemm"], 2_000),
    ]


def test_a_kernel_is_described_by_its_launch(trace: Trace) -> None:
    found = about(trace, "gemm")
    assert (found.kind, found.step, found.launched_by, found.launch_delay) == ("computation", 4, ROWS["launch"], 1_500)
    assert (found.module, found.self_time, found.parent) == ("Linear_0", None, None)
    same = found.same
    assert (same.calls, same.total, same.share, same.on_device) == (2, 1_000, 1.0, True)


def test_the_backward_pass_has_the_stack_of_the_forward_pass(trace: Trace) -> None:
    found = about(trace, "back")
    assert found.forward == ROWS["addmm"]
    assert found.stack_note.startswith("From the forward pass")
    assert found.stack[0] == Frame("main", "train.py", 7)
    assert found.module == "Linear_0"


def test_the_like_of_a_call_that_launches_nothing(trace: Trace) -> None:
    same = about(trace, "sum").same
    assert (same.calls, same.total, same.on_device) == (1, 500, False)
    assert same.share == pytest.approx(500 / 10_000)


def test_a_kernel_from_before_the_recording_is_in_no_step_and_no_total_and_advises_nothing(tmp_path: Path) -> None:
    step, main = annotation("ProfilerStep#4", 0, 10_000), python("train.py(7): main", 100, 9_000)
    before, own = kernel("gemm", 50, 5_000, 1), [launch(400, 100, 2), kernel("gemm", 6_000, 700, 2)]
    trace = job(tmp_path, step, main, before, *own).trace()
    found = event_details(trace, 2)
    assert (found.step, found.stack_note) == (None, "Its launch was not recorded, and a stack is that of the launch.")
    assert (found.same.calls, found.same.total, found.same.share) == (2, 700, 1.0)
    assert event_details(trace, 4).step == 4


@pytest.mark.parametrize(
    ("python_calls", "note"),
    [
        ([python("nn.Module: Linear_0", 5_000, 20)], "No Python call is around it."),
        ([], "Call stacks were not recorded (with_stack=True records them)."),
    ],
)
def test_why_a_call_has_no_stack(tmp_path: Path, python_calls: list[Event], note: str) -> None:
    trace = job(tmp_path, op("aten::mm", 0, 100), *python_calls).trace()
    assert event_details(trace, 0).stack_note == note


def test_recursion_counts_once(tmp_path: Path) -> None:
    trace = job(tmp_path, op("a", 0, 100), op("a", 10, 50), op("a", 200, 100)).trace()
    assert (event_details(trace, 0).same.calls, event_details(trace, 0).same.total) == (3, 200)


def test_a_stream_that_waits_for_another(tmp_path: Path) -> None:
    events = [
        launch(0, 10, 1),
        launch(20, 10, 2),
        kernel("first", 100, 400_000, 1, stream=7),
        kernel("second", 401_000, 100, 2, stream=8),
    ]
    trace = job(tmp_path, *events).trace()
    waits = [(arrow.start.row, arrow.end.row) for arrow in event_details(trace, 3).arrows if arrow.kind == "wait"]
    assert waits == [(2, 3)]
    assert waits == [
        (arrow.start.row, arrow.end.row) for arrow in event_details(trace, 2).arrows if arrow.kind == "wait"
    ]


def test_stacks_and_launches_are_those_of_the_whole_trace() -> None:
    trace = read(OURS / "mlp.pt.trace.json.gz").trace()
    whole, work = call_stacks(trace, True), device_work(trace)
    for row in np.flatnonzero(whole.code >= 0)[::37].tolist():
        own = call_context(trace, row)
        if not own.of_forward:
            text = whole.texts[whole.code[row]]
            assert [frame.name for frame in own.stack] == [part.split("): ")[-1] for part in text.split(";")]
    calls = np.unique(work.launch[work.launch >= 0]).tolist()
    assert sum(len(launched_in(trace, row)) for row in calls) == int((work.launch >= 0).sum())


def test_what_was_launched_in_the_calls_of_a_real_trace(shared_traces: Path) -> None:
    trace = read(shared_traces / "ddp_nccl_a100").trace()
    work = device_work(trace)
    ops = trace.rows(EventKind.HOST_OP)[::499]
    for row in ops.tolist():
        inside = (trace.track == trace.track[row]) & (trace.start >= trace.start[row]) & (trace.end <= trace.end[row])
        expected = np.flatnonzero((work.launch >= 0) & inside[work.launch])
        assert sorted(launched_in(trace, row).tolist()) == expected.tolist()
        assert event_details(trace, row).self_time == int(self_times(trace)[row])


def test_every_kind_of_event_of_real_traces_has_details(shared_traces: Path) -> None:
    for name in ("mtia", "mi250_train", "hostile/trace_view.json", "cupti_counters"):
        trace = read(shared_traces / name).trace()
        drawn = np.flatnonzero(timeline(trace).layer >= 0)
        for row in drawn[:: max(len(drawn) // 50, 1)].tolist():
            found = event_details(trace, row)
            assert found.duration >= 0
            assert found.same.calls >= 1


# --- search


def found_names(trace: Trace, text: str) -> list[int]:
    rows: list[int] = hits(trace, text).rows.tolist()
    return rows


def test_names_are_found_whatever_their_case(trace: Trace) -> None:
    assert found_names(trace, "ADDMM") == [ROWS["addmm"], ROWS["back"]]
    assert found_names(trace, "nowhere") == []
    assert found_names(trace, ".*") == []


def test_the_next_and_the_one_before_in_order_of_time(trace: Trace) -> None:
    found = hits(trace, "gemm")
    first, last = found.rows.tolist()
    assert near(trace, found, None, "next") == 0
    assert near(trace, found, None, "previous") == 1
    assert near(trace, found, first, "next") == 1
    assert near(trace, found, last, "next") == 0, "it begins anew"
    assert near(trace, found, first, "previous") == 1
    assert near(trace, found, ROWS["sum"], "next") == 1, "of an event that is no hit"
    assert near(trace, found, ROWS["sum"], "previous") == 0
    assert near(trace, hits(trace, "nowhere"), first, "next") == -1


@pytest.mark.parametrize("text", ["a", "aten::", "aten::addmm", "at::native", "forward", "no such name"])
def test_hits_are_those_of_a_look_at_every_name(text: str) -> None:
    trace = read(OURS / "mlp.pt.trace.json.gz").trace()
    drawn = np.flatnonzero(timeline(trace).layer >= 0).tolist()
    fits = [row for row in drawn if text in trace.strings.label(int(trace.name[row])).lower()]
    found = hits(trace, text)
    assert found.rows.tolist() == sorted(fits, key=lambda row: (int(trace.start[row]), row))
    assert set(found.codes.tolist()) == {int(trace.name[row]) for row in fits}


def test_hits_of_one_instant_are_all_visited(tmp_path: Path) -> None:
    trace = job(tmp_path, *(op("same", 100, 10, tid=thread) for thread in range(5))).trace()
    found = hits(trace, "same")
    place, seen = near(trace, found, None, "next"), []
    for _ in range(5):
        seen.append(int(found.rows[place]))
        place = near(trace, found, seen[-1], "next")
    assert seen == [0, 1, 2, 3, 4]


def test_hits_by_bucket_and_within_a_range(trace: Trace) -> None:
    found, origin = hits(trace, "gemm"), timeline(trace).origin
    counts = by_bucket(trace, found)
    assert (len(counts), counts.sum()) == (BUCKETS, 2)
    bucket = -(-timeline(trace).end // BUCKETS)
    assert np.flatnonzero(counts).tolist() == [2_000 // bucket, 5_900 // bucket]
    assert within(trace, found, origin + 2_001, origin + 6_000).rows.tolist() == found.rows[1:].tolist()


# --- a range


def test_a_range(trace: Trace) -> None:
    found = in_range(trace, 0, 10_000)
    assert (found.steps, found.whole, found.busy) == ((4,), True, {0: 1_000})
    assert found.kinds == (1_000.0, 0.0, 0.0)
    assert found.longest == (6_200, 10_000)
    assert [(top.time, top.calls) for top in found.device_top] == [(1_000, 2)]
    assert sum(found.idle.values()) == 9_000


def test_a_range_cuts_what_reaches_into_it(trace: Trace) -> None:
    found = in_range(trace, 2_300, 2_400)
    assert (found.busy, found.whole, found.longest) == ({0: 100}, False, None)
    (gemm,) = found.device_top
    assert (gemm.time, gemm.row) == (100, ROWS["gemm"])
    assert [(top.time, top.row) for top in found.host_top] == [(100, ROWS["main"])]


def test_of_a_range_what_was_recorded_counts(trace: Trace) -> None:
    wider, whole = in_range(trace, -5_000, 15_000), in_range(trace, 0, 10_000)
    assert (wider.length, wider.busy, wider.longest) == (whole.length, whole.busy, whole.longest)
    assert in_range(trace, 20_000, 30_000).length == 0
    assert in_range(trace, -20, -10).length == 0


def test_self_times_of_a_range_are_those_of_its_calls(tmp_path: Path) -> None:
    trace = job(tmp_path, op("a", 0, 100), op("b", 10, 20), op("c", 80, 30), launch(90, 5, 1)).trace()
    host_top = in_range(trace, 0, 200).host_top
    assert [(top.row, top.time) for top in host_top] == [(0, 60), (2, 25), (1, 20), (3, 5)]
    assert all(event_details(trace, top.row).self_time == top.time for top in host_top)


def test_self_times_of_a_range_sum_to_the_time_of_threads(shared_traces: Path) -> None:
    trace = read(shared_traces / "mi250_train").trace()
    found = in_range(trace, 0, timeline(trace).end)
    assert found.length > 0
    assert all(top.time <= found.length for top in found.host_top)
    for low in range(0, found.length, max(found.length // 7, 1)):
        part = in_range(trace, low, low + max(found.length // 7, 1))
        assert sum(part.busy.values()) <= part.length * len(part.busy)
        assert sum(part.idle.values()) + sum(part.busy.values()) == part.length * len(part.busy)


# --- what a range cuts out


def flow(phase: str, number: int, time: int, tid: int, pid: int = 1) -> Event:
    return {"ph": phase, "id": number, "cat": "ac2g", "name": "ac2g", "pid": pid, "tid": tid, "ts": time / 1000}


def test_a_range_cuts_out_what_touches_it_and_whole_flows(tmp_path: Path) -> None:
    events = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}},
        op("before", 0, 100),
        op("around", 50, 10_000, tid=2),
        launch(1_000, 100, 1),
        kernel("a", 1_200, 100, 1),
        flow("s", 1, 1_000, 1),
        flow("f", 1, 1_200, 7, pid=0),
        launch(1_900, 50, 2),
        kernel("later", 3_000, 100, 2),
        flow("s", 2, 1_900, 1),
        flow("f", 2, 3_000, 7, pid=0),
        op("instant", 2_000, 0),
    ]
    trace = job(tmp_path, *events).trace()
    assert rows_between(trace, 1_050, 2_000).tolist() == [0, 2, 3, 4, 5, 6, 7]
    assert rows_between(trace, 2_000, 2_001).tolist() == [0, 2, 11]
    assert rows_between(trace, 0, 20_000).tolist() == list(range(len(events)))
