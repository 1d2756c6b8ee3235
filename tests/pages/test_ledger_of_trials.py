"""The Ledger of a run that `kinetoscope try` recorded: on the page, in a report, by the command; hostile files, too."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from kinetoscope.cli import main
from kinetoscope.compare.trials.tried import FILE, folder_of, of_run
from kinetoscope.errors import InputError
from kinetoscope.model.steps.selection import ALL
from kinetoscope.outputs.report import report
from kinetoscope.pages.blocks import BarsBlock, CodeBlock, NoteBlock, Page, RowsBlock, to_plain
from kinetoscope.pages.ledger import page
from kinetoscope.reading import read
from tests.server.serving import serving
from tests.tried import KEPT, NONE_KEPT, STATES, try_folder

NAMES = ["baseline", "fused", "workers+threads"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return try_folder(tmp_path / "try")


def ledger(path: Path) -> Page:
    return page(read(str(path)), ALL, {})


def test_what_came_of_the_trials_stands_first(folder: Path) -> None:
    of_run_of_trial = ledger(folder / "traces" / "fused")
    assert of_run_of_trial.sentence.startswith("A step takes 28.9")
    bars, rows, not_run, patch, *_ = of_run_of_trial.blocks
    assert isinstance(bars, BarsBlock)
    assert [(bar.label, bar.value, bar.chosen) for bar in bars.bars][:3] == [
        ("as it is", KEPT.step, False),
        ("workers+threads", KEPT.trials[0].step, False),
        ("fused", KEPT.trials[1].step, True),
    ]
    assert isinstance(rows, RowsBlock)
    assert [row[:2] for row in rows.rows][-1] == ("compile", "failed")
    assert isinstance(not_run, NoteBlock)
    assert isinstance(patch, CodeBlock)
    json.dumps(to_plain(of_run_of_trial), allow_nan=False)
    own = ledger(folder / "traces" / "baseline").blocks[0]
    assert isinstance(own, BarsBlock)
    assert own.bars[0].chosen


@pytest.mark.parametrize("state", STATES)
def test_each_state_has_a_ledger(tmp_path: Path, state: str) -> None:
    made = ledger(try_folder(tmp_path, STATES[state]) / "traces" / "baseline")
    assert json.dumps(to_plain(made), allow_nan=False)
    assert "\x1b" not in str(made)
    assert "<script" not in made._repr_html_()


def test_a_run_of_something_else_has_none(folder: Path) -> None:
    other = folder / "other" / "run.json.gz"
    other.parent.mkdir()
    other.write_bytes((folder / "traces" / "fused" / "trace.pt.trace.json.gz").read_bytes())
    assert of_run(str(other)) is None
    assert ledger(other).sentence.startswith("There is one run")
    assert folder_of(str(folder.parent / "elsewhere")) is None


def test_a_name_that_begins_another_one_is_not_taken_for_it(folder: Path) -> None:
    (folder / "traces" / "fused2").mkdir()
    assert of_run(str(folder / "traces" / "fused2")) is None
    assert of_run(str(folder / "traces" / "fused" / "trace.pt.trace.json.gz")) == (KEPT, "traces/fused")
    assert of_run(str(folder)) == (KEPT, "")


def test_a_bad_file_is_one_note(folder: Path) -> None:
    (folder / FILE).write_text('{"format": 1, "trials": [{"trial": "<script>"}]}')
    made = ledger(folder / "traces" / "fused")
    assert made.sentence.startswith("There is one run")
    assert [each for each in made.cannot if "no result of `kinetoscope try`" in each] == [made.cannot[0]]


def test_neither_a_link_nor_a_pipe_is_read(folder: Path, tmp_path: Path) -> None:
    (folder / FILE).rename(tmp_path / "elsewhere.json")
    (folder / FILE).symlink_to(tmp_path / "elsewhere.json")
    assert of_run(str(folder / "traces" / "fused")) is None
    (folder / FILE).unlink()
    os.mkfifo(folder / FILE)
    assert of_run(str(folder / "traces" / "fused")) is None


def test_the_result_is_no_run_and_the_page_follows_it(folder: Path) -> None:
    with serving(folder) as client:
        runs = {run["name"].rpartition("/")[2]: run["id"] for run in client.get("runs")["runs"]}
        assert sorted(runs) == NAMES
        said = client.get(f"runs/{runs['fused']}/pages/ledger")["sentence"]
        assert said.startswith("A step takes 28.9")
        (folder / FILE).write_text(NONE_KEPT.to_json())
        os.utime(folder / FILE, (1, 1))
        said = client.get(f"runs/{runs['fused']}/pages/ledger")["sentence"]
        assert said.startswith("Nothing that was tried")


def test_the_report_of_the_folder_is_of_the_program_as_it_is(folder: Path, tmp_path: Path) -> None:
    report(str(folder), tmp_path / "r.html", sections=None, source=())
    text = (tmp_path / "r.html").read_text("utf-8")
    assert re.search("<title>[^<]*baseline", text)
    (folder / FILE).write_text("{}")
    with pytest.raises(InputError, match="no result"):
        report(str(folder), tmp_path / "r.html")


def test_the_verb_shows_the_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", str(folder)]) == 0
    assert capsys.readouterr().out.startswith("A step takes 28.9")
    assert main(["ledger", str(folder), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0][0] == "workers+threads"
    assert main(["ledger", *(str(folder / "traces" / name) for name in NAMES[:2])]) == 0
    assert "baseline" in capsys.readouterr().out
