"""A job that is killed leaves its history, but for the last second."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.history.killed import killed


@pytest.mark.torch
def test_all_but_the_last_second_is_there(tmp_path: Path) -> None:
    job = killed(tmp_path, after=3.5, pause=0.002, slack=2.0)
    assert job.problem == ""
    assert job.kept > 1
