"""Call stacks of operators: by hand, against `operators`, and against the TensorBoard plugin's answers."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kinetoscope import Selection, operators, read
from kinetoscope.analyses.operator_stacks import operator_stacks
from kinetoscope.errors import UsageError
from kinetoscope.model.execution.call_stacks import recorded_stack
from tests import drawn
from tests.catalog.samples import BUNDLED, GOLDEN, SHARED, required

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


REAL = [BUNDLED / "mlp.pt.trace.json.gz", SHARED / "resnet_ddp_mi300"]


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_they_are_the_rows_of_operators_and_sum_to_them(path: Path) -> None:
    job = read(required(path), jobs=1)
    by_stack, alone = operators(job, group_by="stack").frame, operator_stacks(job).frame
    shared = [name for name in alone.columns if name in by_stack.columns]
    kinds = by_stack.filter(by_stack["kind"] != "memory")
    assert alone.select(shared).sort(shared).equals(kinds.select(shared).sort(shared))
    assert len(alone) > 1.2 * alone["name"].n_unique()
    numbers = ["calls", "host_total", "host_self", "device_total", "device_self"]
    whole = operators(job).frame.filter(kind="operator").select("name", *numbers).sort("name")
    parts = alone.filter(kind="operator").group_by("name").agg(pl.col(numbers).sum()).sort("name")
    assert parts.fill_null(0).equals(whole.fill_null(0))


PLUGIN = ["calls", "host_self", "host_total", "device_self", "device_total"]
SAMPLES = [(f"resnet50_num_workers_{n}", "", f"resnet50_v100/num_workers_{n}") for n in (0, 4)] + [
    (name, "own_head/", f"torch_2_13_cpu/{name}.pt.trace.json.gz") for name in ("mlp", "conv", "leak", "transformer")
]


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("shapes", [False, True])
@pytest.mark.parametrize(("run", "folder", "trace"), SAMPLES, ids=[sample[0] for sample in SAMPLES])
def test_the_plugins_answers(run: str, folder: str, trace: str, shapes: bool, number: int) -> None:
    group_by = "OperationAndInputShape" if shapes else "Operation"
    file = f"{folder}{run}__worker0__span1_operation_stack_{group_by}_{number}.json"
    golden = json.loads(required(GOLDEN / "tensorboard_plugin" / file).read_text())["data"]
    theirs: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * len(PLUGIN))
    for row in golden:
        key = recorded_stack(row["call_stack"]), row.get("input_shape", "")
        numbers = [row.get(name if name == "calls" else f"{name}_duration", 0) for name in PLUGIN]
        theirs[key] = [a + b for a, b in zip(theirs[key], numbers, strict=True)]
    path = required(SHARED / trace)
    job = read(sorted(path.iterdir())[0] if path.is_dir() else path, jobs=1)
    found = operator_stacks(job, operator=golden[0]["name"], exact=True, shapes=shapes).frame
    ours: dict[tuple[str, str], list[int]] = {}
    for row in found.iter_rows(named=True):
        numbers = [row[name] // (1 if name == "calls" else 1000) if row[name] else 0 for name in PLUGIN]
        ours[row["call_stack"] or "", (row["input_shapes"] or "[]") if shapes else ""] = numbers
    for key, numbers in theirs.items():
        assert all(abs(a - b) <= 1 for a, b in zip(ours[key], numbers, strict=True)), (ours[key], numbers)
