"""`kinetoscope demo`, and `kinetoscope doctor --recorder`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.record.processes import run
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


def test_the_recorder_says_what_it_can(tmp_path: Path) -> None:
    done = run(kinetoscope("doctor", "--recorder"), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    said = {line.split()[1]: line.split()[0] for line in done.stdout.splitlines()[2:]}
    assert {"trace", "steps", "operators", "shapes", "memory", "stacks", "threads"} <= said.keys()
    assert all(said[each] == "✓" for each in ("trace", "steps", "operators", "shapes", "memory", "stacks", "threads"))
    assert list(tmp_path.iterdir()) == []
