"""The page of a whole run: what it opens with, its picture, a stretch of it, its windows."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kinetoscope.analyses import asked
from kinetoscope.compare.gate.baseline import dump
from kinetoscope.compare.statistics.numbers import Environment, MetricSeries, Numbers
from kinetoscope.errors import UsageError
from kinetoscope.model.history.series import MARKS
from kinetoscope.model.steps.selection import ALL
from kinetoscope.pages import PAGES, first_view, views_of
from kinetoscope.pages.blocks import BarsBlock, FactsBlock, HistoryBlock, NoteBlock, Page, RowsBlock
from kinetoscope.pages.history import ANSWERS, page
from kinetoscope.pages.pictures.run_steps import run_picture
from kinetoscope.reading import read
from kinetoscope.screens import html, markdown, terminal
from tests.conftest import OURS
from tests.history.drawn import Noise, Planted, Run, draw
from tests.history.written import records, write, write_run

QUIET = Noise(deviation=0.01, own=0.003, outliers=0)
PLANTED = (Planted("shift", 600, (1,), "data", 0.2), Planted("period", 0, None, "gap", 5, 100, "save"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    drawn = draw(Run("drawn", steps=1000, ranks=3, noise=QUIET, planted=PLANTED, clutter=False), 1)
    return write_run(tmp_path_factory.mktemp("run"), drawn)


def composed(folder: Path, **params: str) -> Page:
    return page(read(folder), ALL, params)


def block(of: Page, kind: type[Any], place: int = 0) -> Any:
    return [each for each in of.blocks if isinstance(each, kind)][place]


def test_it_opens_with_what_was_lost_and_since_when(folder: Path) -> None:
    said = composed(folder)
    assert said.sentence.startswith("Of ")
    assert "From step 600 on, rank 1 takes" in said.sentence
    assert "3 ranks" in said.facts


def test_the_picture_has_each_step_and_who_is_behind(folder: Path) -> None:
    picture: HistoryBlock = block(composed(folder), HistoryBlock)
    assert picture.size * len(picture.step) >= 1000
    assert picture.ranks == ["rank 0", "rank 1", "rank 2"]
    late = picture.step.index(640)
    assert all(value is not None and value > 70 for value in picture.behind[1][late:])
    assert max(value or 0 for value in picture.behind[0][late + 1 :]) < 20
    kinds = [mark.kind for mark in picture.marks]
    assert (kinds[0], picture.marks[0].step, "save" in kinds) == ("change", 600, True)


def test_rows_of_the_picture_are_bounded(tmp_path: Path) -> None:
    for rank in range(70):
        write(tmp_path, records(40), rank=rank)
    picture: HistoryBlock = block(composed(tmp_path), HistoryBlock)
    assert (len(picture.behind), picture.ranks[0], picture.ranks[-1]) == (35, "ranks 0-1", "ranks 68-69")


def test_lost_time_and_tables_are_there(folder: Path) -> None:
    said = composed(folder)
    bars: BarsBlock = block(said, BarsBlock)
    assert [bar.label for bar in bars.bars[:2]] == ["steps at their best", "change 1 (data)"]
    assert [table.title for table in said.blocks if isinstance(table, RowsBlock)][:2] == ["Changes", "Spikes"]


def test_a_stretch_says_what_is_in_it(folder: Path) -> None:
    said = composed(folder, **{"from": "580", "to": "620"})
    note: NoteBlock = block(said, NoteBlock)
    assert note.title == "Steps 580 – 620"
    assert "From step 600" in note.text
    assert "From step 600" not in block(composed(folder, **{"from": "100", "to": "200"}), NoteBlock).text
    assert block(said, HistoryBlock).chosen == (580, 620)


def test_a_stretch_without_steps_says_so(folder: Path) -> None:
    assert "No step" in block(composed(folder, **{"from": "5000", "to": "6000"}), NoteBlock).text


@pytest.mark.parametrize("stretch", [("9", "3"), ("x", "3"), ("", "3"), ("-1", "3")])
def test_a_stretch_that_is_none_is_refused(folder: Path, stretch: tuple[str, str]) -> None:
    with pytest.raises(UsageError):
        composed(folder, **{"from": stretch[0], "to": stretch[1]})


def test_a_window_leads_to_its_page_and_a_deleted_one_nowhere(tmp_path: Path) -> None:
    shutil.copy(OURS / "mlp.pt.trace.json.gz", tmp_path / "rank0.pt.trace.json.gz")
    rows = records(300)
    start = int(rows["start"][120])
    marks = [("window", name, 120, start, start + 10, None) for name in ("rank0.pt.trace.json.gz", "gone.json.gz")]
    write(tmp_path, rows, marks)
    facts: FactsBlock = block(composed(tmp_path), FactsBlock)
    there, gone = (fact.cells[0].link for fact in facts.facts)
    assert there is not None
    assert (there.view, there.rank, there.cycle, gone) == ("overview", 0, 0, None)


def test_the_window_after_a_change_says_what_it_shows(tmp_path: Path) -> None:
    drawn = draw(Run("drawn", 2000, 1, noise=QUIET, planted=(Planted("shift", 1000, None, "data", 0.4),)), 1)
    start = int(drawn.frames[0]["start"][900])
    windows = [
        (0, 0, "window", f"{name}.pt.trace.json.gz", step, start, start + 10, "steps take longer")
        for name, step in (("before", 900), ("after", 1050))
    ]
    marks = pl.concat([drawn.marks, MARKS.frame(windows)])
    left = write_run(tmp_path, replace(drawn, marks=marks)) / "history" / "windows"
    left.mkdir()
    for name, time in (("before", 4e6), ("after", 43e6)):
        series = {"step_time": MetricSeries((100e6,)), "op:decode_jpeg": MetricSeries((time,), "host")}
        (left / f"{name}.window.json").write_text(dump([Numbers(name, Environment(), series)]))
    said = composed(tmp_path)
    assert "The window of step 1,050 shows `decode_jpeg`: 4.00 ms → 43.0 ms a step." in said.sentence.replace(
        "\xa0", " "
    )
    facts: FactsBlock = block(said, FactsBlock)
    assert facts.facts[-1].cells[-1].text == "steps take longer; change 1: decode_jpeg 4.00\xa0ms → 43.0\xa0ms"


def test_young_collections_are_not_drawn_and_old_ones_are_counted(tmp_path: Path) -> None:
    rows = records(2000)
    at = rows["start"].tolist()
    marks = [
        ("collection", generation, step, at[step], at[step] + 5, None) for generation in "012" for step in range(64)
    ]
    write(tmp_path, rows, marks)
    job = read(tmp_path)
    picture = run_picture(job.ask({name: asked(f"history_{name}") for name in ANSWERS}), {})
    assert sum(mark.count for mark in picture.marks if mark.kind == "collection") == 64
    assert len([mark for mark in picture.marks if mark.kind == "collection"]) == 64 // picture.size


def test_every_face_draws_it(folder: Path) -> None:
    said = composed(folder)
    assert "slowest rank" in terminal.text(said)
    assert "rank 1 behind" in markdown.text(said)
    assert "slowest rank" in html.html(said)


def test_a_trace_without_history_has_no_such_page() -> None:
    said = page(read(OURS / "mlp.pt.trace.json.gz"), ALL, {})
    assert (said.blocks, "no history" in said.sentence) == ((), True)
    assert "history" not in views_of("training", {"kineto"})


def test_it_is_the_first_page_of_a_run_that_is_only_a_history() -> None:
    assert first_view("history") == "history"
    assert "history" in views_of("training", {"kineto", "history"})
    assert {name for name in views_of("history", {"history"}) if PAGES[name].composed} <= {"history", "compare", "own"}
