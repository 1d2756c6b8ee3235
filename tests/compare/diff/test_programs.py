"""Whether two runs are of one program."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope import read
from kinetoscope.compare.diff.programs import Program, program
from tests import drawn
from tests.conftest import OURS


def of(script: str = "", modules: str = "", operators: str = "") -> Program:
    return Program(script, frozenset(modules), frozenset(operators))


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (of("train.py", "ab", "xy"), of("train.py", "cd", "z"), True),
        (of("train.py", "ab"), of("serve.py", "ab"), False),
        (of("train.py", "abc"), of("", "abcd"), True),
        (of("", "ab", "xyz"), of("", "cd", "xyz"), False),
        (of("", "", "vwxyz"), of("", "ab", "wxyz"), True),
        (of("", "", "ab"), of("", "", "bcd"), False),
        (of(), of("train.py", "ab", "xy"), True),
    ],
)
def test_the_script_decides_else_modules_else_operators(one: Program, other: Program, alike: bool) -> None:
    assert one.is_like(other) is alike
    assert other.is_like(one) is alike


def test_what_a_trace_tells(tmp_path: Path) -> None:
    calls = (
        drawn.python("nn.Module: Linear_0", 0, 9),
        drawn.python("nn.Module: Linear_1", 10, 9),
        drawn.op("aten::mm", 2, 3),
    )
    known = {"command": ["python", "-O", "jobs/train.py", "--lr", "1"]}
    found = program(drawn.job(tmp_path, *calls, kinetoscope=known))
    assert found == Program("train.py", frozenset({"Linear"}), frozenset({"aten::mm"}))
    assert program(read(str(OURS / "mlp.pt.trace.json.gz"))).is_like(program(read(str(OURS / "leak.pt.trace.json.gz"))))
