"""Windows every so many steps, within a budget."""

from __future__ import annotations

import random
import re
import socket
import sys
import time
from pathlib import Path

import pytest

from kinetoscope.record.always_on.always import KeptWindow, KeptWindows, RecordingCost, SamplingSchedule, cost_of
from kinetoscope.record.always_on.idle import RequestWatch
from kinetoscope.record.history.wishes import WindowWish
from tests.record.processes import run
from tests.record.programs import TRAIN, kinetoscope, sidecars, traces


class Job:
    """A training loop on a clock of its own: windows cost what they are told to, in a start, a stop, and each step."""

    def __init__(
        self,
        always: SamplingSchedule,
        *,
        step: float = 0.01,
        stop: float = 0.3,
        slower: float = 1.2,
        counting: float = 0.0,
    ) -> None:
        self.always, self.step, self.stop, self.slower, self.counting = always, step, stop, slower, counting
        self.now, self.ended, self.lost = 0.0, 0, 0.0
        self.opened: list[tuple[int, str]] = []
        self._left = 0

    def run(self, steps: int, *, slow: frozenset[int] = frozenset(), jitter: float = 0.0, seed: int = 0) -> None:
        chance = random.Random(seed)
        for _ in range(steps):
            self.ended += 1
            usual = self.step * (3 if self.ended in slow else 1 + jitter * chance.random())
            took, recorded = usual, self._left > 0
            if recorded:
                self._left -= 1
                took = usual * self.slower + (self.stop if not self._left else 0.0)
            self.lost += took - usual + self.counting
            self.now += took + self.counting
            self.always.counting += self.counting
            if wish := self.always.after_step(self.ended, took, recorded=recorded, now=self.now):
                self.opened.append((self.ended, wish.reason))
                self._left = self.always.warmup + self.always.active


@pytest.mark.parametrize("stop", [0.0, 0.01, 0.3, 5.0])
@pytest.mark.parametrize("budget", [0.001, 0.01, 0.1])
def test_the_cost_stays_within_the_budget(stop: float, budget: float) -> None:
    job = Job(SamplingSchedule(50, budget), stop=stop)
    job.run(100_000, jitter=0.2)
    assert job.lost <= budget * job.now + (stop + 0.02 if len(job.opened) == 1 else 0)
    assert job.opened


@pytest.mark.parametrize("counting", [1e-5, 4e-5, 5e-5])
def test_what_counting_the_steps_takes_is_part_of_the_budget(counting: float) -> None:
    job = Job(SamplingSchedule(50, 0.01), counting=counting)
    job.run(100_000, jitter=0.2)
    assert job.lost <= 0.01 * job.now
    assert len(job.opened) > 5


def test_windows_have_half_of_the_budget_where_counting_takes_it_all_and_that_is_said() -> None:
    job = Job(SamplingSchedule(50, 0.01), step=0.0001, stop=0.01, counting=1e-5)
    job.run(200_000)
    assert job.opened
    cost = cost_of(job.always.note(job.now, ended=True), 0.0)
    assert cost is not None
    assert cost.windows <= 0.005
    assert cost.share == pytest.approx(job.lost / job.now, rel=0.01)
    assert cost.said(0.01) == (
        f"which cost {cost.share:.2%} of the time, more than the 1% allowed: "
        f"steps of 0.1 ms are so short that counting them takes {cost.counting:.2%}"
    )


def test_the_cost_is_that_of_the_whole_time_not_of_the_last_window() -> None:
    """One window, after 50 of 100,000 steps."""
    job = Job(SamplingSchedule(50, 0.0001), stop=0.3, slower=1.0)
    job.run(100_000)
    assert len(job.opened) == 1
    cost = cost_of(job.always.note(job.now, ended=True), 0.0)
    assert cost is not None
    assert cost.share == pytest.approx(0.3 / 1000.3, rel=0.01)
    assert cost.said(0.001) == "which cost 0.03% of the time"
    assert cost.said(0.0001) == (
        "which cost 0.03% of the time, more than the 0.01% allowed: "
        "windows took 0.3 s, for which the job would have to last 3,000 s"
    )


def test_of_a_job_that_was_killed_whoever_started_it_says_how_long_it_ran() -> None:
    note = {"host": socket.gethostname(), "began": 10.0, "now": 20.0, "ended": False, "spent": 1.0, "counting": 0.5}
    killed = cost_of({**note, "step": 0.1}, 110.0)
    assert killed == RecordingCost(100.0, 0.01, 0.05, 0.1)
    elsewhere = cost_of({**note, "step": 0.1, "host": "another"}, 110.0)
    assert elsewhere == RecordingCost(10.0, 0.1, 0.05, 0.1)
    assert cost_of({**note, "began": None}, 110.0) is None


def test_the_interval_is_the_one_asked_for_where_windows_are_cheap() -> None:
    job = Job(SamplingSchedule(100, 0.05), stop=0.001)
    job.run(10_000)
    gaps = [after - before for (before, _), (after, _) in zip(job.opened, job.opened[1:], strict=False)]
    assert set(gaps) <= {100, 104, 105}


def test_the_interval_grows_where_they_are_dear() -> None:
    job = Job(SamplingSchedule(100, 0.01), stop=1.0)
    job.run(200_000)
    gaps = [after - before for (before, _), (after, _) in zip(job.opened[1:], job.opened[2:], strict=False)]
    assert min(gaps) > 5_000
    assert len(gaps) >= 10


