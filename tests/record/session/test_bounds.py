"""How far a window goes: judged step by step, and in a job whose last step never ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.record.session.bounds import BYTES_PER_EVENT, MAX_GROWTH_BYTES_PER_S, MAX_PAUSE_S, MIN_PAUSE_S, Bounds
from kinetoscope.record.session.options import RecordOptions
from tests.record.jobs import recorded, sidecar, traces
from tests.record.programs import TRAIN

MEGA = 1_000_000


@dataclass
class _Process:
    resident: int = 500 * MEGA
    now: float = 0.0


class _Window:
    """A window of a process whose memory and clock the test sets; the steps before it took a second."""

    def __init__(self, *, free: int = 100_000 * MEGA, **options: Any) -> None:
        self.process = _Process()
        self.bounds = Bounds(RecordOptions(**options), lambda: self.process.resident, free, lambda: self.process.now)
        self.check(0.5, 0)
        self.process.now = 1.0
        assert self.bounds.step() == ""
        self.bounds.begin()

    def check(self, seconds: float, mega: int) -> str:
        """What is over its limit once so many seconds and megabytes have gone by."""
        self.process.now += seconds
        self.process.resident += mega * MEGA
        return self.bounds.check()


def test_memory_that_a_step_takes_and_gives_back_ends_nothing() -> None:
    window = _Window()
    for _ in range(3):
        assert window.check(0.4, 900) == window.check(0.4, -899) == window.bounds.step() == ""


def test_what_is_recorded_in_each_step_adds_up_with_what_torch_needs_to_stop() -> None:
    window = _Window()
    found = []
    for _ in range(10):
        window.check(0.5, 20)
        found.append(bool(window.bounds.step()))
    assert found == [False] * 3 + [True] * 7  # 80 MB and the 20 to come, 12 times: more than a gigabyte


def test_a_step_that_is_late_is_charged_with_all_it_takes() -> None:
    window = _Window()
    assert window.check(1.9, 60) == ""
    assert "memory to stop" in window.check(0.2, 30)


def test_growth_beyond_the_limit_ends_it_at_once() -> None:
    assert "memory grew by 1001 MB" in _Window().check(0.1, 1001)
    assert _Window(max_memory=0).check(0.1, 1001) == ""


def test_the_machine_is_left_enough_to_stop() -> None:
    assert "1200 MB were free" in _Window(max_memory=0, free=1200 * MEGA).check(0.1, 51)


def test_a_long_step_ends_it_but_no_short_one() -> None:
    assert "12 times the longest before it" in _Window().check(12.0, 0)
    assert _Window().check(9.0, 0) == _Window(max_step=0).check(500.0, 0) == ""
    quick = _Window(max_step=2)
    assert quick.check(4.9, 0) == ""
    assert quick.check(0.2, 0) != ""


def test_events_are_told_from_memory() -> None:
    window = _Window(max_events=100_000, max_memory=0)
    window.check(0.5, 100_000 * BYTES_PER_EVENT // MEGA + 1)
    assert window.bounds.step() == "more than 100000 events"


_TAIL = """
def resident(): return int(open("/proc/self/statm").read().split()[1]) * 4096
before, most = resident(), 0
weights, end = torch.zeros(1 << 16, dtype=torch.uint8), time.monotonic() + 60
while time.monotonic() < end and not (until and until()):
    for number in range(1000): int(weights[number])
    most = max(most, resident() - before)
print(most < LIMIT, file=sys.stderr)
sys.exit(7)
"""
_UNTIL = "import glob, threading; until = None\n"
_ENDS = "until = lambda: glob.glob(DIR + '/*.json.gz')\n"


def test_the_next_look_comes_before_growth_uses_up_the_room() -> None:
    assert _Window(max_memory=0, max_events=0).bounds.pause() == MAX_PAUSE_S
    window = _Window(max_memory=600 * MEGA)  # 50 MB until torch needs that much to stop
    first = window.bounds.pause()
    assert first == pytest.approx(50 * MEGA / 2 / MAX_GROWTH_BYTES_PER_S)
    window.check(0.01, 20)
    window.bounds.step()  # 20 MB in 0.01 s: faster than one thread's events
    assert window.bounds.pause() == MIN_PAUSE_S
    window.process.now += 10
    window.bounds.step()
    assert window.bounds.pause() == pytest.approx(30 * MEGA / 2 / MAX_GROWTH_BYTES_PER_S)
    assert _Window(max_events=50_000).bounds.pause() < first


@pytest.mark.torch
@pytest.mark.parametrize(
    ("options", "said"),
    [({}, "memory to stop"), ({"max_memory": 200 * MEGA}, "memory to stop"), ({"max_events": 50_000}, "50000 events")],
)
def test_an_endless_loop_after_the_last_step_is_not_recorded_for_ever(
    tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    limit = options.get("max_memory", 1000 * MEGA)
    tail = _UNTIL + f"DIR = {str(tmp_path)!r}\n" + _ENDS + _TAIL.replace("LIMIT", str(limit))
    done = recorded(TRAIN.replace("else 8", "else 3") + tail, tmp_path, options=options)
    plain = recorded(TRAIN.replace("else 8", "else 3") + "sys.exit(7)", None)
    assert (done.code, done.out) == (plain.code, plain.out), done.err
    (trace,) = traces(tmp_path)
    assert said in sidecar(trace)["truncated"]
    assert any(line.startswith("recording ended early") for line in done.said)
    assert "True" in done.err.split()


@pytest.mark.torch
def test_a_thread_that_trains_ends_its_window_at_the_next_module(tmp_path: Path) -> None:
    program = f"""
import glob, sys, threading, time, torch
torch.set_num_threads(1)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
def train():
    for _ in range(3): net(torch.ones(2, 4)).sum().backward(); optimizer.step()
    end = time.monotonic() + 60
    while time.monotonic() < end and not glob.glob({str(tmp_path)!r} + '/*.json.gz'): net(torch.ones(2, 4))
thread = threading.Thread(target=train)
thread.start(); thread.join()
"""
    done = recorded(program, tmp_path, options={"max_events": 20_000})
    (trace,) = traces(tmp_path)
    assert "20000 events" in sidecar(trace)["truncated"], done.err
