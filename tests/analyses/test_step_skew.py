from __future__ import annotations

from pathlib import Path

from kinetoscope import Selection, read, step_skew
from tests import drawn
from tests.simulator import Model, simulate
from tests.simulator.model import Fault


def test_steps_of_one_machine_are_compared_as_they_are(tmp_path: Path) -> None:
    for rank, starts in enumerate([(1_000, 11_000), (1_400, 11_100), (1_500, 11_900)]):
        steps = [drawn.annotation(f"ProfilerStep#{n}", start, 9_000 + rank) for n, start in enumerate(starts, 4)]
        facts = {"distributedInfo": {"rank": rank, "world_size": 3}, "host_name": "node7"}
        drawn.written(tmp_path / f"rank{rank}.pt.trace.json", *steps, **facts)
    job = read(tmp_path, jobs=1)
    frame = step_skew(job).frame
    assert frame.rows() == [
        (0, 4, 0, 0, -400, 9_000, 0, 3),
        (0, 5, 10_000, 0, -100, 9_000, 0, 3),
        (1, 4, 400, 400, 0, 9_001, 401, 3),
        (1, 5, 10_100, 100, 0, 9_001, 101, 3),
        (2, 4, 500, 500, 100, 9_002, 502, 3),
        (2, 5, 10_900, 900, 800, 9_002, 902, 3),
    ]
    assert step_skew(job, select=Selection(steps=(5,))).frame["skew"].to_list() == [0, 100, 900]


def test_clocks_of_several_machines_are_set_first(tmp_path: Path) -> None:
    """Clocks are wrong by up to 10 ms, steps take some 5 ms and begin together."""
    simulate(Model(ranks=8, steps=6, clock_offset=10_000_000, fault=Fault(), seed=2), tmp_path)
    result = step_skew(read(tmp_path, jobs=2))
    later = result.frame.filter(result.frame["step"] > result.frame["step"].min())
    assert later["skew"].max() <= 50_000  # type: ignore[operator]
    assert later["ranks"].unique().to_list() == [8]