def test_a_slow_step_opens_a_window_if_the_budget_allows() -> None:
    job = Job(SamplingSchedule(10_000, 0.05), stop=0.01)
    job.run(9_000, slow=frozenset({2_000, 2_001, 5_000}))
    assert job.opened == [(2_000, "slow step"), (5_000, "slow step")]
    poor = Job(SamplingSchedule(10_000, 0.001), stop=5.0)
    poor.run(9_000, slow=frozenset({2_000, 5_000}))
    assert poor.opened == [(2_000, "slow step")]


def test_the_first_steps_are_not_slow_for_want_of_others() -> None:
    job = Job(SamplingSchedule(10_000, 0.05))
    job.run(20, slow=frozenset({1, 2, 3, 4}))
    assert job.opened == []


def test_what_is_wanted_comes_before_a_turn_and_waits_for_the_budget() -> None:
    job = Job(SamplingSchedule(10_000, 0.05), stop=0.01)
    job.always.sees_changes = True
    job.run(500, slow=frozenset({300}))
    assert job.opened == []  # of slow steps the history says which
    job.always.want(WindowWish("spike data", "a slow step"))
    job.always.want(WindowWish("change data longer", "steps take 12% longer"))
    job.run(10)
    assert job.opened == [(501, "steps take 12% longer")]
    job.always.budget = 1e-9
    job.always.want(WindowWish("change gap longer", "more"))
    job.run(100)
    job.always.budget = 0.05
    job.run(1)
    assert job.opened[1:] == [(611, "more")]


def test_a_window_of_a_step_that_is_due_is_open_when_it_comes() -> None:
    job = Job(SamplingSchedule(10_000, 0.05), stop=0.01)
    job.always.before = 1_000
    job.run(100)
    job.always.want(WindowWish("spike save again", "due", first=1_299))
    job.run(250)
    assert job.opened == [(298, "due")]  # one step of warm-up, then 1,299 to 1,301
    job.always.want(WindowWish("spike save again", "too late", first=1_300))
    job.run(250)
    assert job.opened == [(298, "due")]
    assert job.always.wish is None


def test_turns_leave_room_for_what_may_be_wanted() -> None:
    job = Job(SamplingSchedule(50, 0.01), stop=0.3)
    job.run(20_000)
    assert job.opened
    job.always.want(WindowWish("change data longer", "now"))
    job.run(1)
    assert job.opened[-1] == (20_001, "now")


def windows(folder: Path, took: list[float], keep: int, *, leads: bool = True) -> KeptWindows:
    kept = KeptWindows(folder / "control", keep, leads=leads)
    for number, seconds in enumerate(took):
        file = folder / f"{'leader' if leads else 'other'}{number}"
        file.write_text("")
        kept.add(KeptWindow(number, seconds, (str(file),)))
    return kept


def test_the_newest_and_the_slowest_are_kept_on_all_ranks(tmp_path: Path) -> None:
    took = [1.0, 9.0, 1.0, 8.0, 1.0, 1.0, 2.0, 1.0]
    leader = windows(tmp_path, took, 2)
    assert [window.number for window in leader.kept] == [1, 3, 6, 7]
    other = windows(tmp_path, [0.0] * len(took), 2, leads=False)
    assert [window.number for window in other.kept] == [1, 3, 6, 7]
    assert {file.name for file in tmp_path.iterdir() if file.is_file()} == {
        f"{who}{number}" for who in ("leader", "other") for number in (1, 3, 6, 7)
    }
    assert len(windows(tmp_path, took, 0).kept) == len(took)


def test_windows_of_changes_are_kept_besides(tmp_path: Path) -> None:
    kept = KeptWindows(tmp_path, 1, leads=True)
    for number, cause in enumerate(["change data longer", "every", "slow step", "memory resident", "every", "every"]):
        kept.add(KeptWindow(number, 9.0 if number == 1 else 1.0, (), cause))
    assert [window.number for window in kept.kept] == [1, 3, 5]


def test_one_request_at_a_time(tmp_path: Path) -> None:
    from kinetoscope.record.always_on.idle import RankProcess

    watch = RequestWatch(RankProcess(0, 2, 1, "h"), run=str(tmp_path), control=tmp_path, clock=lambda: (0, 0.0))
    watch.ask({"steps": 1})
    watch.ask({"steps": 2})
    assert watch._wanted == {"steps": 1}


@pytest.mark.torch
def test_a_real_job_is_sampled(tmp_path: Path) -> None:
    options = ["--every", "40", "--budget", "90%", "--active", "1", "--keep", "2"]
    command = [sys.executable, "-W", "ignore", "-c", TRAIN, "600", "0.005"]
    began = time.monotonic()
    done = run(kinetoscope("record", "-o", tmp_path, *options, "--", *command))
    lasted = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    cost = re.search(r"\d traces? in .*, which cost ([\d.]+)% of the time", done.stderr)
    assert cost, done.stderr
    assert 0.001 < float(cost[1]) / 100 < 1 - 600 * 0.005 / lasted, "what the job slept is no cost"
    found = sidecars(tmp_path)
    assert 2 <= len(found) <= 6, done.stderr  # newest, slowest, of changes
    assert len(traces(tmp_path)) == len(found)
    assert "every" in {each["reason"] for each in found}
