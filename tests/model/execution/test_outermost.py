"""Operators that stand in no other operator."""

from __future__ import annotations

from pathlib import Path

from kinetoscope.model.execution.outermost import outermost_op, outermost_ops
from tests import drawn


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
    trace = drawn.job(tmp_path, *events).trace()
    assert outermost_ops(trace).nonzero()[0].tolist() == [2]
    assert outermost_op(trace).tolist() == [-1, -1, 2, 2, 2, 2, -1]
