from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinetoscope import Trace, read
from kinetoscope.model.execution import autograd
from kinetoscope.model.execution.autograd import backward_links, belongs_to, by_start
from tests import drawn
from tests.catalog.samples import SHARED, required


def op(name: str, start: int, sequence: int, *, thread: int = 0, tid: int = 1, duration: int = 5) -> drawn.Event:
    return drawn.op(name, start, duration, tid=tid, **{"Sequence number": sequence, "Fwd thread id": thread})


def flow(phase: str, time: int, number: Any, *, tid: int = 1) -> drawn.Event:
    return {"ph": phase, "cat": "fwdbwd", "name": "fwdbwd", "pid": 1, "tid": tid, "ts": time / 1000, "id": number}


def linked(folder: Path, *events: drawn.Event) -> list[int]:
    links = backward_links(drawn.job(folder, *events).trace())
    return list(map(int, links.forward))


def test_the_last_operator_of_a_number_is_the_one_that_the_backward_pass_runs(tmp_path: Path) -> None:
    events = [
        op("aten::linear", 0, 7, duration=50),
        op("aten::t", 1, 7),
        op("aten::addmm", 10, 8, duration=30),
        op("autograd::engine::evaluate_function: AddmmBackward0", 100, 8, thread=1, tid=2, duration=40),
        op("AddmmBackward0", 110, 8, thread=1, tid=2, duration=20),
        op("TBackward0", 150, 7, thread=1, tid=2),
        op("unknown", 160, 9, thread=1, tid=2),
    ]
    assert linked(tmp_path, *events) == [-1, -1, -1, 2, 2, 1, -1]


def test_each_thread_counts_its_own(tmp_path: Path) -> None:
    forward = [op("a", 0, 7, tid=1), op("b", 0, 7, tid=2), op("b", 10, 8, tid=2), op("b", 20, 9, tid=2)]
    backward = [op("bB", time, number, thread=4, tid=9) for time, number in ((50, 9), (60, 8), (70, 7))]
    # Most numbers of the forward thread 4 are on thread 2.
    assert linked(tmp_path, *forward, *backward) == [-1, -1, -1, -1, 3, 2, 1]
    # Of the numbers alone nothing could tell; one flow does, for the others too.
    flows = flow("s", 0, 1, tid=1), flow("f", 70, 1, tid=9)
    assert linked(tmp_path, *forward, *backward, *flows) == [-1, -1, -1, -1, -1, -1, 0, -1, -1]


def test_flows_alone_link_the_innermost_operators(tmp_path: Path) -> None:
    events = [
        drawn.op("outer", 0, 50),
        drawn.op("inner", 10, 20),
        drawn.op("innerBackward", 100, 20, tid=2),
        flow("s", 10, "0x5"),
        flow("f", 100, "0x5", tid=2),
        flow("s", 0, 5),  # no end
        flow("f", 100, 6, tid=2),  # no start
        flow("s", 70, 8),  # where nothing runs
        flow("f", 100, 8, tid=2),
    ]
    assert linked(tmp_path, *events)[:3] == [-1, -1, 1]


def test_what_a_call_belongs_to(tmp_path: Path) -> None:
    events = [
        drawn.python("forward", 0, 50),
        op("aten::mm", 10, 8, duration=20),
        op("autograd::engine::evaluate_function: MmBackward0", 100, 8, thread=1, tid=2, duration=40),
        op("MmBackward0", 110, 8, thread=1, tid=2, duration=20),
        drawn.op("aten::t", 115, 5, tid=2),
        drawn.op("elsewhere", 150, 5, tid=2),
    ]
    trace = drawn.job(tmp_path, *events).trace()
    assert belongs_to(trace).tolist() == [-1, 0, 1, 2, 3, -1]
    assert by_start(trace).tolist() == [0, 1, 2, 3, 4, 5]


def test_nothing_is_linked_to_what_comes_later(tmp_path: Path) -> None:
    assert linked(tmp_path, op("aB", 0, 7, thread=1), op("a", 10, 7)) == [-1, -1]
    events = drawn.op("b", 10, 5), drawn.op("bB", 0, 5), flow("s", 10, 1), flow("f", 0, 1)
    assert linked(tmp_path, *events) == [-1] * 4


REAL = ["torch_2_13_cpu/transformer.pt.trace.json.gz", "ddp_nccl_a100", "resnet_ddp_mi300", "mi250_train"]


@pytest.mark.parametrize("name", REAL)
def test_flows_and_numbers_agree(name: str) -> None:
    trace: Trace = read(required(SHARED / name), jobs=1).trace()
    links = backward_links(trace)
    rows, forward = autograd._by_sequence(trace, np.full(len(trace), -1, np.int32))
    assert links.by_flow > 0
    assert sorted(rows.tolist()) == np.flatnonzero(links.forward >= 0).tolist()
    assert (links.forward[rows] == forward).all()


def test_what_the_backward_pass_computes_again_has_numbers_of_its_own(tmp_path: Path) -> None:
    events = [
        op("aten::linear", 0, 7, duration=50),
        op("autograd::engine::evaluate_function: CheckpointFunctionBackward", 100, 7, thread=1, tid=2, duration=90),
        op("CheckpointFunctionBackward", 105, 7, thread=1, tid=2, duration=80),
        op("aten::linear", 110, 3, tid=2, duration=30),
        drawn.op("aten::t", 112, 5, tid=2),
        op("autograd::engine::evaluate_function: AddmmBackward0", 150, 3, thread=2, tid=2, duration=20),
        drawn.op("aten::mm", 155, 5, tid=2),
    ]
    again = autograd.recomputed_ops(drawn.job(tmp_path, *events).trace())
    assert np.flatnonzero(again).tolist() == [3, 4]
