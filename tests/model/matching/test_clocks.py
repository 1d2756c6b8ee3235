from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from kinetoscope.model.matching.clocks import aligned, clocks
from kinetoscope.model.matching.match import match
from tests.catalog.samples import SHARED, required
from tests.model.matching.test_match import calls_of, drawn
from tests.simulator import Model, simulate


@pytest.mark.parametrize("model", [
    Model(ranks=8, style="fsdp", clock_offset=10_000_000, clock_drift=20, dialect="2026", steps=6, seed=5),
    Model(ranks=8, tensor=2, clock_offset=3_000_000, clock_drift=50, dialect="2026", ranks_per_host=2, steps=6, seed=6),
])  # fmt: skip
def test_clocks_of_hosts_are_recovered(model: Model, tmp_path: Path) -> None:
    truth = simulate(model, tmp_path)
    calls = match(calls_of(tmp_path)).frame
    found = clocks(calls)
    both = found.frame.join(truth.clocks, on="host", suffix="_true")
    assert len(both) == len(found.frame) > 1
    assert set(both["component"]) == {0}
    for instant in calls.select(pl.col("start").min(), pl.col("end").max()).row(0):
        true = both["offset_true"] + both["rate_true"] * (instant - truth.origin)
        ours = both["offset"] + both["rate"] * (instant - found.origin)
        assert ((ours - true) - (ours - true)[0]).abs().max() < 5_000
    assert 0 < found.spread < 5_000
    assert "Clocks were aligned" in found.notes[0]
    ends = aligned(calls, found).drop_nulls("match")
    spreads = ends.group_by("match").agg(pl.col("end").max() - pl.col("end").min())["end"]
    assert (spreads < 10_000).all()


def test_ranks_of_one_host_share_a_clock() -> None:
    calls = match(calls_of(required(SHARED / "torch_2_13_cpu") / "ddp4_*")).frame
    found = clocks(calls)
    assert found.frame["host"].to_list() == ["vm"]
    assert found.frame["ranks"].to_list() == ["0-3"]
    assert aligned(calls, found).equals(calls)


def test_machines_without_a_name_are_not_moved_by_noise() -> None:
    found = clocks(match(calls_of(required(SHARED / "dlrm_ddp_v100_8rank"))).frame)
    assert found.frame["host"].to_list() == [f"rank {rank}" for rank in range(8)]
    assert set(found.frame["offset"]) == {0}
    assert found.spread < 7_000


def test_parts_that_no_collective_joins_are_said_and_not_aligned() -> None:
    calls = [
        {"rank": rank, "host": f"node{rank}", "start": 1000 * step + 300 * (rank % 2) + 10**9 * (rank > 1),
         "seq": step, "group": f"g{rank // 2}", "group_name": f"g{rank // 2}"}
        for rank in range(4) for step in range(4)
    ]  # fmt: skip
    found = clocks(match(drawn(calls)).frame)
    assert found.frame["component"].to_list() == [0, 0, 1, 1]
    assert found.frame["offset"].to_list() == [0, 300, 0, 300]
    assert found.notes[-1].startswith("No collective joins all clocks (node2, node3)")


def test_broadcasts_tell_nothing_of_clocks() -> None:
    calls = [
        {"rank": rank, "host": f"node{rank}", "start": 1000 * step + 300 * rank, "seq": step, "kind": "broadcast"}
        for rank in range(2) for step in range(4)
    ]  # fmt: skip
    found = clocks(match(drawn(calls)).frame)
    assert found.frame["component"].to_list() == [0, 1]
    assert found.frame["offset"].to_list() == [0, 0]


def test_without_calls() -> None:
    found = clocks(match(drawn([])).frame)
    assert (found.frame.height, found.spread, found.notes) == (0, 0, ())
