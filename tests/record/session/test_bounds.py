"""How far a window goes: judged step by step, and in a job whose last step never ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kinetoscope.record.session.bounds import MAX_BYTES_PER_S, MAX_PAUSE_S, MIN_PAUSE_S, Bounds
from kinetoscope.record.session.options import RecordOptions
from kinetoscope.record.session.recorded_events import CALL_BYTES, EVENTS_PER_BLOCK, RecordedEvents, operator_bytes
from tests.record.jobs import recorded, run, sidecar, traces
from tests.record.programs import TRAIN

MEGA = 1_000_000
EACH = operator_bytes(RecordOptions()).stopped


@dataclass
class _Process:
    resident: int = 500 * MEGA
    heap: int = 100 * MEGA
    blocks: int = 7
    now: float = 0.0


class _Window:
    """A window of a process whose memory, events and clock the test sets; the steps before it took a second."""

    def __init__(self, *, free: int = 100_000 * MEGA, blocks: bool = True, **options: Any) -> None:
        self.process, asked = _Process(), RecordOptions(**options)
        events = RecordedEvents(
            asked, blocks=lambda: self.process.blocks if blocks else -1, heap=lambda: self.process.heap
        )
        self.bounds = Bounds(asked, events, lambda: self.process.resident, free, lambda: self.process.now)
        self.check(0.5)
        self.process.now, self.process.heap = 1.0, 105 * MEGA  # the program itself keeps 5 MB a step
        assert self.bounds.step() == ""
        self.bounds.begin()

    def check(self, seconds: float, *, mega: int = 0, heap: int = 0, events: int = 0) -> str:
        """What is over its limit once so many seconds, megabytes and events have gone by."""
        self.process.now += seconds
        self.process.resident += mega * MEGA
        self.process.heap += heap * MEGA
        self.process.blocks += events // EVENTS_PER_BLOCK
        return self.bounds.check()


def test_what_the_program_keeps_for_itself_ends_nothing() -> None:
    window = _Window()
    for _ in range(20):
        assert window.check(0.4, mega=900, heap=400, events=512) == window.bounds.step() == ""
    assert window.bounds.recorded().events == 20 * 512


def test_what_is_recorded_counts_with_what_torch_needs_to_stop_it() -> None:
    window = _Window()
    assert window.check(0.5, events=102_400) == window.check(9.0) == ""
    said = window.check(0.5, events=102_400)  # and as many by the next look: more than a gigabyte
    taken = f"its 204800 events take some {204_800 * EACH // MEGA} MB of memory to stop"
    assert said == f"{taken} (limit 1000 MB, which the next would pass)"
    assert _Window(max_memory=0).check(0.5, events=512_000) == ""


def test_an_event_takes_less_where_less_is_recorded_with_it() -> None:
    assert _Window(record_shapes=False, profile_memory=False).check(0.5, events=307_200) == ""
    assert _Window().check(0.5, events=307_200) != ""


def test_python_calls_are_told_from_the_heap_without_what_the_program_keeps() -> None:
    window = _Window(with_stack=True)
    for _ in range(5):
        window.check(0.5, heap=5)
        assert window.bounds.step() == ""
    assert window.check(0.5, heap=300) == ""  # a step may need memory for itself
    window.check(0.1, heap=-300)
    window.check(0.3, heap=25)
    assert "events take some" in window.bounds.step()
    assert window.bounds.recorded().events == 20 * MEGA // CALL_BYTES.recorded
    assert "events take some" in _late(_Window(with_stack=True))
    assert _late(_Window()) == ""


def _late(window: _Window) -> str:
    return window.check(2.1, heap=30)


def test_a_torch_that_counts_nothing_is_watched_by_its_heap() -> None:
    window = _Window(blocks=False)
    window.check(0.5, heap=5 + 300_000 * operator_bytes(RecordOptions()).recorded // MEGA)
    assert "events take some" in window.bounds.step()


def test_the_machine_is_left_enough_to_stop() -> None:
    window = _Window(max_memory=0, free=2000 * MEGA)
    assert window.check(0.1, events=102_400) == ""
    assert window.check(0.1, mega=1400).endswith("MB of memory to stop, and 600 MB are free")


def test_a_long_step_ends_it_but_no_short_one() -> None:
    assert "12 times the longest before it" in _Window().check(12.0)
    assert _Window().check(9.0) == _Window(max_step=0).check(500.0) == ""
    quick = _Window(max_step=2)
    assert quick.check(4.9) == ""
    assert quick.check(0.2) != ""


def test_events_are_limited_too() -> None:
    window = _Window(max_events=100_000, max_memory=0)
    window.check(0.5, events=102_400)
    assert window.bounds.step() == "more than 100000 events"


def test_the_next_look_comes_before_what_is_recorded_uses_up_the_room() -> None:
    assert _Window(max_memory=0, max_events=0).bounds.pause() == MAX_PAUSE_S
    window = _Window(max_memory=400 * MEGA)
    first = window.bounds.pause()
    assert first == pytest.approx(400 * MEGA / 2 / MAX_BYTES_PER_S)
    window.check(0.01, events=51_200)  # 190 MB in 0.01 s: faster than one thread's events
    assert window.bounds.pause() == MIN_PAUSE_S


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


_KEEPS = """
import sys, torch
torch.set_num_threads(1)
net = torch.nn.Linear(8, 1)
optimizer, kept = torch.optim.SGD(net.parameters(), 0.1), []
for _ in range(16):
    kept.append(torch.ones(10_000_000))
    net(torch.randn(4, 8)).sum().backward()
    optimizer.step()
"""


@pytest.mark.torch
@pytest.mark.parametrize("stack", [False, True])
def test_a_program_that_keeps_40_megabytes_a_step_is_recorded_whole(tmp_path: Path, *, stack: bool) -> None:
    done = recorded(_KEEPS, tmp_path, wait=3, active=12, options={"with_stack": stack})
    (trace,) = traces(tmp_path)
    assert (sidecar(trace)["truncated"], len(sidecar(trace)["steps"]), done.said) == ("", 12, [])


_COUNTS = """
import os, sys, torch
from kinetoscope.record.session.options import RecordOptions
from kinetoscope.record.session.recorded_events import RecordedEvents
torch.set_num_threads(1)
def resident(): return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
options = dict(record_shapes=True, profile_memory=True)
counted = RecordedEvents(RecordOptions(**options))
net = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(10)])
optimizer = torch.optim.SGD(net.parameters(), 0.1)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options) as profiler:
    counted.begin()
    before = resident()
    for _ in range(200):
        optimizer.zero_grad()
        net(torch.ones(4, 8)).sum().backward()
        optimizer.step()
    found = counted.now(whole=False)
profiler.export_chrome_trace(sys.argv[1] + "/trace.json")
took = resident() - before
operators = sum(each.name() != "[memory]" for each in profiler.profiler.kineto_results.events())
print(found.events, operators, found.bytes / took)
"""


@pytest.mark.torch
def test_the_count_is_torchs_own_and_the_memory_is_what_it_takes(tmp_path: Path) -> None:
    done = run(_COUNTS, tmp_path)
    events, operators, ratio = map(float, done.out.split())
    assert 0 <= events - operators <= EVENTS_PER_BLOCK, done.err
    assert 0.7 < ratio < 1.4
