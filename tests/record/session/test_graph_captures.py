"""Captures of CUDA graphs become traces of their own.

There is no device here: torch's own class `CUDAGraph` is used, whose base class, a dummy in builds for the CPU, gets
functions that begin and end a capture of nothing. The operators in between are real, and recorded by torch's profiler.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kinetoscope.reading import read
from kinetoscope.record.session.options import rank_identity
from tests.record.jobs import document, names, parts, run, traces
from tests.record.processes import run as started
from tests.record.programs import kinetoscope

pytestmark = pytest.mark.torch

DEVICE = """
base = torch.cuda.CUDAGraph.__mro__[1]
base.capture_begin = lambda self, *args, **kwargs: None
base.capture_end = lambda self: None
def new_graph():
    graph = object.__new__(torch.cuda.CUDAGraph)
    graph._tracker = None
    return graph
def capture(graph=None):
    graph = graph or new_graph()
    graph.capture_begin()
    with torch.no_grad():
        model(torch.randn(32, 16))
    graph.capture_end()
"""


def captures(folder: Path) -> list[Path]:
    return traces(folder / "capture_traces")


def test_a_capture_becomes_a_trace_that_belongs_to_the_run(tmp_path: Path) -> None:
    done = run(
        f"{DEVICE}\n"
        "with profile(DIR) as prof:\n"
        "    for step in range(6):\n"
        "        train()\n"
        "        if step in (0, 1, 2, 5): capture()\n"  # provisional, warming up, recording, over
        "        prof.step()\n",
        tmp_path,
    )
    assert done.code == 0, done.err
    (trace,) = (each for each in traces(tmp_path) if each.parent == tmp_path)
    assert sum(name.startswith("ProfilerStep#") for name in names(trace)) == 3
    provisional, warming, *later = captures(tmp_path)
    assert len(later) == 1, done.err
    assert "aten::addmm" in names(provisional)
    ops = [event for event in document(warming)["traceEvents"] if event.get("name") == "aten::addmm"]
    assert [event["args"]["Input Dims"][1] for event in ops] == [[32, 16], [32, 16]]
    assert "aten::mse_loss" not in names(warming)
    assert not any("SGD" in name for name in names(warming))
    job = read(tmp_path)
    assert [source.url for source in job.sources] == [str(trace)]
    assert job.sources[0].files("capture") == tuple(str(each) for each in (provisional, warming, *later))
    assert parts(tmp_path) == parts(tmp_path / "capture_traces") == []


def test_errors_of_captures_are_the_programs_and_leave_nothing(tmp_path: Path) -> None:
    done = run(
        f"""{DEVICE}
recorder = Recorder(DIR)
for name in ("capture_begin", "capture_end"):
    kept = getattr(base, name)
    def fails(self, *args, **kwargs): raise RuntimeError(name)
    setattr(base, name, fails)
    try: capture()
    except RuntimeError as error: print(error)
    setattr(base, name, kept)
capture()
recorder.close()
capture()
print(torch.cuda.CUDAGraph.capture_begin.__module__)
""",
        tmp_path,
    )
    assert done.out.split() == ["capture_begin", "capture_end", "torch.cuda.graphs"], done.err
    assert len(captures(tmp_path)) == 1


def test_a_profiler_of_the_program_has_the_capture(tmp_path: Path) -> None:
    done = run(
        f"{DEVICE}\n"
        "recorder = Recorder(DIR)\n"
        "with torch.profiler.profile(activities=CPU) as prof: capture()\n"
        "print(any(event.key == 'aten::addmm' for event in prof.key_averages()))\n"
        "recorder.close()\n",
        tmp_path,
    )
    assert done.out.strip() == "True", done.err
    assert not (tmp_path / "capture_traces").exists()


def test_what_a_killed_process_left_of_its_captures_is_finished_or_removed(tmp_path: Path) -> None:
    folder = tmp_path / "capture_traces"
    folder.mkdir()
    for step, text in ((1, '{"traceEvents": [{"ph": "i", "name": "x", "ts": 1, "pid": 1, "tid": 1}]}'), (2, "{")):
        file = folder / f"{rank_identity().host}_4194303.rank0of1.step{step}.17.part"
        file.write_text(text)
        os.utime(file, (0, 0))
    done = started(kinetoscope("record", "-o", tmp_path, "--", sys.executable, "-c", "pass"))
    assert "1 file of a process that ended while it wrote was removed" in done.stderr
    assert [file.name.split(".")[2] for file in folder.iterdir()] == ["step1"]
    assert parts(folder) == []


def test_a_recorded_program_captures_before_its_first_step_with_modules(tmp_path: Path) -> None:
    program = tmp_path / "serve.py"
    program.write_text(
        f"import torch\nmodel = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())\n{DEVICE}\ncapture()\n"
        "for _ in range(9): model(torch.randn(4, 16))\n"
    )
    for more, count in (((), 1), (("--no-captures",), 0)):
        folder = tmp_path / str(count)
        done = started(kinetoscope("record", "-o", folder, *more, "--", sys.executable, program))
        assert done.returncode == 0, done.stderr
        assert len(captures(folder)) == count, done.stderr
    (trace,) = captures(tmp_path / "1")
    assert "[pl][module]torch.nn.modules.linear.Linear: Sequential.0" in names(trace)
