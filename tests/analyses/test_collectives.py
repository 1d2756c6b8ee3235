from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import Selection, collectives, read
from kinetoscope.analyses.collectives import RESULT, By, _finished
from kinetoscope.model.answer import Partial
from kinetoscope.model.collectives.attributes import BUS_FACTORS, POINT_TO_POINT
from kinetoscope.model.job import Job
from tests import drawn
from tests.catalog.samples import BUNDLED, SHARED, required
from tests.conftest import few_examples
from tests.model.matching.test_match import calls_of
from tests.notes import codes
from tests.simulator import Fault, Model, simulate

NCCL = "ncclDevKernel_AllReduce"
MICROSECOND = 1000


def args(kind: str, elements: int, seq: int, *, ranks: int = 4) -> dict[str, Any]:
    return {
        "Collective name": kind, "In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float",
        "Process Group Name": "0", "Process Group Description": "default_pg",
        "Process Group Ranks": str(list(range(ranks))), "Group size": ranks, "Seq": seq,
    }  # fmt: skip


def job_of(folder: Path, ranks: list[list[drawn.Event]], **top: object) -> Job:
    for rank, events in enumerate(ranks):
        info = {"rank": rank, "world_size": len(ranks)}
        drawn.written(folder / f"rank{rank}.json", *events, distributedInfo=info, **top)
    return read(folder, jobs=1)


