from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope.model.stragglers.host_activity import INTERVALS, before_collectives
from kinetoscope.model.stragglers.late_launches import HOST_CAUSES, HOST_EXPOSED, host_exposed
from tests import drawn

GROUP: dict[str, Any] = {"Process Group Name": "0", "Group size": 2, "Collective name": "allreduce"}
LOADING, SYNCHRONIZING, GAP = range(len(HOST_CAUSES))


def meeting(start: int, end: int) -> drawn.Event:
    return drawn.kernel("ncclDevKernel_AllGather", start, end - start, 900 + start, stream=9, **GROUP)


def held(folder: Path, *events: drawn.Event) -> list[list[tuple[int, int, int]]]:
    trace = drawn.job(folder, *events).trace()
    calls = before_collectives(trace)
    intervals = host_exposed(trace, calls)
    assert (intervals.name, intervals.dtype, len(intervals)) == (HOST_EXPOSED, INTERVALS, len(calls))
    return [[(each["start"], each["end"], each["cause"]) for each in row] for row in intervals.to_list()]


def test_what_the_host_does_until_it_launches_what_comes_next(tmp_path: Path) -> None:
    """The collective runs from 10 to 100; the next computation is launched at 80 and begins at 85.

    Without the synchronising call of 40 it would have been launched at 40.
    """
    assert held(
        tmp_path,
        meeting(10, 100),
        drawn.annotation("enumerate(DataLoader)#_Single.__next__", 5, 15),
        drawn.launch(30, 40, 0, name="cudaDeviceSynchronize"),
        drawn.launch(80, 2, 1),
        drawn.kernel("gemm", 85, 30, 1),
    ) == [[(0, 10, LOADING), (30, 70, SYNCHRONIZING), (10, 30, GAP)]]


@pytest.mark.parametrize("launch", [[], [drawn.launch(5, 2, 1)]], ids=["unknown", "before"])
def test_what_was_launched_in_time_had_to_wait_for_the_transfer(tmp_path: Path, launch: list[drawn.Event]) -> None:
    assert held(tmp_path, meeting(10, 100), *launch, drawn.kernel("gemm", 100, 30, 1)) == [[]]


def test_of_several_pieces_in_the_open_each_has_its_own_launch(tmp_path: Path) -> None:
    """The second collective is in both lists where the two overlap; what a computation covers is in none."""
    assert held(
        tmp_path,
        meeting(10, 60),
        drawn.kernel("ncclDevKernel_AllGather", 50, 50, 2, stream=10, **GROUP),
        drawn.launch(15, 2, 1),
        drawn.kernel("gemm", 20, 20, 1),
        drawn.launch(70, 2, 3),
        drawn.kernel("gemm", 120, 20, 3),
    ) == [[(0, 5, GAP), (30, 50, GAP)], [(0, 20, GAP)]]


def test_a_call_that_synchronises_before_another_launch_holds_up_that_one(tmp_path: Path) -> None:
    assert held(
        tmp_path,
        drawn.launch(0, 5, 0, name="cudaDeviceSynchronize"),
        drawn.launch(6, 1, 1),
        drawn.kernel("gemm", 8, 10, 1),
        meeting(10, 100),
        drawn.launch(40, 2, 2),
        drawn.kernel("gemm", 50, 50, 2),
    ) == [[(8, 30, GAP)]]


def test_the_end_of_the_recording_holds_nobody(tmp_path: Path) -> None:
    assert held(tmp_path, drawn.launch(0, 2, 1), drawn.kernel("gemm", 5, 5, 1), meeting(10, 100)) == [[]]


def test_without_device_work_it_is_what_is_in_the_open_until_something_is_computed(tmp_path: Path) -> None:
    """From 60 on the host stands in the collective: it goes on when that is over."""
    assert held(
        tmp_path,
        drawn.op("aten::mm", 0, 30),
        drawn.annotation("gloo:all_reduce", 20, 60, tid=2),
        drawn.op("aten::relu", 50, 10),
        drawn.op("aten::add", 80, 10),
    ) == [[(10, 30, GAP)]]


def test_on_a_host_that_stands_in_one_collective_another_one_is_not_held_up(tmp_path: Path) -> None:
    """The first runs in the background, from 10 on; the second holds the host from 30 to 70,000."""
    assert held(
        tmp_path,
        drawn.op("aten::mm", 0, 30),
        drawn.annotation("gloo:all_reduce", 10, 200_000, tid=2),
        drawn.annotation("gloo:all_reduce", 30, 70_000, tid=3),
        drawn.op("aten::add", 80_000, 110_000),
        drawn.op("aten::add", 195_000, 10_000),
    ) == [[(70_020, 79_990, GAP), (189_990, 194_990, GAP)], []]


def test_where_nothing_is_exchanged_there_is_nothing(tmp_path: Path) -> None:
    assert held(tmp_path, drawn.op("aten::mm", 0, 30)) == []
