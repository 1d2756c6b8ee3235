from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from kinetoscope import Selection, rank_balance, read
from kinetoscope.analyses.rank_balance import PARTS
from tests import drawn
from tests.catalog.samples import BUNDLED

GROUP: dict[str, Any] = {
    "Process Group Name": "0",
    "Process Group Ranks": "[0, 1]",
    "Group size": 2,
    "Collective name": "allreduce",
}


def job_of_two(folder: Path, *, alone: bool = False) -> Path:
    """Rank 1 arrives at 60; rank 0 at 20, computing until 30 and from 50 to 55; both leave at 80.

    These 15 would have hidden transfer, had rank 1 been there.
    """

    def meeting(start: int) -> drawn.Event:
        return drawn.kernel("ncclDevKernel_AllReduce_Sum_f32", start, 80 - start, 9, stream=9, **GROUP)

    step = drawn.annotation("ProfilerStep#3", 0, 100)
    copy = drawn.kernel("Memcpy DtoH", 80, 5, 8, category="gpu_memcpy")
    first = [drawn.kernel("gemm", 0, 30, 1), drawn.kernel("gemm", 50, 5, 2), meeting(20), copy]
    second = [drawn.kernel("gemm", 0, 60, 1), meeting(60), drawn.kernel("gemm", 70, 20, 3)]
    for rank, events in enumerate([first] if alone else [first, second]):
        facts = {"distributedInfo": {"rank": rank, "world_size": 2}, "host_name": "node7"}
        drawn.written(folder / f"rank{rank}.pt.trace.json", step, *events, **facts)
    return folder


def test_each_instant_of_a_step_is_charged_once(tmp_path: Path) -> None:
    frame = rank_balance(read(job_of_two(tmp_path), jobs=1)).frame
    assert frame.select("rank", "step", "duration", *PARTS, "exposed_communication", "ratio").rows() == [
        (0, 3, 100, 20, 15, 20 - 15, 25 + 15, 5, 15, 45, 35 / 60),
        (1, 3, 100, 70, 10, 10, 0, 0, 10, 10, 80 / 20),
    ]


def test_a_range_of_time_clips(tmp_path: Path) -> None:
    frame = rank_balance(read(job_of_two(tmp_path), jobs=1), select=Selection(time=(40, 70))).frame
    assert frame.select("rank", "duration", *PARTS).rows() == [
        (0, 30, 0, 5, 10 - 5, 15 + 5, 0, 0),
        (1, 30, 20, 0, 10, 0, 0, 0),
    ]


def test_of_one_rank_waiting_is_not_known(tmp_path: Path) -> None:
    result = rank_balance(read(job_of_two(tmp_path, alone=True), jobs=1))
    assert result.frame.select("exposed_transfer", "exposed_waiting", "exposed_communication").rows() == [
        (None, None, 45)
    ]
    assert result.notes[-1] == "No collective of rank 0 was matched: its waiting is unknown."


@pytest.mark.parametrize("name", ["dlrm_ddp_v100_8rank", "sampled_2rank", "torch_2_13_cpu/ddp4*", "ddp2"])
def test_the_parts_sum_to_the_step(shared_traces: Path, name: str) -> None:
    path = BUNDLED / "ddp2" / "rank*" if name == "ddp2" else f"{shared_traces}/{name}"
    frame = rank_balance(read(str(path), jobs=2)).frame
    assert len(frame)
    told = name != "sampled_2rank"  # 2 of 128 ranks, which wait for the other 126
    assert frame.select(pl.col("exposed_transfer", "exposed_waiting").is_not_null().all()).row(0) == (told, told)
    apart = {"exposed_transfer", "exposed_waiting"}
    parts = PARTS if told else ["exposed_communication", *(part for part in PARTS if part not in apart)]
    assert frame.select((pl.sum_horizontal(parts) == pl.col("duration")).all()).item()
    assert frame.select(pl.min_horizontal(parts).min()).item() >= 0
