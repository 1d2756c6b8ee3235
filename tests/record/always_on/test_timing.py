"""Steps that are timed in a process of its own: its note, its losses, and what becomes of a change that fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.record.always_on import mailbox
from kinetoscope.record.session.child_config import RecordPlan, TimingPlan
from kinetoscope.record.session.launching import environment_of

pytestmark = pytest.mark.torch

TRAIN = """
import torch
parameter = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([parameter], lr=0.5)
for number in range(COUNT):
    optimizer.zero_grad()
    for part in range(2):
        (parameter * number).sum().backward()
    optimizer.step()
print("to the end")
"""
OWN = """
from kinetoscope.record.trials.trial import Edit, Trial
def put_in(change):
    raise RuntimeError("no such device")
TRIAL = Trial(name="own", title="own", answers=(), put_in=put_in, effect="none", edit=Edit())
"""


def timed(tmp_path: Path, count: int, **timing: Any) -> tuple[subprocess.CompletedProcess[str], Path]:
    control = tmp_path / "control"
    plan = RecordPlan(dir=str(tmp_path), control=str(control), timing=TimingPlan(name="a", **{"steps": 12, **timing}))
    program = TRAIN.replace("COUNT", str(count))
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment_of(plan), capture_output=True, text=True, check=False
    )
    return done, control


def test_the_note_of_a_process(tmp_path: Path) -> None:
    done, control = timed(tmp_path, 10**9)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    ((name, note),) = mailbox.read_all(control / "timed").items()
    assert name.startswith("0.")
    assert (note["ended"], note["rank"], note["world"], note["by_calls"]) == ("steps", 0, 1, False)
    assert len(note["ends"]) == 13
    assert note["ends"] == sorted(note["ends"])
    assert note["first"] > 0
    assert note["losses"][0] == [0.0, 0.0]
    assert note["losses"][1] == [1.0, 1.0]
    assert note["losses"][2] == [0.0, 0.0]  # 2 times the parameter, which two gradients of 1 have made 0
    assert note["processor"] > 0
    assert note["memory"] > 1 << 20


def test_a_program_that_ends_before_says_so_and_is_left_to_itself(tmp_path: Path) -> None:
    done, control = timed(tmp_path, 5)
    assert (done.returncode, done.stdout) == (0, "to the end\n")
    ((_, note),) = mailbox.read_all(control / "timed").items()
    assert (note["ended"], len(note["ends"])) == ("program", 5)
    json.dumps(note, allow_nan=False)


class DrawnEvent:
    """An event of a device on which a step takes 3 ms, whatever the host does."""

    made = 0

    def __init__(self, **_: object) -> None:
        DrawnEvent.made += 1
        self.place = DrawnEvent.made

    def record(self) -> None:
        """It is put into the stream."""

    def elapsed_time(self, other: DrawnEvent) -> float:
        return 3.0 * (other.place - self.place)


def test_a_device_tells_the_time_of_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from kinetoscope.record.always_on.timing import TimedSteps

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "Event", DrawnEvent)
    timing = TimingPlan(name="a", steps=100)
    plan = RecordPlan(dir=str(tmp_path), control=str(tmp_path), timing=timing)
    steps = TimedSteps(plan, timing, lambda **_: pytest.fail("nothing is recorded"), by_calls=False)
    try:
        for _ in range(5):
            steps.boundary(0.0)
        ends = steps.note("steps")["ends"]
        assert [end - ends[0] for end in ends] == [0, 3_000_000, 6_000_000, 9_000_000, 12_000_000]
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        steps.boundary(0.0)  # one without a mark: the host's clock is taken for all
        assert steps.note("steps")["ends"] == list(steps._ends)
    finally:
        steps.withdraw()


def test_a_change_that_fails_ends_the_process_with_its_reason(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(OWN)
    done, control = timed(tmp_path, 10**9, changes=("own",), extensions=(str(own),))
    said = "the change could not be made: RuntimeError: no such device"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"kinetoscope: {said}\n")
    assert [note["problem"] for note in mailbox.read_all(control / "failed").values()] == [said]
    assert not mailbox.read_all(control / "timed")
