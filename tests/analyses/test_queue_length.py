from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope import Selection, queue_length, read
from kinetoscope.errors import UsageError
from kinetoscope.schema import Result
from tests import drawn
from tests.catalog.samples import SHARED, required


def lengths(folder: Path, *events: drawn.Event, full_at: int = 1024, **selected: object) -> Result:
    select = Selection(**selected)  # type: ignore[arg-type]
    return queue_length(drawn.job(folder, *events), select=select, full_at=full_at)


def numbers(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("device", "stream", "calls", "window", "mean", "max", "queued", "full"))


# Stream 7: 10–40 one, 20–40 two, 30–40 three; 40–50 two; 50–60 one. Stream 8: 60–110.
LAUNCHES = [drawn.launch(10, 5, 1), drawn.launch(20, 5, 2), drawn.launch(30, 5, 3), drawn.launch(60, 5, 4)]
WORK = [
    drawn.kernel("gemm", 40, 10, 1),
    drawn.kernel("gemm", 50, 10, 2),
    drawn.kernel("Memcpy HtoD", 60, 10, 3, category="gpu_memcpy"),
    drawn.kernel("gemm", 110, 50, 4, stream=8),
]


def test_launches_wait_from_their_call_to_the_start_of_their_work(tmp_path: Path) -> None:
    result = lengths(tmp_path, *LAUNCHES, *WORK, full_at=2)
    assert [numbers(row) for row in result.frame.to_dicts()] == [
        (0, 7, 3, 100, (30 + 30 + 30) / 100, 3, 50, 30),
        (0, 8, 1, 100, 50 / 100, 1, 50, 0),
    ]
    assert result.frame["queued_share"].to_list() == [0.5, 0.5]
    assert result.frame["full_share"].to_list() == [0.3, 0.0]
    assert result.notes == ()


def test_quartiles_are_over_the_time_of_the_window(tmp_path: Path) -> None:
    row = lengths(tmp_path, *LAUNCHES, *WORK).frame.to_dicts()[0]  # 0 for 50 ns, 1 for 20, 2 for 20, 3 for 10
    assert [row[name] for name in ("min", "p25", "median", "p75")] == [0, 0, 0, 2]
    assert row["std"] == pytest.approx(((20 * 1 + 20 * 4 + 10 * 9) / 100 - 0.9**2) ** 0.5)


def test_a_graph_is_one_entry_on_each_of_its_streams(tmp_path: Path) -> None:
    graph = drawn.launch(10, 5, 1, name="cudaGraphLaunch")
    kernels = [drawn.kernel("gemm", start, 10, 1) for start in (60, 50, 70)]
    side = [drawn.kernel("gemm", start, 10, 1, stream=8) for start in (100, 90)]
    rows = lengths(tmp_path, graph, *kernels, *side).frame.to_dicts()
    assert [numbers(row) for row in rows] == [(0, 7, 1, 80, 0.5, 1, 40, 0), (0, 8, 1, 80, 1.0, 1, 80, 0)]


@pytest.mark.parametrize("name", ["cuLaunchKernelEx", "hipModuleLaunchKernel", "urEnqueueKernelLaunch", "anything"])
def test_every_call_that_work_is_correlated_with_is_a_launch(tmp_path: Path, name: str) -> None:
    rows = lengths(tmp_path, drawn.launch(10, 5, 1, name=name), drawn.kernel("gemm", 30, 10, 1)).frame.to_dicts()
    assert [numbers(row) for row in rows] == [(0, 7, 1, 20, 1.0, 1, 20, 0)]


def test_the_same_stream_of_two_devices_is_two(tmp_path: Path) -> None:
    events = [*LAUNCHES[:2], drawn.kernel("gemm", 40, 10, 1, device=1), drawn.kernel("gemm", 50, 10, 2, device=0)]
    assert lengths(tmp_path, *events).frame.select("device", "stream").rows() == [(0, 7), (1, 7)]


def test_the_length_is_never_negative_where_clocks_disagree(tmp_path: Path) -> None:
    result = lengths(tmp_path, *LAUNCHES[:2], drawn.kernel("gemm", 5, 10, 1), drawn.kernel("gemm", 50, 10, 2))
    [row] = result.frame.to_dicts()
    assert numbers(row) == (0, 7, 2, 40, 30 / 40, 1, 30, 0)
    assert result.notes == ("1 launches began on the device before their calls did, by its clock: they waited 0 ns.",)


def test_what_is_not_linked_is_counted(tmp_path: Path) -> None:
    result = lengths(tmp_path, *LAUNCHES, *WORK[:3], drawn.kernel("gemm", 200, 10, 99))
    assert result.frame["calls"].to_list() == [3]
    assert result.notes == (
        "1 of 4 pieces of device work have no recorded launch: not counted.",
        "Launch calls without recorded device work, which may have waited, too: 1.",
    )


def test_a_range_of_time_cuts_waits_also_of_work_that_runs_after_it(tmp_path: Path) -> None:
    rows = lengths(tmp_path, *LAUNCHES, *WORK, time=(5, 60)).frame.to_dicts()  # counted from the first launch
    assert [numbers(row) for row in rows] == [
        (0, 7, 2, 55, (25 + 30 + 30) / 55, 3, 45, 0),
        (0, 8, 1, 55, 10 / 55, 1, 10, 0),
    ]
    rows = lengths(tmp_path, *LAUNCHES, *WORK, time=(5, 45)).frame.to_dicts()
    assert [row["stream"] for row in rows] == [7], "stream 8 gets its first launch later"
    result = lengths(tmp_path, *LAUNCHES, *WORK, time=(105, 110))
    assert (len(result), result.notes) == (0, ("No device work with a recorded launch was selected.",))


def test_steps_choose_launches(tmp_path: Path) -> None:
    steps = [drawn.annotation("ProfilerStep#0", 0, 25), drawn.annotation("ProfilerStep#1", 25, 100)]
    rows = lengths(tmp_path, *steps, *LAUNCHES, *WORK, steps=(0,)).frame.to_dicts()
    assert [numbers(row) for row in rows] == [(0, 7, 2, 40, 60 / 40, 2, 40, 0)]


def test_a_limit_below_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="full_at is 0"):
        lengths(tmp_path, *LAUNCHES, *WORK, full_at=0)


def test_each_stream_keeps_its_time_at_the_limit() -> None:
    # HTA, which leaves out the last step, knows these times for all streams and answers with that of stream 22 alone.
    job = read(required(SHARED) / "trace_diff/control", jobs=1)
    frame = queue_length(job, select=Selection(steps=tuple(range(1009, 1014))), full_at=5).frame
    assert dict(frame.select("stream", "full").rows()) == {7: 233_936_000, 20: 25_511_000, 21: 0, 22: 40_958_000}
    assert dict(frame.select("stream", "max").rows()) == {7: 287, 20: 10, 21: 2, 22: 22}
    assert (frame["calls"] * 2).to_list() == [14_940, 470, 100, 240]


def test_a_full_queue_is_found() -> None:
    [row, _] = queue_length(read(required(SHARED) / "resnet_ddp_mi300", jobs=1)).frame.to_dicts()
    assert row["max"] > 1024
    assert 0 < row["full"] < row["queued"]
