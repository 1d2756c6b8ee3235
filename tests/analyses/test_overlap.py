from __future__ import annotations

from pathlib import Path
from typing import Any

from kinetoscope import Selection, overlap
from tests import drawn

NCCL = "ncclDevKernel_AllReduce"


def test_it_is_the_share_of_communication_that_computation_covers(tmp_path: Path) -> None:
    events = [
        drawn.kernel("gemm", 0, 10, 1),
        drawn.kernel("gemm", 14, 2, 2),
        drawn.kernel(NCCL, 4, 20, 3, stream=8),
        drawn.kernel("multimem_all_reduce_kernel", 20, 8, 4, stream=9),  # HTA takes it for computation
        drawn.kernel("Memcpy DtoD", 25, 50, 5, stream=10, category="gpu_memcpy"),
        drawn.kernel("gemm", 100, 10, 6, device=1),
    ]
    result = overlap(drawn.job(tmp_path, *events))
    assert result.frame.rows() == [(0, 0, None, 24, 12, 8, 16, 8 / 24), (0, 1, None, 0, 10, 0, 0, None)]
    assert result.notes == ("No communication ran on device 1: there is nothing to overlap.",)


def test_a_range_of_time_clips(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, drawn.kernel("gemm", 0, 10, 1), drawn.kernel(NCCL, 0, 20, 2, stream=8))
    [row] = overlap(job, select=Selection(time=(5, 15))).frame.rows()
    assert row == (0, 0, None, 10, 5, 5, 5, 0.5)


def test_by_group_each_process_group_is_told_apart(tmp_path: Path) -> None:
    def meeting(start: int, group: str, stream: int) -> drawn.Event:
        args: dict[str, Any] = {"Process Group Name": group, "Group size": 2}
        return drawn.kernel(NCCL, start, 20, start + 1, stream=stream, **args)

    job = drawn.job(tmp_path, drawn.kernel("gemm", 0, 30, 99), meeting(0, "1", 8), meeting(10, "2", 9))
    frame = overlap(job, by="group").frame
    assert [name.split()[0] for name in frame["process_group"]] == ["1", "2"]
    assert frame.drop("process_group").rows() == [(0, 0, 20, 30, 20, 0, 1.0), (0, 0, 20, 30, 20, 0, 1.0)]
    clipped = overlap(job, by="group", select=Selection(time=(5, 40))).frame
    assert clipped.drop("process_group").rows() == [(0, 0, 20, 25, 20, 0, 1.0)]  # the one that starts in it


def test_by_group_collectives_on_the_host_count(tmp_path: Path) -> None:
    gloo = drawn.annotation("gloo:all_reduce", 10, 20, tid=2)
    [row] = overlap(drawn.job(tmp_path, drawn.op("aten::mm", 0, 15), gloo), by="group").frame.to_dicts()
    assert (row["device"], row["communication"], row["computation"], row["overlap"]) == (None, 20, 15, 5)
    nothing = overlap(drawn.job(tmp_path, drawn.op("aten::mm", 0, 15)), by="group")
    assert (len(nothing), nothing.notes) == (0, ("No communication was recorded: there is nothing to overlap.",))
