"""Call stacks of operators: by hand, against `operators`, and against the TensorBoard plugin's answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope import Selection, operator_stacks
from kinetoscope.errors import UsageError
from tests import drawn

CALLED = [
    drawn.python("train.py(7): main", 0, 1000),
    drawn.python("net.py(3): forward", 100, 100),
    drawn.op("aten::mm", 110, 50),
    drawn.launch(120, 5, 1),
    drawn.op("aten::mm", 210, 20),
    drawn.op("aten::mm", 240, 30),
    drawn.launch(245, 5, 2),
    drawn.op("aten::add", 300, 5),
    drawn.kernel("k", 400, 60, 1),
    drawn.kernel("k", 430, 7, 2),
]


def rows(folder: Path, *events: drawn.Event, **params: Any) -> list[tuple[Any, ...]]:
    frame = operator_stacks(drawn.job(folder, *events), **params).frame
    return frame.select("name", "call_stack", "line", "calls", "host_total", "host_self", "device_self").rows()


def test_a_row_for_each_stack(tmp_path: Path) -> None:
    net, main = "train.py(7): main;net.py(3): forward", "train.py(7): main"
    assert rows(tmp_path, *CALLED, operator="MM") == [
        ("aten::mm", net, 3, 1, 50, 45, 60),
        ("aten::mm", main, 7, 2, 50, 45, 7),
    ]
    assert [row[0] for row in rows(tmp_path, *CALLED)] == ["aten::mm"] * 2 + ["aten::add"] + ["cudaLaunchKernel"] * 2
    assert rows(tmp_path, *CALLED, operator="aten::add", exact=True, select=Selection(time=(302, 400))) == [
        ("aten::add", main, 7, 0, 3, 3, None)
    ]


MODULE = [
    drawn.python("nn.Module: Net_3", 0, 900),
    drawn.python("torch/nn/modules/module.py(1779): _call_impl", 1, 898),
    drawn.python("net.py(5): forward", 2, 896),
]


def test_calls_from_one_line_are_one_row_if_asked(tmp_path: Path) -> None:
    """Whatever objects and functions that are not the user's lie between."""
    builtin = [drawn.python(f"<built-in method mm of Tensor object at 0x7f{n}>", 100 * n, 50) for n in (1, 2, 3)]
    ops = [drawn.op("aten::mm", 100 * n + 5, 10) for n in (1, 2, 3)]
    other = drawn.python("net.py(9): other", 400, 90), drawn.op("aten::mm", 405, 8)
    job = drawn.job(tmp_path, *MODULE, *builtin, *ops, *other)
    assert operator_stacks(job).frame["calls"].to_list() == [3, 1]
    frame = operator_stacks(job, group_by="line").frame
    assert frame.select("name", "calls", "host_self", "file", "line", "module", "call_stack").rows() == [
        ("aten::mm", 3, 30, "net.py", 5, "Net", None),
        ("aten::mm", 1, 8, "net.py", 9, None, None),
    ]


def test_what_python_launches_inside_a_call_has_the_stack_of_the_launch(tmp_path: Path) -> None:
    graph = drawn.launch(30, 5, 1, name="cudaGraphLaunch")
    events = [drawn.annotation("execute", 0, 100), drawn.python("runner.py(3): replay", 10, 80), graph]
    found = rows(tmp_path, *events, drawn.kernel("k", 200, 60, 1))
    assert found[0] == ("cudaGraphLaunch", "runner.py(3): replay", 3, 1, 5, 5, 60)
    assert found[1][-1] == 0


def test_shapes(tmp_path: Path) -> None:
    shape: Any = [[2, 3]]
    calls = [drawn.python("f", 0, 99), drawn.op("a", 1, 5, **{"Input Dims": shape}), drawn.op("a", 10, 7)]
    frame = operator_stacks(drawn.job(tmp_path, *calls), shapes=True).frame
    assert frame.select("call_stack", "input_shapes", "host_self").rows() == [("f", None, 7), ("f", "[[2, 3]]", 5)]


def test_the_backward_pass_has_the_stack_of_its_forward_pass(tmp_path: Path) -> None:
    forward: dict[str, Any] = {"Sequence number": 5, "Fwd thread id": 0}
    backward: dict[str, Any] = {"Sequence number": 5, "Fwd thread id": 1}
    spelled: dict[str, Any] = {"Call stack": "backward.py(1): run;main"}
    back = drawn.op("MmBackward0", 100, 20, tid=2, **backward), drawn.op("aten::t", 105, 5, tid=2)
    by_call = [drawn.python("net.py(3): forward", 0, 50), drawn.op("aten::mm", 10, 20, **forward), *back]
    by_text = [
        drawn.op("aten::mm", 10, 20, **forward, **{**spelled, "Call stack": "net.py(3): forward"}),
        drawn.op("MmBackward0", 100, 20, tid=2, **backward, **spelled),
        drawn.op("aten::t", 105, 5, tid=2, **spelled),
    ]
    for events, own in ((by_call, None), (by_text, "main;backward.py(1): run")):
        for how, stack in (("thread", own), ("forward", "net.py(3): forward")):
            found = {row[0]: row[1] for row in rows(tmp_path, *events, backward=how)}
            assert found == {"aten::mm": "net.py(3): forward", "MmBackward0": stack, "aten::t": stack}


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, drawn.op("aten::mm", 0, 5), drawn.op("aten::add.Tensor", 10, 5))
    result = operator_stacks(job, shapes=True)
    assert result.frame.select("name", "call_stack", "file").rows() == [
        ("aten::add", None, None),
        ("aten::mm", None, None),
    ]
    assert [note.partition(" (")[0] for note in result.notes] == [
        "Call stacks were not recorded",
        "Input shapes were not recorded",
        "No device work was launched in these calls: the columns of device time are empty.",
    ]
    with pytest.raises(UsageError, match="no operator is called 'aten::m'; did you mean 'aten::mm'"):
        operator_stacks(job, operator="aten::m", exact=True)
