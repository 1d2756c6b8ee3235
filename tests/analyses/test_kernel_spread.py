from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope import Selection, kernel_spread, kernels, read
from tests import drawn

FACTS = {"backend": "nccl", "world_size": 3}


def job_of(folder: Path, *durations: list[int]) -> Path:
    """Each rank runs gemm so long, one after the other, and a short relu."""
    for rank, each in enumerate(durations):
        gemms = [drawn.kernel("gemm", 1000 * place, length, place + 1) for place, length in enumerate(each)]
        relu = drawn.kernel("relu", 900_000, 1, 99)
        drawn.written(folder / f"rank{rank}.pt.trace.json", *gemms, relu, distributedInfo={**FACTS, "rank": rank})
    return folder


def test_the_means_of_ranks_are_compared_with_the_one_in_the_middle(tmp_path: Path) -> None:
    frame = kernel_spread(read(job_of(tmp_path, [10, 12], [20, 24, 22], [10, 10]), jobs=1), kernels=1).frame
    assert frame.drop("ratio", "std").rows() == [
        (0, "gemm", "computation", 2, 22, 11, 10, 12, 3),
        (1, "gemm", "computation", 3, 66, 22, 20, 24, 3),
        (2, "gemm", "computation", 2, 20, 10, 10, 10, 3),
    ]
    assert frame["ratio"].to_list() == pytest.approx([1, 2, 10 / 11])
    assert frame["std"].to_list() == pytest.approx([1, (8 / 3) ** 0.5, 0])


def test_kernels_are_chosen_by_name_and_by_their_total_over_all_ranks(tmp_path: Path) -> None:
    job = read(job_of(tmp_path, [10], [20]), jobs=1)
    assert kernel_spread(job).frame.select("rank", "name").rows() == [
        (0, "gemm"),
        (0, "relu"),
        (1, "gemm"),
        (1, "relu"),
    ]
    assert kernel_spread(job, kernel="rel").frame["name"].to_list() == ["relu", "relu"]
    nothing = kernel_spread(job, kernel="conv")
    assert (len(nothing), nothing.notes[-1]) == (0, "No kernel's name holds 'conv'.")


def test_only_what_starts_in_a_range_of_time_counts(tmp_path: Path) -> None:
    job = read(job_of(tmp_path, [10, 12], [20, 24]), jobs=1)
    frame = kernel_spread(job, select=Selection(time=(5, 1500))).frame
    assert frame.select("rank", "calls", "total").rows() == [(0, 1, 12), (1, 1, 24)]


@pytest.mark.parametrize("folder", ["dlrm_ddp_v100_8rank", "sampled_2rank"])
def test_ranks_agree_with_the_table_of_kernels(shared_traces: Path, folder: str) -> None:
    job = read(shared_traces / folder, jobs=2)
    columns = ["rank", "name", "kind", "calls", "total", "mean", "min", "max"]
    theirs = kernels(job, copies=True).frame.select(columns).sort(columns)
    assert kernel_spread(job, kernels=0).frame.select(columns).sort(columns).equals(theirs)
