"""`kinetoscope history` and `watch`: the page, tables as rows, a look at a run, lines where nothing can be drawn."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from kinetoscope.cli import main
from kinetoscope.record.history.jobs import folder_of_job, note_job
from tests.conftest import OURS
from tests.history.drawn import Noise, Planted, Run, draw
from tests.history.written import records, write, write_run

PLANTED = (Planted("shift", 400, (1,), "data", 0.2), Planted("period", 0, None, "gap", 5, 100, "save"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    noise = Noise(deviation=0.01, own=0.003, outliers=0)
    drawn = draw(Run("drawn", steps=700, ranks=2, noise=noise, planted=PLANTED, clutter=False), 1)
    return write_run(tmp_path_factory.mktemp("run"), drawn)


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """The exit code, and what was written to both streams."""
    code = main([*map(str, arguments)])
    return code, *capsys.readouterr()


def test_sentences_come_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "history", folder)
    assert code == 0
    flat = " ".join(out.replace("\N{NO-BREAK SPACE}", " ").split())
    assert "From step 400 on, rank 1 takes" in flat
    assert flat.index("From step 400") < flat.index("Where the time of the run went") < flat.index("Spikes number")


def test_rows_are_those_of_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "history", folder, "--format", "json")
    assert json.loads(out)["analysis"] == "history_changes"
    _, out, _ = run(capsys, "history", folder, "--format", "csv", "--table", "lost")
    assert out.startswith("rank,number,cause")


def test_a_stretch_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "history", folder, "--steps", "300-500")
    assert "Steps 300 – 500" in out


def test_the_summary_of_a_history_is_what_it_says(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "summary", folder)
    assert code == 0
    flat = " ".join(out.replace("\N{NO-BREAK SPACE}", " ").split())
    assert "From step 400 on, rank 1 takes" in flat
    assert "kinetoscope diff OTHER" in flat
    assert "No rank makes the others wait" not in flat


def test_of_a_steady_run_it_is_said_that_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, records(400))
    _, out, _ = run(capsys, "history", tmp_path)
    assert "A step takes 110 ms; nothing changed" in out.replace("\N{NO-BREAK SPACE}", " ")


def test_a_run_without_history_is_an_error_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run(capsys, "history", OURS / "mlp.pt.trace.json.gz")
    assert (code, "record --history" in error, error.count("\n")) == (1, True, 1)


def test_a_look_at_a_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "watch", folder, "--once")
    assert code == 0
    out = out.replace("\N{NO-BREAK SPACE}", " ")
    assert "2 ranks, step 699, ended" in out
    assert "━" in out
    assert "s save" in out
    assert "waiting for data" in out
    assert "Behind the others in their own work: rank 1 by" in out
    assert "From step 400 on, rank 1" in out
    assert "\x1b" not in out


def test_a_run_that_has_ended_ends_the_watch_with_a_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "watch", folder)
    assert (code, out.count("\n")) == (0, 1)
    assert out.startswith("2 ranks, step 699, ended; last 64 steps: ")


def test_the_age_of_the_newest_step_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = records(20)
    rows["start"] = time.time_ns() - 500 * 10**9 - rows["duration"][0].astype(int) + rows["step"].astype(int)
    write(tmp_path, rows)
    _, out, _ = run(capsys, "watch", tmp_path, "--once")
    assert "the newest ended 50" in out
    assert "does it still run?" in out


def test_the_last_steps_alone_are_drawn(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "watch", folder, "--once", "--last", "100")
    assert "└600" in out


def test_a_folder_without_a_history_is_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "watch", tmp_path, "--once")
    assert (code, "no step has ended yet" in out) == (0, True)
    code, _, error = run(capsys, "watch", tmp_path / "none", "--once")
    assert (code, error.count("\n")) == (1, 1)


def test_a_run_is_watched_by_the_number_of_its_job(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    note_job(str(folder))
    code, out, _ = run(capsys, "watch", "4711", "--once")
    assert code == 0
    assert str(folder) in out
    code, _, error = run(capsys, "watch", "4712", "--once")
    assert (code, error.count("\n")) == (1, 1)


@pytest.mark.parametrize("job", ["", "../4711", "4711/..", "x" * 200])
def test_what_is_no_number_of_a_job_has_no_folder(tmp_path: Path, job: str) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path), "SLURM_JOB_ID": job}
    note_job("folder", environment)
    assert [*tmp_path.rglob("*")] == []
    assert folder_of_job(job, environment) is None
