"""The benchmark that holds floors against hardware runs here, on the host."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.run import ROOT, environment


@pytest.mark.torch
def test_an_operator_is_held_against_its_floor() -> None:
    command = [sys.executable, "-m", "benchmarks.floors", "--small", "--filter", "add"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=environment(), check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    rows = {line[2:30].strip(): line[30:].split() for line in done.stdout.splitlines() if line.endswith("%")}
    assert set(rows) == {"addmm", "add", "add, broadcast"}
    for time, _, floor, _, _, covered in rows.values():
        assert float(time) > 0
        assert float(floor) > 0
        assert covered == "100%"
