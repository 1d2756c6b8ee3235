"""`kinetoscope hang`: the page of generated dumps, the verdicts as rows, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kinetoscope.cli import main
from kinetoscope.model.hangs.remedies import REMEDIES
from tests import drawn
from tests.conftest import ROOT
from tests.hangs.scoring import job


def dumps(folder: Path, cause: str) -> Path:
    """The dumps of a generated job of 16 ranks with this cause."""
    _, _, recorded = job(cause, 16, seed=0)
    for rank, dump in recorded.dumps.items():
        (folder / f"nccl_trace_rank_{rank}").write_text(json.dumps(dump))
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """The exit code, and what was written to both streams."""
    code = main(arguments)
    return code, *capsys.readouterr()


def test_what_hangs_has_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "hang", str(dumps(tmp_path, "sizes-tp")))
    assert code == 1
    assert "with other sizes than each other" in " ".join(out.split())
    assert "Who is where" in out
    code, out, _ = run(capsys, "hang", str(tmp_path), "--format", "json")
    answer = json.loads(out)
    first = dict(zip((column["name"] for column in answer["columns"]), answer["rows"][0], strict=True))
    assert (code, first["cause"], first["certainty"]) == (1, "different sizes", "sure")
    assert first["remedy"] == REMEDIES["different sizes"].what


def test_what_does_not_hang_has_exit_code_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "hang", str(dumps(tmp_path, "finished")), "--format", "markdown")
    assert code == 0
    assert "Nothing hangs" in out


def test_without_records_it_says_how_to_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn.job(tmp_path, drawn.op("aten::mm", 0, 9))
    code, out, err = run(capsys, "hang", str(tmp_path))
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "kinetoscope record --hang" in err


def test_the_docs_have_each_remedy() -> None:
    text = (ROOT / "docs" / "hangs.md").read_text("utf-8")
    assert [cause for cause, remedy in REMEDIES.items() if f"| {cause} | {remedy.what} |" not in text] == []
