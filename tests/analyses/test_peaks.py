"""The table of peaks."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from kinetoscope import peaks, read
from kinetoscope.cli import main
from kinetoscope.model.device.own_peaks import FILE_VARIABLE, keep_measured
from tests import drawn

L4 = {"id": 0, "name": "NVIDIA L4", "totalGlobalMem": 23_600_000_000, "computeMajor": 8, "numSms": 58}


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "peaks.toml"
    keep_measured(file, "NVIDIA L4", {"bf16": 9.68e13, "memory": 2.7e11}, "today")
    monkeypatch.setenv(FILE_VARIABLE, str(file))
    drawn.written(tmp_path / "trace.json", drawn.kernel("k", 0, 10, 1), deviceProperties=[L4])
    return tmp_path / "trace.json"


def test_datasheet_and_attainable_stand_side_by_side(trace: Path) -> None:
    result = peaks(read(trace, peak="cache=40MB"))
    rows = {row["name"]: row for row in result.frame.to_dicts()}
    assert {row["product"] for row in rows.values()} == {"L4"}
    bf16 = rows["bf16"]
    assert (bf16["peak"], bf16["attainable"], bf16["attainable_share"]) == (121e12, 9.68e13, pytest.approx(0.8))
    memory = rows["memory"]
    assert (memory["peak_bandwidth"], memory["attainable_bandwidth"]) == (300e9, 2.7e11)
    assert (memory["peak"], memory["used"], rows["cache"]["size"]) == (None, "datasheet", 40_000_000)
    assert (rows["cache"]["used"], rows["cache"]["source"]) == ("given", None)
    assert "link" not in rows
    [note] = result.notes
    assert note.startswith("Peaks are the dense ones of L4: NVIDIA L4 datasheet, https://")
    assert note.endswith("; given by hand: cache; attainable of them are bf16 80%, memory 90% (measured today).")


def test_the_command_takes_attainable_peaks(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "peaks", str(trace), "--peak", "attainable", "--peak", "fp8=200T", "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    used = {row["name"]: row["used"] for row in rows}
    assert (used["bf16"], used["fp8"], used["fp16"]) == ("measured", "given", "datasheet")
    assert main(["show", "peaks", str(trace), "--peak", "bf61=3"]) == 2
    assert "there is no 'bf61'" in capsys.readouterr().err


def test_an_unknown_device_has_no_row(tmp_path: Path) -> None:
    result = peaks(drawn.job(tmp_path, drawn.kernel("k", 0, 10, 1), deviceProperties=[{"id": 0, "name": "ABC 1"}]))
    assert len(result.frame) == 0
    assert result.notes == ("Shares of the peak are unknown: no peak is known of ABC 1 (--peak gives it by hand).",)
