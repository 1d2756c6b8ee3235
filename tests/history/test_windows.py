"""Which window shows which change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from kinetoscope.model.history.history import History, history
from kinetoscope.model.history.series import MARKS
from kinetoscope.model.history.spikes import spike_events
from kinetoscope.model.history.windows import WINDOWS, windows_of
from kinetoscope.readers.history.files import window_files
from kinetoscope.record.history.layout import WINDOW_ENDING
from tests.history.drawn import Noise, Planted, Run, draw

QUIET = Noise(0.01, 0.3, outliers=0)
NUMBERS = {
    "a": {"step_time": 100e6, "op:load": 5e6, "op:decode_jpeg": 4e6, "op:aten::mm": 30e6},
    "b": {"step_time": 140e6, "op:load": 45e6, "op:decode_jpeg": 43e6, "op:aten::mm": 31e6},
}


def answers(*planted: Planted, ranks: int = 1) -> History:
    drawn = draw(Run("run", 4000, ranks, noise=QUIET, planted=planted, clutter=False), 1)
    return history(drawn.frames, drawn.marks)


def joined(of: History, *windows: tuple[int, int, str | None]) -> list[dict[str, Any]]:
    marks = MARKS.frame([(rank, 0, "window", file, step, 0, 1, "every") for rank, step, file in windows])
    assert of.run is not None
    frame = windows_of(marks, of.changes.frame, of.spikes.frame, spike_events(of.run), NUMBERS.get)
    assert frame.schema == WINDOWS.empty().schema
    return frame.rows(named=True)


def test_the_window_after_a_change_shows_the_innermost_that_grew() -> None:
    of = answers(Planted("shift", 2000, None, "data", 0.4))
    early, before, after, later = joined(of, (0, 500, "x"), (0, 1900, "a"), (0, 2060, "b"), (0, 3000, "y"))
    assert [early["change"], before["change"], after["change"], later["change"]] == [None, None, 1, None]
    assert (after["before_file"], after["shows"], after["before"], after["after"]) == ("a", "decode_jpeg", 4e6, 43e6)


def test_a_change_of_one_rank_is_in_its_window() -> None:
    of = answers(Planted("shift", 2000, (2,), "data", 0.4), ranks=3)
    windows = [(rank, step, file) for step, file in ((1900, "a"), (2060, "b")) for rank in range(3)]
    rows = joined(of, *windows)
    assert [(row["rank"], row["step"]) for row in rows if row["change"]] == [(2, 2060)]


def test_nothing_is_shown_where_nothing_is_known_or_nothing_differs() -> None:
    of = answers(Planted("shift", 2000, None, "data", 0.4))
    assert [row["shows"] for row in joined(of, (0, 1900, "a"), (0, 2060, "gone"))] == [None, None]
    assert [row["shows"] for row in joined(of, (0, 1900, "a"), (0, 2060, "a"))] == [None, None]
    assert [row["before_file"] for row in joined(of, (0, 2060, "b"))] == [None]


def test_a_window_with_a_spike() -> None:
    of = answers(Planted("period", 0, None, "gap", 5.0, 200, "save"))
    assert of.run is not None
    step = spike_events(of.run)["step"][3]
    rows = joined(of, (0, step - 1, "a"), (0, step + 50, "b"))
    assert [row["spike"] for row in rows] == [of.spikes.frame["number"][0], None]


def test_what_is_left_of_a_window_stands_for_its_trace(tmp_path: Path) -> None:
    (tmp_path / "history" / "windows").mkdir(parents=True)
    left = tmp_path / "history" / "windows" / f"one{WINDOW_ENDING}"
    for path in (left, tmp_path / "two.pt.trace.json.gz"):
        path.write_text("")
    assert window_files(tmp_path) == {
        "one.pt.trace.json.gz": left,
        "two.pt.trace.json.gz": tmp_path / "two.pt.trace.json.gz",
    }
    assert pl.Series(list(window_files(tmp_path / "none"))).is_empty()
