from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope import launch_statistics, launches, queue_length, read
from kinetoscope.model.graphs.lost_work import captured, capturing
from kinetoscope.model.health.check import examine
from tests import drawn
from tests.catalog.samples import required
from tests.conftest import SHARED


def capture(start: int, end: int, *, tid: int = 1) -> list[drawn.Event]:
    begin = drawn.launch(start, 5, 90, name="cudaStreamBeginCapture_v10000", tid=tid)
    return [begin, drawn.launch(end - 5, 5, 91, name="cudaStreamEndCapture", tid=tid)]


RAN = [drawn.launch(10, 5, 1), drawn.kernel("gemm", 20, 5, 1)]
PART = [drawn.launch(110, 5, 2), drawn.launch(120, 5, 3, name="hipModuleLaunchKernel", tid=2)]
"""The second one on the thread of the backward pass."""


def test_launches_while_a_graph_is_captured_are_none(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, *RAN, *capture(100, 200), *PART, drawn.launch(300, 5, 4))
    assert launches(job).frame["start"].to_list() == [0, 290]
    assert launch_statistics(job).frame["calls"].to_list()[0] == 2
    assert "2 launch calls became part of a graph: nothing ran, and they are left out." in launches(job).notes
    assert "Launch calls without recorded device work, which may have waited, too: 1." in queue_length(job).notes
    assert examine(job.trace())["CAPTURED"].number == 2


def test_work_that_ran_during_a_capture_was_launched(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, *capture(0, 200), *RAN)
    assert len(launches(job)) == 1
    assert "CAPTURED" not in examine(job.trace())


@pytest.mark.parametrize(
    ("events", "windows"),
    [
        ([], []),
        (capture(100, 200)[1:], []),
        (capture(100, 200)[:1], [(100, 305)]),
        ([*capture(100, 200), *capture(150, 250, tid=2), *capture(260, 280)], [(100, 250), (260, 280)]),
    ],
    ids=["none", "only the end", "no end", "several"],
)
def test_when_graphs_are_captured(tmp_path: Path, events: list[drawn.Event], windows: list[tuple[int, int]]) -> None:
    found = capturing(drawn.job(tmp_path, *events, drawn.launch(300, 5, 4)).trace())
    assert list(zip(found.start.tolist(), found.end.tolist(), strict=True)) == windows


def test_a_real_capture() -> None:
    folder = SHARED.parent / "samples" / "serving" / "vllm_decode_full" / "capture_traces"
    trace = read(required(folder)).trace()
    assert int(captured(trace).sum()) > 400
    assert len(launches(read(folder))) == 10
