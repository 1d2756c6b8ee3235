"""`kinetoscope calibrate`: what it measures of this host is kept, and taken for its traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope import peaks, read
from kinetoscope.model.device.own_peaks import FILE_VARIABLE
from tests.cli.run import MLP, run


@pytest.mark.torch
def test_the_host_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "settings" / "peaks.toml"
    done = run("calibrate", "--device", "cpu", "--seconds", "0.02", KINETOSCOPE_PEAKS=str(file))
    assert done.returncode == 0, done.stderr
    assert f"Kept in {file}" in done.stdout
    monkeypatch.setenv(FILE_VARIABLE, str(file))
    result = peaks(read(MLP))
    rows = {row["name"]: row for row in result.frame.to_dicts()}
    assert {"fp64", "fp32", "bf16", "memory"} <= rows.keys()
    assert rows["fp32"]["attainable"] > 1e8
    assert rows["memory"]["attainable_bandwidth"] > 1e8
    assert rows["fp32"]["used"] == "measured"
    assert "measured 20" in result.notes[0]
    assert "threads of" in result.notes[0]


@pytest.mark.torch
def test_a_device_that_is_not_there_measures_nothing(tmp_path: Path) -> None:
    done = run("calibrate", "--device", "xpu:7", "-o", tmp_path / "peaks.toml")
    assert done.returncode == 1
    assert done.stderr.startswith("kinetoscope: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_arguments_that_are_none(tmp_path: Path) -> None:
    for wrong in (["--device", "tpu"], ["--seconds", "0"], ["--seconds", "x"]):
        done = run("calibrate", *wrong)
        assert done.returncode == 2
        assert wrong[1] in done.stderr
    done = run("calibrate", KINETOSCOPE_PEAKS="off")
    assert done.returncode == 2
    assert "-o FILE" in done.stderr
