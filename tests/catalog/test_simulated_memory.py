"""Simulated jobs of which one rank leaks: traces of all ranks, and the snapshots of their allocators beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope import Job, advise, memory_growth, read, stragglers
from tests.simulator import Model, simulate
from tests.simulator.memory import Plant, snapshots
from tests.snapshots.process import Process
from tests.snapshots.stacks import python

LOST = 3 << 20
PIPELINE = Model(ranks=4, pipeline=4, steps=8, clock_offset=3_000_000)
"""Four stages; the clocks of hosts are wrong by up to 3 ms."""


def keeps_outputs(process: Process, step: int) -> None:
    with process.at(python("log_outputs", "train.py", 60)):
        process.alloc("add", LOST)


def pipeline(folder: Path, plants: dict[int, Plant]) -> Job:
    simulate(PIPELINE, folder)
    snapshots(PIPELINE, folder, plants)
    return read(folder, jobs=1)


@pytest.mark.slow
def test_a_leak_on_one_stage_is_of_that_rank_and_makes_no_straggler(tmp_path: Path) -> None:
    job = pipeline(tmp_path, {2: keeps_outputs})
    growth = memory_growth(job).frame
    devices = growth.filter(growth["kind"] == "device")
    assert devices.select("rank", "verdict", "per_step").rows() == [
        (0, "no growth", 0.0),
        (1, "no growth", 0.0),
        (2, "leak", LOST),
        (3, "no growth", 0.0),
    ]
    assert growth.filter(growth["kind"] != "device").select("rank", "name").rows() == [(2, "train.py:60")]
    assert not stragglers(job).frame["straggler"].any()
    (finding,) = (each for each in advise(job).findings if each.code == "MEMORY005")
    assert finding.ranks == (2,)


@pytest.mark.slow
def test_the_same_pipeline_without_the_leak_does_not_grow(tmp_path: Path) -> None:
    job = pipeline(tmp_path, {})
    assert set(memory_growth(job).frame["verdict"]) == {"no growth"}
    assert "MEMORY005" not in {each.code for each in advise(job).findings}
