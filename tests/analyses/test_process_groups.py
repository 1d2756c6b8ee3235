from __future__ import annotations

from pathlib import Path

from kinetoscope import process_groups, read
from tests import drawn
from tests.analyses.test_collectives import NCCL, args, job_of
from tests.catalog.samples import SHARED, required
from tests.notes import codes
from tests.simulator import Model, simulate


def test_used_and_unused_groups(tmp_path: Path) -> None:
    config = [
        {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 4, "ranks": [0, 1, 2, 3]},
        {"pg_name": "1", "pg_desc": "mesh_dp", "pg_size": 2, "ranks": [0, 2]},
    ]
    events = [drawn.kernel(NCCL, 0, 1000, 1, **args("allreduce", 10, 1)),
              drawn.kernel(NCCL, 2000, 500, 2, **args("barrier", 0, 2))]  # fmt: skip
    result = process_groups(drawn.job(tmp_path, *events, distributedInfo={"rank": 0, "pg_config": config}))
    used, unused = result.frame.to_dicts()
    assert (used["name"], used["description"], used["size"], used["ranks"]) == ("0", "default_pg", 4, "0-3")
    assert (used["kinds"], used["calls"], used["bytes"], used["duration"]) == ("all_reduce, barrier", 2, 40, 1500)
    assert (used["waiting"], used["transfer"], used["ranks_here"]) == (None, None, 1)
    assert (unused["process_group"], unused["calls"], unused["duration"]) == ("1 mesh_dp [0,2]", 0, 0)


def test_groups_of_one_name_are_told_apart(tmp_path: Path) -> None:
    simulate(Model(ranks=8, tensor=2, names="purpose", dialect="2026", seed=2), tmp_path)
    frame = process_groups(read(tmp_path)).frame
    tensor = frame.filter(ranks="0-1", size=2)
    assert frame.filter(name=tensor["name"][0], size=2)["ranks"].sort().to_list() == ["0-1", "2-3", "4-5", "6-7"]
    assert set(frame.filter(size=2)["ranks_here"]) == {2}


def test_sums_are_those_of_all_calls(tmp_path: Path) -> None:
    ranks = [[drawn.kernel(NCCL, 100 * rank, 1000 - 100 * rank, 1, **args("allreduce", 10, 1, ranks=2))]
             for rank in range(2)]  # fmt: skip
    [row] = process_groups(job_of(tmp_path, ranks)).frame.to_dicts()
    assert (row["calls"], row["duration"], row["transfer"], row["waiting"]) == (1, 1900, 1800, 100)


def test_what_gloo_does_not_record_is_inferred() -> None:
    frame = process_groups(read(required(SHARED / "torch_2_13_cpu") / "ddp4_*")).frame
    calls = dict(frame.select("process_group", "calls").iter_rows())
    assert calls == {"0 default_pg [0-3]": 38, "1 half_pg [0-1]": 1, None: 1}


def test_neither_calls_nor_groups(tmp_path: Path) -> None:
    result = process_groups(drawn.job(tmp_path, drawn.op("aten::mm", 0, 10)))
    assert len(result) == 0
    assert codes(result.notes) == ["NO_GROUPS"]
