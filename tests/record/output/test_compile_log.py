"""What the recorder keeps of torch.compile, with real compilations; and that it causes none."""

from __future__ import annotations

from pathlib import Path

import pytest

import kinetoscope
from kinetoscope.model.steps.selection import Selection
from tests.record import jobs

pytest.importorskip("torch", reason="torch is not installed: `make test-recorder` installs it")
pytestmark = pytest.mark.torch

MODEL = """import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.scale = torch.nn.Linear(4, 8), torch.nn.Linear(8, 2), 1
    def forward(self, x):
        x = self.up(x)
        print("a planted graph break")
        return torch.relu(self.down(x)) * self.scale
"""
"""The graph breaks in line 8, and line 9 is compiled anew when `scale` changes."""

TRAIN = """
import sys; sys.path.insert(0, {folder!r})
from model import Model
import torch
net = Model()
model = torch.compile(net, backend="{backend}")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(7):
    net.scale = 1 + (step >= 4)
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path / "run"


def test_the_recorder_keeps_the_log_and_causes_no_compilation(run: Path) -> None:
    done = jobs.recorded(TRAIN.format(folder=str(run.parent), backend="aot_eager"), run)
    assert done.code == 0, done.err
    job = kinetoscope.read(run)
    frame = kinetoscope.compilations(job).frame
    assert frame["compile_id"].to_list() == ["0/0", "1/0", "1/1"]  # those of the program, and none of our hooks
    assert frame["function"].to_list() == ["forward", *["torch_dynamo_resume_in_forward_at_8"] * 2]
    assert set(frame["file"]) == {str(run.parent / "model.py")}
    assert frame["reason"][2] == "1/0: self.scale == 1"
    last = frame.row(2, named=True)
    assert 0 < last["in_trace"] <= last["time"] * 1.2
    assert last["tracing"] > 0
    breaks = kinetoscope.graph_breaks(job, select=Selection(steps=(3, 4))).frame
    assert breaks.select("line", "function", "code", "calls", "compile_ids").rows() == [
        (8, "forward", 'print("a planted graph break")', 2, "0/0")
    ]
    assert breaks["between"][0] > 0
    marks = kinetoscope.annotations(job).frame["name"].to_list()
    assert any(name.endswith("Model: OptimizedModule._orig_mod") for name in marks)


def test_what_was_compiled_before_is_in_the_log_of_a_profile(run: Path) -> None:
    program = TRAIN.format(folder=str(run.parent), backend="eager") + (
        "import kinetoscope\n"
        "with kinetoscope.profile(sys.argv[1], wait=0, warmup=0, active=1) as prof:\n"
        "    model(torch.ones(3, 4)); prof.step()\n"
        "model(torch.ones(5, 4))\n"
    )
    done = jobs.run(program, run)
    assert done.code == 0, done.err
    frame = kinetoscope.compilations(kinetoscope.read(run)).frame
    assert frame["compile_id"].to_list() == ["0/0", "1/0", "1/1"]  # and nothing of what came behind the block
    assert frame["calls"].to_list() == [1, 0, 1]


def test_a_log_that_cannot_be_written_costs_a_line(run: Path) -> None:
    run.mkdir()
    (run / "compile").write_text("a file is where the folder should be")
    done = jobs.recorded(TRAIN.format(folder=str(run.parent), backend="eager"), run)
    assert done.code == 0
    assert len(jobs.traces(run)) == 1
    assert sum("is not kept any longer" in line for line in done.said) == 1


def test_no_log_is_kept_where_it_is_not_wanted(run: Path) -> None:
    text = TRAIN.format(folder=str(run.parent), backend="eager")
    done = jobs.recorded(text, run, options={"compile_log": False})
    assert done.code == 0
    assert not (run / "compile").exists()
