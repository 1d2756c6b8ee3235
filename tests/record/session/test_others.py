"""Profilers of the program come first: what they record is as without us, and so is how the program ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.record.jobs import recorded, sidecar, traces
from tests.record.processes import run
from tests.record.programs import TRAIN, kinetoscope, python

pytestmark = pytest.mark.torch

_BODY = TRAIN[TRAIN.index("    optimizer.zero_grad") : TRAIN.index("    time.sleep")]
_HEAD = TRAIN[: TRAIN.index("for step in range")] + "def train():\n" + _BODY + "    return loss\n"
_SAID = """
import json
def say(profiler):
    profiler.export_chrome_trace(OWN)
    events = json.load(open(OWN))["traceEvents"]
    print(sorted(each["name"] for each in events if each.get("cat") in ("cpu_op", "user_annotation")), flush=True)
"""
_SCHEDULED = """
with torch.profiler.profile(schedule=torch.profiler.schedule(ROUND), on_trace_ready=say) as own:
    for step in range(14): train(); own.step()
"""
_EACH = """
for step in range(14):
    with PROFILER as own: train()
    SAY
"""

_PROGRAMS = {
    "one after another": _SCHEDULED.replace("ROUND", "wait=1, warmup=1, active=1"),
    "its warm-up is ours": _SCHEDULED.replace("ROUND", "wait=2, warmup=2, active=2"),
    "no wait": _SCHEDULED.replace("ROUND", "wait=0, warmup=0, active=3"),
    "autograd": _EACH.replace("PROFILER", "torch.autograd.profiler.profile()").replace(
        "SAY", "print([each.name for each in own.function_events])"
    ),
    "legacy": "from torch.autograd.profiler_legacy import profile as legacy\n"
    + _EACH.replace("PROFILER", "legacy()").replace("SAY", "print([each.name for each in own.function_events])"),
    "emit_itt": _EACH.replace("PROFILER", "torch.autograd.profiler.emit_itt()").replace("SAY", "pass"),
    "inside a window": """
for step in range(14):
    if step == 4:
        with torch.profiler.profile(with_stack=True) as own: train()
        say(own)
    train()
""",
    "in the midst of a step": """
for step in range(14):
    optimizer.zero_grad()
    loss = net(torch.randn(4, 8)).square().mean()
    if step == 4:
        with torch.profiler.profile() as own: loss.backward()
        say(own)
    else: loss.backward()
    optimizer.step()
""",
    "an observer of execution traces": """
observer = torch.profiler.ExecutionTraceObserver()
observer.register_callback(OWN)
for step in range(14):
    if step == 4: observer.start()
    train()
    if step == 6: observer.stop()
observer.unregister_callback()
print(sorted(each["name"] for each in json.load(open(OWN))["nodes"]))
""",
    "on another thread": """
import threading
small = torch.nn.Linear(4, 4)
def other():
    for _ in range(3):
        with torch.profiler.profile() as own:
            for _ in range(5): small(torch.ones(2, 4)); time.sleep(0.002)
        say(own)
thread = threading.Thread(target=other)
for step in range(100):
    if step == 4: thread.start()
    train(); time.sleep(0.002)
thread.join()
""",
}


_HEAD = "import tempfile; OWN = tempfile.mktemp()\n" + _HEAD


@pytest.mark.parametrize("name", _PROGRAMS)
def test_a_program_with_a_profiler_is_as_without_us(tmp_path: Path, name: str) -> None:
    program = _HEAD + _SAID + _PROGRAMS[name] + "\nprint(train().item().hex())"
    plain, ours = recorded(program, None), recorded(program, tmp_path, repeat=0, active=2)
    assert plain.code == 0, plain.err
    assert (ours.code, ours.out) == (0, plain.out), ours.err
    assert "Traceback" not in ours.err


def test_a_window_that_gives_way_keeps_what_it_has_and_recording_goes_on(tmp_path: Path) -> None:
    program = _HEAD + _SAID + _PROGRAMS["inside a window"].replace("range(14)", "range(20)")
    ours = recorded(program, tmp_path, repeat=2)
    assert "recording ended early: another profiler was started" in ours.said
    truncated = sorted((sidecar(trace)["first_step"], bool(sidecar(trace)["truncated"])) for trace in traces(tmp_path))
    assert [each for _, each in truncated] == [True, False], ours.err


def test_where_its_profiler_is_always_there_we_say_so(tmp_path: Path) -> None:
    program = _HEAD + _SAID + _PROGRAMS["no wait"]
    ours = run(kinetoscope("record", "-o", tmp_path / "a", "--", *python(program)), cwd=tmp_path)
    assert "nothing was recorded: a profiler of the program was at work" in ours.stderr
