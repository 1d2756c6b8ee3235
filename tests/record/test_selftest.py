"""`kinetoscope demo`, and `kinetoscope selftest`."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.record.processes import SOURCE, environment, run
from tests.record.programs import kinetoscope, sidecars, traces

pytestmark = pytest.mark.torch


def test_the_demo_records_here_and_finds_the_mistake(tmp_path: Path) -> None:
    done = run(kinetoscope("demo"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "DATA001" in done.stdout
    assert len(traces(tmp_path / "runs" / "demo")) == 1
    assert [each["run"] for each in sidecars(tmp_path / "runs" / "demo")] == ["demo"]


def test_the_demo_falls_back_where_nothing_can_be_recorded(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no')\n")
    done = run(
        [kinetoscope("demo")[0], "-c", "import sys; from kinetoscope.cli import main; sys.exit(main(['demo']))"],
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "training.pt.trace.json.gz" in done.stdout


def test_what_can_be_recorded_and_read_here(tmp_path: Path) -> None:
    done = run(kinetoscope("selftest"), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    said = {line.split()[1]: line for line in done.stdout.splitlines()[2:]}
    recorded = ("trace", "steps", "operators", "shapes", "memory", "stacks", "threads")
    assert all(said[each].startswith("  ✓") for each in (*recorded, "overhead", "programs", "reading"))
    assert re.search(r"3 steps of [\d.]+\s\S+ \(median\)", said["reading"])
    assert list(tmp_path.iterdir()) == []


def test_without_torch_it_says_so_and_fails(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\")\n")
    done = run(kinetoscope("selftest"), cwd=tmp_path, env=environment(PYTHONPATH=f"{tmp_path}{os.pathsep}{SOURCE}"))
    assert done.returncode == 1
    assert done.stderr.startswith("kinetoscope: torch is not installed for this Python")
