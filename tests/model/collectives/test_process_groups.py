from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.collectives.process_groups import (
    ProcessGroup,
    configured,
    host_of,
    ranks_of,
    ranks_text,
    read_back,
    resolved,
    whole_list,
    world_size,
)
from tests import drawn


@given(ranks=st.lists(st.integers(0, 500), min_size=1))
def test_ranks_survive_being_written(ranks: list[int]) -> None:
    assert ranks_of(ranks_text(ranks)) == sorted(set(ranks))


def test_ranks_are_short() -> None:
    assert ranks_text(range(10_000)) == "0-9999"
    assert ranks_text(range(0, 64, 8)) == "0-56/8"
    assert ranks_text([0, 8]) == "0,8"
    assert ranks_text([3, 1, 0, 2, 7]) == "0-3,7"


def test_long_keys_still_differ() -> None:
    ranks = [rank * rank for rank in range(200)]
    one, other = (ProcessGroup("0", "dp", 200, ranks_text(each)) for each in (ranks, [*ranks[:-1], 10**6]))
    assert one.key != other.key
    assert len(one.key or "") < 160


def test_keys() -> None:
    assert ProcessGroup("0", "default_pg", 8, "0-7").key == "0 default_pg [0-7]"
    assert ProcessGroup("5", None, 8).key == "5 (8 ranks)"
    assert ProcessGroup().key is None
    assert read_back(ProcessGroup("a\nb", None, 2, "0-1").written()) == ProcessGroup("a\nb", None, 2, "0-1")


def test_cut_lists_are_completed() -> None:
    known = [ProcessGroup("0", "default_pg", 64, "0-63"), ProcessGroup("1", "dp", 32, "0-62/2")]
    assert resolved(ProcessGroup("1", "dp", 32), known, -1, -1).ranks == "0-62/2"
    assert resolved(ProcessGroup("1", "dp", 16), known, -1, -1).ranks is None  # another group of that name
    assert resolved(ProcessGroup("7", None, 4), known, 2, 8).ranks == "2-26/8"
    assert resolved(ProcessGroup("7", None, 4), known, 2, -1).ranks is None
    assert whole_list("[0, 1]", 2) == "0-1"
    assert whole_list("[0, 1, ...29 , ...]", 64) is None
    assert whole_list("[]", 1) is None


def test_facts_of_the_job(tmp_path: Path) -> None:
    config = [
        {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]},
        {"pg_name": "1", "pg_desc": "on demand", "pg_size": 2, "ranks": "[0, 1]"},
        {"pg_name": 2, "pg_size": 3, "ranks": [0, "x"]},
        "no group",
    ]
    info = {"rank": 0, "world_size": 2, "pg_config": config}
    trace = drawn.job(tmp_path, drawn.op("a", 0, 1), distributedInfo=info, host_name="node7").trace()
    assert configured(trace) == [
        ProcessGroup("0", "default_pg", 2, "0-1"),
        ProcessGroup("1", "on demand", 2, "0-1"),
        ProcessGroup("2", None, 3, None),
    ]
    assert (world_size(trace), host_of(trace)) == (2, "node7")


def test_without_facts(tmp_path: Path) -> None:
    trace = drawn.job(tmp_path, drawn.op("a", 0, 1), distributedInfo=[1], host_name=None).trace()
    assert (configured(trace), world_size(trace), host_of(trace)) == ([], None, None)
