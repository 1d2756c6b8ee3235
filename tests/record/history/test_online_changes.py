"""What a run that goes on asks to have recorded, of drawn series."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from kinetoscope.record.history import layout
from kinetoscope.record.history.online_changes import OnlineDetector
from kinetoscope.record.history.wishes import WindowWish
from tests.history.cases import healthy_runs
from tests.history.drawn import Drawn, Noise, Planted, Run, draw

_COLUMNS = {name: (scale, code) for name, code, scale in layout.FIELDS if name not in ("start", "duration", "step")}


def rows_of(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Rows as the recorder packs them."""
    columns = [
        [layout.UNKNOWN_INTEGER if value is None else value // scale for value in frame[name]]
        if code == "I"
        else [float("nan") if value is None else float(value) for value in frame[name]]
        for name, (scale, code) in _COLUMNS.items()
    ]
    duration = [float(each) for each in frame["end"] - frame["start"]]
    return list(zip(frame["start"].to_list(), duration, *columns, frame["step"].to_list(), strict=True))


def packed(frame: pl.DataFrame) -> list[bytes]:
    """Records of these rows."""
    return [layout.RECORD.pack(*row) for row in rows_of(frame)]


def wishes(drawn: Drawn, rank: int = 0, *, recorded: tuple[int, ...] = ()) -> list[tuple[int, WindowWish]]:
    """What is wanted, each with the step after which it is, where rows come ten at a time."""
    detector = OnlineDetector()
    detector.recorded += recorded
    rows = rows_of(drawn.frames[rank])
    marks = [row[2:] for row in drawn.marks.filter(rank=rank).rows()]
    wanted = []
    for at in range(0, len(rows), 10):
        part = rows[at : at + 10]
        now = [mark for mark in marks if part[0][-1] <= mark[2] <= part[-1][-1]]
        wanted += [(int(part[-1][-1]), wish) for wish in detector.see(part, now)]
    return wanted


def changes(wanted: list[tuple[int, WindowWish]]) -> list[tuple[int, WindowWish]]:
    return [each for each in wanted if each[1].is_change]


QUIET = Noise(0.02, 0.5, outliers=0)


@pytest.mark.parametrize("noise", [QUIET, Noise(0.03, 0.9, outliers=0.01)])
def test_a_step_that_takes_longer_opens_two_windows(noise: Noise) -> None:
    run = Run("level", 3000, noise=noise, planted=(Planted("shift", 1500, None, "data", 0.4),))
    (first, soon), (second, still) = changes(wishes(draw(run, 1)))
    assert 1500 < first <= 1550
    assert soon.cause == still.cause == "change data longer"
    assert soon.reason.startswith("steps take 4")
    assert "% longer from step 1,5" in soon.reason or "% longer from step 1,4" in soon.reason
    assert ": data 5" in soon.reason
    assert second <= first + 210
    assert still.reason.startswith("steps still take 4")


def test_what_goes_away_again_is_shown_when_it_comes_and_when_it_goes() -> None:
    run = Run("stretch", 4000, noise=QUIET, planted=(Planted("shift", 2000, None, "gap", 0.5, until=2100),))
    wanted = changes(wishes(draw(run, 1)))
    assert wanted[0][1].cause == "change gap longer"
    assert wanted[0][0] < 2050
    assert not [wish for _, wish in wanted if "still" in wish.reason and "longer" in wish.reason]


def test_of_one_rank_that_is_late_only_it_has_it_in_its_own_part() -> None:
    run = Run("rank", 2000, 3, noise=QUIET, planted=(Planted("shift", 1000, (2,), "data", 0.4),))
    drawn = draw(run, 1)
    parts = [changes(wishes(drawn, rank))[0][1].part for rank in range(3)]
    assert parts == ["backward", "backward", "data"]


def test_memory_that_creeps_opens_one_window() -> None:
    run = Run("creep", 6000, noise=QUIET, planted=(Planted("creep", 0, None, "memory_used", 0.4),), device=True)
    ((step, wish),) = changes(wishes(draw(run, 1)))
    assert step < 5000
    assert wish.reason.startswith("memory in use grows: 7.9")
    assert " GB by step " in wish.reason


def test_spikes_with_a_period_open_a_window_after_one_and_one_in_which_it_is_due() -> None:
    run = Run("save", 6000, noise=QUIET, planted=(Planted("period", 0, None, "gap", 5.0, 200, "save"),), clutter=False)
    drawn = draw(run, 1)
    (_, after), (step, due) = wishes(drawn)
    assert (after.cause, due.cause) == ("spike save", "spike save again")
    assert after.reason.startswith("slow step: step ")
    assert after.reason.endswith(" times as long (a save)")
    saves = drawn.marks.filter(kind="save")["step"].to_list()
    assert due.first + 1 in saves
    assert due.first > step
    assert due.reason == f"slow steps: each 200 steps one takes longer (a save); step {due.first + 1:,} is next"


def test_a_step_that_is_slow_without_a_cause_says_so() -> None:
    frame = draw(Run("slow", 400, noise=QUIET, clutter=False), 1).frames[0]
    later = pl.when(pl.col("step") >= 300).then(500_000_000).otherwise(0)
    starts = later.shift(1, fill_value=0)
    slow = frame.with_columns(start=pl.col("start") + starts, end=pl.col("end") + later)
    (reason,) = [wish.reason for wish in OnlineDetector().see(rows_of(slow), [])]
    assert reason == "slow step: step 300 took 6 times as long (nothing says why)"


def test_steps_that_come_to_take_longer_little_by_little() -> None:
    run = Run("drift", 6000, noise=QUIET, planted=(Planted("drift", 1000, None, "data", 0.5),))
    wanted = [wish.reason for _, wish in changes(wishes(draw(run, 1)))]
    assert any(re.match(r"steps have come to take \d+% longer by step \d", each) for each in wanted)


def test_the_steps_after_an_evaluation_and_a_compilation() -> None:
    planted = (
        Planted("period", 0, None, "gap", 3.0, 500, "evaluation"),
        Planted("shift", 1_000, None, "forward", 0.0, mark="compile"),
    )
    wanted = wishes(draw(Run("marks", 6000, noise=QUIET, planted=planted, clutter=False), 1))
    causes = {wish.cause: wish for _, wish in wanted}
    assert sorted(causes) == ["after compile", "after evaluation", "after evaluation again"]
    assert causes["after compile"].reason == "the first steps after a compilation"
    again = causes["after evaluation again"].reason
    assert again.startswith("the first steps after an evaluation, which comes each 500 steps, before step ")
    assert len(wanted) == 3


def test_steps_that_were_recorded_do_not_count() -> None:
    run = Run("recorded", 3000, noise=QUIET, planted=(Planted("shift", 1500, None, "gap", 1.0, until=1600),))
    assert changes(wishes(draw(run, 1)))
    assert not changes(wishes(draw(run, 1), recorded=(1500, 1601)))


@pytest.mark.parametrize("number", [1, 4, 6])
def test_a_noisy_run_opens_no_window_for_a_change(number: int) -> None:
    run = replace(healthy_runs(1)[number], steps=2000)
    assert not changes(wishes(draw(run, 1)))


@pytest.mark.slow
def test_ten_healthy_noisy_runs_open_no_window_for_a_change() -> None:
    for run in healthy_runs(1):
        drawn = draw(run, 1)
        wanted = [wishes(drawn, rank) for rank in range(min(run.ranks, 2))]
        assert not [each for of_rank in wanted for each in changes(of_rank)], run.name
        assert max(map(len, wanted)) <= 12
