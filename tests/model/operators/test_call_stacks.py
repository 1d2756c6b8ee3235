from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinetoscope import Trace, read
from kinetoscope.algorithms.grouping import prefix_tree
from kinetoscope.model.execution.autograd import by_start
from kinetoscope.model.execution.call_tree import call_tree
from kinetoscope.model.execution.frames import MAX_DEPTH, SEPARATOR, user_source
from kinetoscope.model.operators import call_stacks as stacks
from kinetoscope.model.operators.call_stacks import call_stacks
from kinetoscope.model.trace import arguments
from kinetoscope.model.trace.event_kinds import EventKind
from tests import drawn
from tests.catalog.samples import BUNDLED, SHARED, required


def stacks_of(folder: Path, *events: drawn.Event, python: bool = False) -> list[str | None]:
    found = call_stacks(drawn.job(folder, *events).trace(), python)
    return [found.texts[code] if code >= 0 else None for code in found.code.tolist()]


def spelled(name: str, start: int, duration: int, stack: Any) -> drawn.Event:
    return drawn.op(name, start, duration, **{"Call stack": stack})


def test_stacks_are_the_python_calls_around(tmp_path: Path) -> None:
    events = [
        drawn.python("train.py(7): main", 0, 100),
        drawn.op("aten::linear", 10, 80),
        drawn.python("hook;of\nmine", 20, 40),
        drawn.op("aten::mm", 30, 10),
        drawn.launch(32, 5, 1),
        drawn.op("aten::mm", 70, 10),
        drawn.op("alone", 200, 10),
    ]
    main, hook = "train.py(7): main", "train.py(7): main;hook of mine"
    assert stacks_of(tmp_path, *events) == [None, main, None, hook, hook, main, None]
    assert stacks_of(tmp_path, *events, python=True) == [None, main, main, hook, hook, main, None]


def test_what_the_file_spells_out_counts_first(tmp_path: Path) -> None:
    events = [
        drawn.python("main", 0, 100),
        spelled("a", 10, 50, "inner;main;"),
        drawn.launch(20, 5, 1),
        drawn.python("other", 30, 20),
        drawn.op("b", 35, 5),
        spelled("c", 70, 10, ";"),
        spelled("d", 85, 10, 7),
        spelled("e", 200, 10, "main"),
    ]
    rebuilt = "main;other"
    assert stacks_of(tmp_path, *events) == [None, "main;inner", "main;inner", None, rebuilt, "main", "main", "main"]
    found = call_stacks(drawn.job(tmp_path, *events).trace())
    assert found.code[5] == found.code[7]  # the same stack, wherever it comes from


@pytest.mark.parametrize(
    ("stack", "source"),
    [
        ("run.py(3): main;net.py(14): forward;torch/nn/modules/linear.py(130): forward", ("net.py", 14, "forward")),
        ("/a/my net.py(1): f (x);/b/site-packages/x/y.py(5): g;<built-in method z>", ("/a/my net.py", 1, "f (x)")),
        (r"C:\me\train.py(9): <module>;C:\py\Lib\site-packages\x.py(5): g", (r"C:\me\train.py", 9, "<module>")),
        ("threading.py(1032): _bootstrap;<string>(1): <module>;nn.Module: Net_0", (None, None, None)),
        ("", (None, None, None)),
        ("train.py(9): main;kinetoscope/record/always_on/hooks.py(283): backward", ("train.py", 9, "main")),
        ("train.py(9): main;/home/me/src/kinetoscope/record/profile.py(88): step", ("train.py", 9, "main")),
        ("kinetoscope/record_my_voice.py(9): main", ("kinetoscope/record_my_voice.py", 9, "main")),
    ],
)
def test_the_users_own_line(stack: str, source: tuple[Any, ...]) -> None:
    assert user_source(stack) == source


@pytest.mark.parametrize("name", ["mlp", "torch_2_13_cpu/mlp", "torch_2_13_cpu/conv", "torch_2_13_cpu/transformer"])
def test_rebuilt_stacks_of_operators_equal_those_in_the_file(name: str) -> None:
    path = (SHARED if "/" in name else BUNDLED) / f"{name}.pt.trace.json.gz"
    trace: Trace = read(required(path), jobs=1).trace()
    ops = trace.rows(EventKind.HOST_OP)
    around = call_tree(trace).parent
    frames = prefix_tree(by_start(trace), around, np.where(trace.kind == EventKind.PYTHON, trace.name, np.int32(-1)))
    nodes = np.where(around[ops] >= 0, frames.node[around[ops]], np.int32(-1))
    spelled = arguments.codes(trace, "call_stack", ops)
    pairs = np.unique(np.stack([nodes.astype(np.int64) + len(trace.strings), spelled]), axis=1).T.tolist()
    assert len(pairs) > 5
    for node, code in pairs:
        [rebuilt], [written] = ([*stacks._texts(trace, frames, np.array([key]))] for key in (node, code))
        assert rebuilt == written


def test_of_a_stack_deeper_than_python_allows_the_innermost_calls_are_kept(tmp_path: Path) -> None:
    depth = MAX_DEPTH + 3
    around = [drawn.python(f"m.py({k}): f", k, 5000 - 2 * k) for k in range(depth)]
    inside = [
        drawn.op("aten::mm", depth + 1, 1),
        drawn.python("leaf", depth + 3, 9),
        drawn.op("aten::mm", depth + 4, 1),
    ]
    *_, mm, _, other = stacks_of(tmp_path, *around, *inside)
    assert mm == SEPARATOR.join(f"m.py({k}): f" for k in range(3, depth))
    assert other == SEPARATOR.join([*(f"m.py({k}): f" for k in range(4, depth)), "leaf"])
