"""The recipe for Slurm is followed with two ranks, which a stand-in for srun starts as Slurm does."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kinetoscope.record.always_on import mailbox
from tests.docs.test_guides import ROOT, blocks
from tests.record.processes import ended_here, environment
from tests.record.programs import kinetoscope, sidecars, until

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SRUN = """
import os, signal, subprocess, sys
tasks = []
for rank in range(int(os.environ["SLURM_NTASKS"])):
    given = {**os.environ, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank), "SLURM_NODEID": "0"}
    tasks.append(subprocess.Popen(sys.argv[1:], env=given))
signal.signal(signal.SIGTERM, lambda number, _: [each.send_signal(number) for each in tasks])
sys.exit(128 - min(0, *[each.wait() for each in tasks]) if any(each.wait() for each in tasks) else 0)
"""


def started(folder: Path, given: dict[str, str], *options: str) -> subprocess.Popen[str]:
    ((_, program),) = blocks(ROOT / "docs/recipes/slurm.md")
    (folder / "train.py").write_text(program)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    slurm = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    srun = [sys.executable, "-c", SRUN, sys.executable, "train.py"]
    return subprocess.Popen(
        kinetoscope("record", "-o", folder / "7", *options, "--", *srun),
        env=environment(CUDA_VISIBLE_DEVICES="", **slurm, **given),
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_all_ranks_are_recorded_and_known(tmp_path: Path) -> None:
    with ended_here() as mark:
        _, said = (job := started(tmp_path, dict(mark))).communicate(timeout=300)
    assert job.returncode == 0, said
    assert f"2 traces in {tmp_path / '7'};" in said
    assert [(each["rank"], each["world"]) for each in sidecars(tmp_path / "7")] == [(0, 2), (1, 2)]


def test_the_trace_survives_the_limit(tmp_path: Path) -> None:
    with ended_here() as mark:
        job = started(tmp_path, {**mark, "STEPS": "10000000"}, "--active", "100000")
        until(lambda: len(mailbox.read_all(tmp_path / "7" / ".kinetoscope" / "open")) == 2)
        job.send_signal(signal.SIGTERM)
        _, said = job.communicate(timeout=300)
    assert job.returncode == 128 + signal.SIGTERM, said
    assert f"2 traces in {tmp_path / '7'};" in said
    assert "lost" not in said
    assert [each["truncated"] for each in sidecars(tmp_path / "7")] == ["SIGTERM", "SIGTERM"]