def test_transfer_waiting_and_bandwidth(tmp_path: Path) -> None:
    arrivals = (0, 30, 50, 60)  # µs; all leave at 100
    ranks = [
        [
            drawn.kernel(NCCL, 1000 * at, 1000 * (100 - at), 1, stream=8, **args("allreduce", 1000, 1)),
            drawn.kernel("gemm", 80_000, 10_000, 2),
        ]
        for at in arrivals
    ]
    result = collectives(job_of(tmp_path, ranks))
    [row] = result.frame.to_dicts()
    expected = {
        "rank": None, "process_group": "0 default_pg [0-3]", "kind": "all_reduce", "dtype": "float32", "bytes": 4000,
        "call": None, "start": 0, "calls": 1, "matched": 1, "ranks": 4, "duration": 260_000, "mean_duration": 65_000,
        "transfer": 160_000, "waiting": 100_000, "exposed": 220_000,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert row["algorithm_bandwidth"] == pytest.approx(4000 / 40e-6)
    assert row["bus_bandwidth"] == pytest.approx(4000 / 40e-6 * 2 * 3 / 4)
    assert row["waiting_share"] == pytest.approx(100 / 260)
    assert result.notes == ()
    by_rank = collectives(job_of(tmp_path, ranks), by="rank").frame
    assert by_rank["waiting"].to_list() == [60_000, 30_000, 10_000, 0]


@pytest.mark.parametrize("by", ["size", "kind", "rank", "call"])
def test_bus_bandwidth_is_held_against_the_links_of_the_device(tmp_path: Path, by: By) -> None:
    ranks = [[drawn.kernel(NCCL, 0, 1_000_000, 1, device=rank, **args("allreduce", 10**8, 1))] for rank in range(4)]
    devices = [{"id": number, "name": "NVIDIA H100 80GB HBM3"} for number in range(8)]
    row = collectives(job_of(tmp_path, ranks, deviceProperties=devices), by=by).frame.to_dicts()[0]
    assert row["link_bandwidth"] == 450e9  # NVLink 4 of an H100 SXM: 900 GB/s in both directions
    assert row["efficiency"] == pytest.approx(1.5 * 4e8 / 1e-3 / 450e9)
    on_two_machines = collectives(job_of(tmp_path, ranks, deviceProperties=devices[:2]), by=by).frame.to_dicts()[0]
    assert on_two_machines["bus_bandwidth"] == row["bus_bandwidth"]
    assert (on_two_machines["link_bandwidth"], on_two_machines["efficiency"]) == (None, None)


@pytest.mark.parametrize("kind", sorted(set(BUS_FACTORS) - set(POINT_TO_POINT)))
def test_bus_bandwidth_is_that_of_nccl_tests(kind: str, tmp_path: Path) -> None:
    ranks = [[drawn.kernel("nccl", 0, 1_000_000, 1, **args(kind, 10**6, 1))] for _ in range(4)]
    [row] = collectives(job_of(tmp_path, ranks)).frame.to_dicts()
    factor = {"all_reduce": 1.5, "broadcast": 1, "reduce": 1}.get(kind, 0.75)
    assert row["bus_bandwidth"] / row["algorithm_bandwidth"] == pytest.approx(factor)
    assert row["algorithm_bandwidth"] == 4e9  # 4 MB in 1 ms, in decimal units


def test_point_to_point(tmp_path: Path) -> None:
    sent = {**args("send", 250, 9, ranks=2), "Dst Rank": 1}
    received = {**args("recv", 250, 1, ranks=2), "Src Rank": 0}
    ranks = [[drawn.kernel("nccl", 0, 3000, 1, **sent)], [drawn.kernel("nccl", 1000, 2000, 1, **received)]]
    [row] = collectives(job_of(tmp_path, ranks)).frame.to_dicts()
    assert (row["kind"], row["calls"], row["waiting"], row["bytes"]) == ("send_recv", 1, 1000, 1000)
    assert row["bus_bandwidth"] == row["algorithm_bandwidth"] == pytest.approx(1000 / 2e-6)


def test_one_rank_cannot_tell_waiting(tmp_path: Path) -> None:
    result = collectives(drawn.job(tmp_path, drawn.kernel(NCCL, 0, 1000, 1, **args("allreduce", 10, 1))))
    [row] = result.frame.to_dicts()
    assert (row["calls"], row["matched"], row["duration"]) == (1, 0, 1000)
    for name in ("transfer", "waiting", "waiting_share", "algorithm_bandwidth", "bus_bandwidth"):
        assert row[name] is None
    assert result.notes[0].startswith("Only rank 0 was read")


def test_nothing_recorded(tmp_path: Path) -> None:
    result = collectives(drawn.job(tmp_path, drawn.op("aten::mm", 0, 10)))
    assert (len(result), result.notes) == (0, ("No collectives were recorded in what was selected.",))


def test_calls_without_recorded_work_are_said(tmp_path: Path) -> None:
    result = collectives(drawn.job(tmp_path, drawn.op("record_param_comms", 0, 10, **args("allreduce", 10, 1))))
    assert any("1 collective was called, but its work" in note for note in result.notes)


def test_a_group_of_which_ranks_are_missing_is_said(tmp_path: Path) -> None:
    ranks = [[drawn.kernel(NCCL, 0, 1000, 1, **args("allreduce", 10, 1))] for _ in range(2)]
    result = collectives(job_of(tmp_path, ranks))
    assert "PARTIAL_COLLECTIVES" in codes(result.notes)


def test_rows_by_kind_and_by_call(tmp_path: Path) -> None:
    ranks = [
        [drawn.kernel(NCCL, 10_000 * seq, 5000, seq, **args("allreduce", 10 * seq, seq, ranks=2)) for seq in (1, 2)]
        for _ in range(2)
    ]
    job = job_of(tmp_path, ranks)
    [row] = collectives(job, by="kind").frame.to_dicts()
    assert (row["calls"], row["bytes"], row["dtype"], row["transfer"]) == (2, None, "float32", 20_000)
    each = collectives(job, by="call").frame
    assert each["call"].to_list() == [0, 1]
    assert each["start"].to_list() == [0, 10_000]
    assert len(collectives(job, select=Selection(time=(0, 5000))).frame) == 1


def test_all_of_dlrm() -> None:
    job = read(required(SHARED / "dlrm_ddp_v100_8rank"))
    frame = collectives(job).frame
    assert (frame["calls"].sum(), frame["matched"].sum()) == (8, 8)
    assert frame["process_group"].unique().to_list() == ["[0-7]"]
    whole = calls_of(SHARED / "dlrm_ddp_v100_8rank")
    for by in ("size", "kind", "rank", "call"):
        each = collectives(job, by=by).frame
        assert each["duration"].sum() == (whole["end"] - whole["start"]).sum()
        assert (each["transfer"] + each["waiting"] == each["duration"]).all()
        assert each["exposed"].sum() == whole["exposed"].sum()


def test_bandwidths_of_a_simulated_job_are_exact(tmp_path: Path) -> None:
    truth = simulate(Model(ranks=4, style="fsdp", dialect="2025", spread=0, fault=Fault("slow_link", 1, 1.0)), tmp_path)
    frame = collectives(read(tmp_path)).frame
    real = truth.collectives.group_by("match").agg(
        pl.col("bytes", "kind").first(), (pl.col("end_recorded") - pl.col("start_recorded")).min().alias("time")
    )
    for row in frame.iter_rows(named=True):
        of_row = real.filter((pl.col("kind") == row["kind"]) & (pl.col("bytes") == row["bytes"]))
        assert row["calls"] == len(of_row)
        rate = row["bytes"] * len(of_row) / of_row["time"].sum() * 1e9
        assert row["algorithm_bandwidth"] == pytest.approx(rate)


@few_examples
@given(seed=st.integers(0, 10**6), by=st.sampled_from(["size", "kind", "rank", "call"]))
def test_the_order_of_rows_changes_nothing(seed: int, by: By) -> None:
    calls = calls_of(BUNDLED / "ddp2")
    answer, again = (_finished(each, by=by) for each in (calls, calls.sample(fraction=1, shuffle=True, seed=seed)))
    assert isinstance(answer, Partial)
    assert RESULT.conform(answer.frame).equals(RESULT.conform(again.frame))
    assert answer.notes == again.notes
