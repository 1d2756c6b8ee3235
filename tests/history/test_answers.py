"""What a run did is said: at its place, with its cause; nothing is said of a run to which nothing happened."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from kinetoscope.errors import BrokenTraceError
from kinetoscope.model.history.history import History, history
from kinetoscope.model.history.series import MARKS, STEPS
from kinetoscope.pages.sentences.history import history_sentences
from tests.history.drawn import START, Noise, Planted, Run, draw
from tests.history.scored import alarms_of, score

QUIET = Noise(deviation=0.01, own=0.003, outliers=0.001)
SECOND = 1_000_000_000


def run(*planted: Planted, **facts: Any) -> Run:
    return Run("drawn", **{"steps": 2000, "noise": QUIET, "planted": planted, "clutter": False, **facts})


def answers(drawn: Run, seed: int = 1) -> History:
    series = draw(drawn, seed)
    return history(series.frames, series.marks)


def series(
    times: Any, rank: int = 0, gap: Any = 0, first: int = 0, attempt: int = 0, start: int = START
) -> pl.DataFrame:
    """Steps of so many ns each, with a gap before each."""
    times = np.asarray(times, np.int64)
    end = start + np.cumsum(times + gap)
    known = {"rank": rank, "attempt": attempt, "step": first + np.arange(len(times)), "start": end - times, "end": end}
    frame = pl.DataFrame(known)
    return STEPS.conform(frame.with_columns(pl.lit(None).alias(name) for name in STEPS.names if name not in known))


def marks(*rows: tuple[str, int, int, int]) -> pl.DataFrame:
    return MARKS.frame([(0, 0, kind, None, step, start, end, None) for kind, step, start, end in rows])


PLANTED = [
    run(Planted("shift", 1200, None, "forward", 0.1)),
    run(Planted("shift", 900, (1,), "data", 0.1), ranks=3),
    run(Planted("shift", 900, (1,), "gap", 0.1), ranks=2),
    run(Planted("shift", 900, (0,), "optimizer", 0.1), ranks=3, coupled=False),
    run(Planted("shift", 900, (2, 3), "data", 0.2), ranks=8, coupled=False),
    run(Planted("shift", 700, None, "device", 0.15), device=True),
    run(Planted("shift", 700, None, "backward", 0.15, mark="compile")),
    run(Planted("shift", 700, None, "rest", 0.2, until=1300), ranks=2),
    run(Planted("drift", 0, None, "data", 0.2)),
    run(Planted("period", 0, None, "gap", 5, 150, "save"), ranks=2),
    run(Planted("period", 0, None, "forward", 1, 90, "collection"), ranks=4),
    run(Planted("period", 0, None, "data", 4, 120)),
    run(Planted("creep", 0, None, "memory_used", 0.3), device=True),
    run(Planted("creep", 0, None, "resident", 0.3)),
    run(Planted("return", 0, (2,), "data", 0.2, period=250), ranks=4),
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: f"{each.planted[0].kind} {each.planted[0].part}")
def test_what_is_planted_is_said_with_its_cause(planted: Run) -> None:
    assert score(planted, 3).is_caused, score(planted, 3)


@pytest.mark.parametrize("correlation", [0, 0.9, 0.99])
@pytest.mark.parametrize("modes", [0, 0.5])
def test_noise_is_no_change(correlation: float, modes: float) -> None:
    noise = Noise(0.04, correlation, 0.01, outliers=0.01, modes=modes)
    assert alarms_of(answers(run(noise=noise, steps=4000, ranks=2, clutter=True))) == []


def test_the_rows_of_lost_time_add_up_to_the_run() -> None:
    planted = (Planted("shift", 900, (1,), "data", 0.2), Planted("period", 0, None, "gap", 5, 150, "save"))
    said = answers(run(*planted, ranks=3, noise=Noise(0.05, 0.9, 0.01, outliers=0.01)))
    assert said.run is not None
    whole = sum(each.whole for each in said.run.ranks) / 3
    assert said.lost["time"].sum() == pytest.approx(whole, rel=1e-9)
    assert said.lost["share"].sum() == pytest.approx(1)


def test_what_marks_and_changes_cost_is_told_apart() -> None:
    times = np.full(1000, SECOND)
    times[600:] += SECOND // 2
    times[[100, 200, 300]] += 10 * SECOND
    end = START + np.cumsum(times)
    saves = marks(*(("save", step, int(end[step]) - 10 * SECOND, int(end[step])) for step in (100, 200, 300)))
    lost = {row["cause"]: row["time"] for row in history([series(times)], saves).lost}
    assert lost == pytest.approx({"best": 1000 * SECOND, "change": 200 * SECOND, "save": 30 * SECOND})


def test_nested_marks_count_once() -> None:
    times = np.full(1000, SECOND)
    times[500] += 8 * SECOND
    end = int((START + np.cumsum(times))[500])
    nested = marks(("evaluation", 500, end - 8 * SECOND, end), ("collection", 500, end - 2 * SECOND, end - SECOND))
    lost = {row["cause"]: row["time"] for row in history([series(times)], nested).lost}
    assert lost == pytest.approx({"best": 1000 * SECOND, "evaluation": 8 * SECOND})


def test_the_gap_before_a_step_belongs_to_it() -> None:
    gap = np.zeros(1000, np.int64)
    gap[500:] = SECOND // 4
    said = answers_of(series(np.full(1000, SECOND), gap=gap))
    (change,) = said.changes
    assert (change["step"], change["part"], change["part_after"]) == (500, "gap", SECOND // 4)


def test_a_restart_and_what_was_run_again_are_lost() -> None:
    before = series(np.full(600, SECOND))
    after = series(np.full(500, SECOND), first=500, attempt=1, start=before["end"][-1] + 30 * SECOND)
    lost = {row["cause"]: row["time"] for row in answers_of(pl.concat([before, after])).lost}
    assert lost == pytest.approx({"best": 1000 * SECOND, "repeated": 100 * SECOND, "restart": 30 * SECOND})


def answers_of(*frames: pl.DataFrame) -> History:
    return history(frames, MARKS.empty())


def test_the_interval_of_a_shift_holds_its_step() -> None:
    noise = Noise(0.03, 0, 0.01, outliers=0)
    held = 0
    for seed in range(20):
        (change, *_) = answers(run(Planted("shift", 1000, None, "forward", 0.05), noise=noise), seed).changes
        held += change["step_low"] <= 1000 <= change["step_high"]
    assert held >= 17


def test_ranks_in_one_frame_are_as_in_frames_of_their_own() -> None:
    drawn = draw(run(Planted("shift", 900, (1,), "data", 0.2), ranks=2), 4)
    one = history([pl.concat(drawn.frames)], drawn.marks)
    assert one.changes.frame.equals(history(reversed(drawn.frames), drawn.marks).changes.frame)


def test_ranks_that_end_early_and_steps_that_are_missing_are_no_change() -> None:
    frames = draw(run(ranks=3), 5).frames
    holes = frames[1].filter((pl.col("step") < 700) | (pl.col("step") > 760))
    assert alarms_of(answers_of(frames[0], holes, frames[2].head(900))) == []


def test_a_short_stretch_that_went_away_is_no_change() -> None:
    short = replace(PLANTED[0], planted=(Planted("shift", 1000, None, "forward", 0.1, until=1060),))
    assert alarms_of(answers(short)) == []


def test_nothing_is_said_of_a_series_without_steps() -> None:
    said = answers_of(STEPS.empty())
    assert [note.code for note in said.changes.notes] == ["EMPTY_SERIES"]
    assert history_sentences(said) == []


def test_a_short_series_says_that_it_is_short() -> None:
    said = answers_of(series(np.full(30, SECOND)))
    assert [note.code for note in said.changes.notes] == ["SHORT_SERIES"]
    assert said.lost["time"].to_list() == [30 * SECOND]


@pytest.mark.parametrize("step", [10**15, -(10**15)])
def test_numbers_that_are_none_are_refused(step: int) -> None:
    broken = pl.concat([series(np.full(20, SECOND)), series([SECOND], first=step)])
    with pytest.raises(BrokenTraceError, match="has steps from"):
        answers_of(broken)


def test_a_change_is_said_with_its_numbers() -> None:
    said = answers(run(Planted("shift", 1200, (1,), "data", 0.1), ranks=3))
    sentence = next(each for each in history_sentences(said) if each.startswith("From"))
    assert sentence.startswith("From step 1,200 on, rank 1 takes")
    assert "waiting for data 4.99\xa0ms → 15.0\xa0ms" in sentence
    assert {each.name for each in sentence.quantities} >= {"step", "who", "size", "part_before", "part_after"}


def test_a_first_step_that_takes_long_is_said_as_such() -> None:
    times = np.full(400, 100_000_000)
    times[0] = 5 * SECOND
    said = [str(each).replace("\xa0", " ") for each in history_sentences(answers_of(series(times)))]
    assert "The first step took 4.90 s more than those after it, 10.9% of the run." in said


def test_of_several_ranks_it_is_said_whose_time_was_lost() -> None:
    slow = np.full(1000, 100_000_000)
    slow[::100] = SECOND
    said = " ".join(map(str, history_sentences(answers_of(series(slow), series(slow, rank=1)))))
    assert "of the run, by the rank that lost most in each." in said


@pytest.mark.parametrize("planted", PLANTED[6:15:2], ids=lambda each: each.planted[0].kind)
def test_each_number_of_a_sentence_is_a_cell(planted: Run) -> None:
    for sentence in history_sentences(answers(planted, 3)):
        assert sentence.quantities
        for quantity in sentence.quantities:
            assert quantity.source is not None
            assert quantity.source.look_up(_no_analysis) == quantity.value


def _no_analysis(*_: object) -> Any:
    raise AssertionError("its table is none of an analysis")
