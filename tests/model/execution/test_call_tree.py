from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import Trace
from kinetoscope.model.execution.call_tree import (
    CallTree,
    call_tree,
    enclosing_annotation,
    enclosing_frame,
    enclosing_module,
    enclosing_op,
    main_thread,
    open_until,
    outermost_op,
    outermost_ops,
    owned_times,
    self_times,
)
from tests import drawn


def trace_of(folder: Path, *events: drawn.Event) -> Trace:
    return drawn.job(folder, *events).trace()


def tree_of(folder: Path, *events: drawn.Event) -> CallTree:
    return call_tree(trace_of(folder, *events))


def test_calls_nest_by_time_whatever_their_order_in_the_file(tmp_path: Path) -> None:
    tree = tree_of(
        tmp_path,
        drawn.launch(20, 5, 1),
        drawn.op("aten::addmm", 10, 30),
        drawn.annotation("forward", 0, 100),
        drawn.op("aten::relu", 50, 10),
    )
    assert tree.parent.tolist() == [1, 2, -1, 2]
    assert tree.depth.tolist() == [2, 1, 0, 1]
    assert tree.order.tolist() == [2, 1, 0, 3]


def test_threads_have_trees_of_their_own(tmp_path: Path) -> None:
    assert tree_of(tmp_path, drawn.op("a", 0, 100), drawn.op("b", 10, 20, tid=2)).parent.tolist() == [-1, -1]


def test_a_call_that_overlaps_only_partly_is_no_child(tmp_path: Path) -> None:
    # What stacks leave at the ends of a span: the call that opens it begins before it and ends inside.
    tree = tree_of(
        tmp_path,
        drawn.python("train", 0, 200),
        drawn.python("<built-in method _record_function_enter_new>", 8, 10),
        drawn.annotation("forward", 10, 100),
        drawn.op("aten::mm", 30, 20),
    )
    assert tree.parent.tolist() == [-1, 0, 0, 2]
    assert tree.partial == 1


def test_equal_spans_nest_in_the_order_of_the_file(tmp_path: Path) -> None:
    assert tree_of(tmp_path, drawn.op("outer", 0, 10), drawn.op("inner", 0, 10)).parent.tolist() == [-1, 0]


@pytest.mark.parametrize(
    "outside",
    [
        drawn.kernel("gemm", 10, 5, 1, stream=1, device=1),
        drawn.memory(10, 64),
        drawn.annotation("gloo:all_reduce", 10, 5),
        drawn.op("profiler::_record_function_enter_new", 10, 5),
        drawn.op("aten::is_leaf", 10, 5),
        drawn.event("overhead", "Buffer Flush", 10, 5),
        {"ph": "b", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0.01},
    ],
    ids=lambda event: event["name"],
)
def test_what_does_not_nest_takes_no_part(tmp_path: Path, outside: drawn.Event) -> None:
    tree = tree_of(tmp_path, drawn.op("aten::mm", 0, 100), outside)
    assert tree.member.tolist() == [True, False]
    assert (tree.parent[1], tree.depth[1]) == (-1, -1)


NESTED = [
    drawn.python("nn.Module: Net_0", 0, 100),
    drawn.python("forward", 5, 80),
    drawn.annotation("block", 10, 70),
    drawn.op("aten::linear", 20, 40),
    drawn.launch(30, 5, 1),
    drawn.op("aten::relu", 110, 5),
]


def test_what_is_around_a_call(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *NESTED)
    assert enclosing_op(trace).tolist() == [-1, -1, -1, 3, 3, 5]
    assert enclosing_annotation(trace).tolist() == [-1, -1, 2, 2, 2, -1]
    assert enclosing_frame(trace).tolist() == [0, 1, 1, 1, 1, -1]
    assert enclosing_module(trace).tolist() == [0, 0, 0, 0, 0, -1]


def test_self_time_leaves_out_the_calls_directly_inside(tmp_path: Path) -> None:
    assert self_times(trace_of(tmp_path, *NESTED)).tolist() == [20, 10, 30, 35, 5, 5]


spans = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 25), st.integers(1, 2)), max_size=14)


@given(spans)
def test_owned_times_sum_to_the_time_in_which_calls_run(
    tmp_path_factory: pytest.TempPathFactory, drawing: list[tuple[int, int, int]]
) -> None:
    events = [drawn.op("aten::mm", start, length, tid=tid) for start, length, tid in drawing]
    trace = trace_of(tmp_path_factory.getbasetemp(), *events)
    tree = call_tree(trace)
    running = {(tid, now) for start, length, tid in drawing for now in range(start, start + length)}
    assert owned_times(trace, tree.member).sum() == len(running)
    until = open_until(trace)
    for child, parent in enumerate(tree.parent.tolist()):
        if parent >= 0:
            assert trace.start[parent] <= trace.start[child] <= until[child] <= until[parent]


