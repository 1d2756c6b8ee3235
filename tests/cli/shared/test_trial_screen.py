"""What is seen while trials run: a screen that disappears again on a terminal, a line for each trial elsewhere."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kinetoscope.cli.shared.trial_screen import markdown, screen_lines, shown, write
from kinetoscope.pages.answers.trials import of_list, of_tried
from kinetoscope.trying.progress import TrialProgress
from kinetoscope.views.terminal.lines import width_of, without_colour
from tests.tried import FAILED, HOSTILE, KEPT, MS, TOGETHER

DONE = KEPT.trials[:6]
HALF = TrialProgress(
    doing="gc, round 2 of 5",
    runs=18,
    planned=46,
    seconds=70.0,
    seconds_left=100.0,
    step=84.5 * MS,
    step_now=31.2 * MS,
    accepted=("workers", "threads"),
    rows=DONE,
)


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def text_of(progress: TrialProgress, width: int = 100, height: int = 40) -> list[str]:
    return without_colour(screen_lines(progress, 5.0, width, height)).replace("\u00a0", " ").splitlines()


def test_the_screen_says_how_far_it_is_and_what_is_best_so_far() -> None:
    doing, progress, best, _, heads, base, first, *_ = text_of(HALF)
    assert doing == "gc, round 2 of 5"
    assert progress.startswith("━━━")
    assert progress.endswith("  18 of 46 runs · 75 s, about 2 min left")
    assert best == "a step: 84.5 ms → 31.2 ms (−63%) with workers + threads"
    assert heads.split()[:2] == ["step", "change"]
    assert base.split() == ["as", "it", "is", "84.5", "ms"]
    assert first.startswith("✓ workers+threads  31.2 ± 2.5 ms")


def test_before_anything_is_known_nothing_is_claimed() -> None:
    assert text_of(TrialProgress(doing="recording the program as it is")) == [
        "recording the program as it is",
        "0 runs · 5 s",
    ]
    assert text_of(replace(HALF, accepted=(), rows=()))[2:] == ["a step takes 84.5 ms; nothing is kept so far"]


@pytest.mark.parametrize("width", [30, 60, 80, 120])
def test_the_screen_fits_a_terminal(width: int) -> None:
    hostile = replace(HALF, doing=HOSTILE, accepted=(HOSTILE,), rows=tuple(replace(row, trial=HOSTILE) for row in DONE))
    for progress in (HALF, hostile) if width > 30 else ():
        drawn = screen_lines(progress, 0.0, width, 12)
        assert len(drawn) <= 12
        assert max(map(width_of, drawn)) <= width
        assert "\x1b" not in without_colour(drawn)
    assert max(map(width_of, screen_lines(replace(HALF, rows=()), 0.0, width, 12))) <= width


def test_of_many_trials_the_newest_stay() -> None:
    rows = tuple(replace(TOGETHER, trial=f"trial {number}") for number in range(50))
    drawn = "\n".join(text_of(replace(HALF, rows=rows), height=20))
    assert "trial 49" in drawn
    assert "trial 3 " not in drawn


@pytest.mark.parametrize("fails", [False, True])
def test_a_terminal_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch, *, fails: bool) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("kinetoscope.cli.shared.trial_screen._REFRESH", 0.01)
    stream = Terminal()
    try:
        with shown(stream) as watch:
            watch(HALF)
            while "18 of 46" not in stream.getvalue():
                time.sleep(0.01)
            if fails:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert fails
    assert stream.getvalue().endswith("F\x1b[J")


@pytest.mark.parametrize("terminal", [False, True])
def test_a_pipe_gets_a_line_for_each_trial(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal() if terminal else io.StringIO()
    with shown(stream) as watch:
        watch(replace(HALF, rows=()))
        watch(replace(HALF, rows=(TOGETHER,)))
        watch(replace(HALF, rows=(TOGETHER,)))
        watch(replace(HALF, rows=(TOGETHER, replace(FAILED, why=HOSTILE))))
    first, second = stream.getvalue().replace("\u00a0", " ").splitlines()
    assert first == "kinetoscope: workers+threads: kept, 84.5 ms → 31.2 ms a step (−63%)"
    assert second.startswith("kinetoscope: compile: failed: \\x1b[31m")


def test_the_result_is_drawn_with_what_to_type_next(capsys: pytest.CaptureFixture[str]) -> None:
    write(KEPT, Path("tries/train 1"))
    first, *_, ledger, diff, view = capsys.readouterr().out.splitlines()
    assert first.startswith("A step takes 28.9")
    assert ledger.startswith("kinetoscope ledger 'tries/train 1' ")
    assert diff.startswith("kinetoscope diff 'tries/train 1'/traces/baseline 'tries/train 1'/traces/fused ")
    assert view.startswith("kinetoscope view 'tries/train 1' ")
    assert markdown(KEPT) == of_tried(KEPT).to_markdown()


def test_what_would_be_tried_is_listed() -> None:
    page = of_list(KEPT.trials[:3], KEPT.trials[6:])
    drawn = str(page).replace("\u00a0", " ")
    assert page.sentence == "3 changes would be tried, in this order:"
    assert "workers+threads  28.4–53.6 ms   DATA001" in drawn
    assert "nothing to change: set_to_none, anomaly, inference" in drawn
    assert of_list((), ()).sentence == "No change would be tried."
