"""What the recorder notes of a process's cores, threads and workers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kinetoscope.record.output.run_info import cpu, usable_cores


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", None), ("50000 100000", 1), ("9900000 100000", None), ("", None), ("1 0", None)]
)
def test_a_container_may_have_fewer_cores(quota: str, cores: int | None, tmp_path: Path) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(quota)
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert usable_cores(file) == (cores or allowed)
    assert usable_cores(tmp_path / "none") == allowed


def test_ranks_on_the_machine_are_those_of_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert cpu(8)["local_ranks"] == 4
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    assert "local_ranks" not in cpu(8)
    assert cpu(1)["local_ranks"] == 1