LATE = [
    drawn.annotation("ProfilerStep#1", 0, 1000),
    drawn.op("Torch-Compiled Region", 100, 500),
    drawn.python("nn.Module: Net_0", 90, 800),
    drawn.python("compiled_fn.py(3): call", 110, 491),  # 1 ns more than the operator around it
    drawn.launch(300, 10, 1),
]


def test_a_frame_that_ends_late_takes_nothing_away(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *LATE)
    around = (enclosing_op, enclosing_annotation, enclosing_module, enclosing_frame)
    assert [int(trace.of(each)[-1]) for each in around] == [1, 0, 2, 3]


def test_a_frame_without_a_return_ends_with_its_caller(tmp_path: Path) -> None:
    lost = drawn.python("compiled_fn.py(3): call", 110, 90_000)
    trace = trace_of(tmp_path, *LATE[:3], lost, LATE[4])
    assert [int(trace.of(each)[-1]) for each in (enclosing_op, enclosing_annotation, enclosing_module)] == [1, 0, 2]
    assert open_until(trace).tolist() == [1000, 600, 890, 600, 310]


def test_what_a_late_frame_outlasts_counts_once(tmp_path: Path) -> None:
    """Torch's `key_averages` counts 490 of these 1000 ns to the operator and to the frame."""
    trace = trace_of(tmp_path, *LATE)
    assert self_times(trace).tolist() == [90 + 110, 10, 10 + 289, 481, 10]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(-1, 25), st.integers(1, 2), st.booleans()), max_size=14))
def test_self_times_sum_to_the_time_in_which_calls_run(
    tmp_path_factory: pytest.TempPathFactory, drawing: list[tuple[int, int, int, bool]]
) -> None:
    events = [
        (drawn.python if is_frame else drawn.op)("aten::mm", start, length, tid=tid)
        for start, length, tid, is_frame in drawing
    ]
    trace = trace_of(tmp_path_factory.getbasetemp(), *events)
    running = {(tid, now) for start, length, tid, _ in drawing for now in range(start, start + length)}
    own = self_times(trace)
    assert own.min(initial=0) >= 0
    assert own.sum() == len(running)
    assert own.tolist() == owned_times(trace, call_tree(trace).member).tolist()


# --- the thread of the training loop


def tid_of_main(folder: Path, *events: drawn.Event) -> int:
    trace = trace_of(folder, *events)
    return int(trace.tracks.integer_tids()[main_thread(trace)])


def test_a_thread_that_only_sleeps_is_not_the_main_thread(tmp_path: Path) -> None:
    sleeps, works = drawn.python("threading.py(359): wait", 0, 900, tid=2), drawn.op("aten::mm", 10, 20, tid=1)
    trace = trace_of(tmp_path, sleeps, works)
    assert main_thread(trace) == trace.track[1]
    trace = trace_of(tmp_path, sleeps, drawn.python("train.py(1): train", 10, 20, tid=1))
    assert main_thread(trace) == trace.track[0]  # nothing tells


def test_the_main_thread_is_the_one_with_the_steps(tmp_path: Path) -> None:
    backward = drawn.op("autograd::engine", 0, 5000, tid=2)
    for mark in (drawn.annotation("ProfilerStep#3", 0, 100), drawn.event("Operator", "ProfilerStep#3", 0, 100)):
        assert tid_of_main(tmp_path, backward, mark) == 1


def test_without_steps_it_is_the_one_with_the_most_time_in_calls(tmp_path: Path) -> None:
    events = [drawn.op("a", 0, 30), drawn.op("b", 0, 20, tid=2), drawn.op("c", 30, 20, tid=2)]
    assert tid_of_main(tmp_path, *events) == 2


def test_without_calls_there_is_none(tmp_path: Path) -> None:
    assert main_thread(trace_of(tmp_path, drawn.kernel("gemm", 0, 5, 1))) == -1


def test_annotations_steps_and_python_calls_are_around_the_outermost(tmp_path: Path) -> None:
    events = [
        drawn.op("ProfilerStep#1", 0, 1000),
        drawn.python("forward", 10, 500),
        drawn.op("aten::linear", 20, 100),
        drawn.annotation("inside", 30, 50),
        drawn.op("aten::addmm", 40, 30),
        drawn.launch(50, 5, 1),
        drawn.launch(600, 5, 2),
    ]
    trace = trace_of(tmp_path, *events)
    assert outermost_ops(trace).nonzero()[0].tolist() == [2]
    assert outermost_op(trace).tolist() == [-1, -1, 2, 2, 2, 2, -1]
