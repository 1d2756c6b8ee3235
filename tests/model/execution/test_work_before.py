from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope import Selection, idle_breakdown, step_breakdown, temporal_breakdown
from kinetoscope.model.execution.work_before import work_before
from kinetoscope.model.health.check import examine
from kinetoscope.model.steps.steps import steps
from kinetoscope.model.timeline.range import in_range
from tests import drawn

TICK = 10_000
FIRST = drawn.op("aten::mm", 0, 50 * TICK)
"""The recording begins at 0."""


def until(folder: Path, *events: drawn.Event) -> list[int]:
    return list(work_before(drawn.job(folder, FIRST, *events).trace()).until.tolist())


def queued(launched: int, begun: int, *, stream: int = 7, number: int = 1) -> list[drawn.Event]:
    call = drawn.launch(launched * TICK, 5 * TICK, number)
    return [call, drawn.kernel("gemm", begun * TICK, 10 * TICK, number, stream=stream)]


def test_first_work_that_was_in_the_queue_most_of_the_time_waited_for_work_from_before(tmp_path: Path) -> None:
    assert until(tmp_path, *queued(40, 500)) == [500 * TICK]


@pytest.mark.parametrize("launched", [460, 300], ids=["at once", "late in the recording"])
def test_other_first_work_did_not(tmp_path: Path, launched: int) -> None:
    assert until(tmp_path, *queued(launched, 500)) == []


def test_first_work_without_launch_was_queued_before_if_launches_were_recorded(tmp_path: Path) -> None:
    alone = drawn.kernel("gemm", 500 * TICK, 10 * TICK, 9)
    assert until(tmp_path, alone) == []
    assert until(tmp_path, alone, *queued(600, 610)) == [500 * TICK]


def test_a_stream_may_be_held_while_another_one_runs(tmp_path: Path) -> None:
    assert until(tmp_path, *queued(10, 20), *queued(30, 500, stream=8, number=2)) == [500 * TICK]


def test_a_stream_that_waits_for_recorded_work_is_not_held(tmp_path: Path) -> None:
    long = [drawn.launch(10 * TICK, 5 * TICK, 1), drawn.kernel("gemm", 20 * TICK, 479 * TICK, 1)]
    assert until(tmp_path, *long, *queued(30, 500, stream=8, number=2)) == []


def test_only_the_first_work_of_a_stream_tells(tmp_path: Path) -> None:
    assert until(tmp_path, *queued(10, 20), *queued(30, 500, number=2)) == []


HELD = [
    drawn.annotation("ProfilerStep#1", 0, 700 * TICK),
    *queued(10, 20),
    *queued(30, 500, stream=8, number=2),
    *queued(600, 610, stream=8, number=3),
]


def test_it_is_in_no_step_and_not_idle(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, FIRST, *HELD)
    found = steps(job.trace())
    assert (found.device.start.tolist(), found.device.end.tolist()) == ([500 * TICK], [700 * TICK])
    [row] = step_breakdown(job).frame.to_dicts()
    assert (row["duration"], row["computation"]) == (200 * TICK, 20 * TICK)
    for select, idle in ((Selection(), 100), (Selection(steps=(1,)), 180)):
        assert idle_breakdown(job, select=select).frame["time"].sum() == idle * TICK
        assert temporal_breakdown(job, select=select).frame["idle"].sum() == idle * TICK


def test_it_is_said(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, FIRST, *HELD)
    sentence = "For the first 5 ms the device was busy with work from before the recording: "
    sentence += "that time is in no step, and not idle."
    assert examine(job.trace())["WORK_BEFORE"] == sentence
    for analysis in (idle_breakdown, temporal_breakdown, step_breakdown):
        assert [note.code for note in analysis(job).notes].count("WORK_BEFORE") == 1
        assert [note.code for note in analysis(job, select=Selection(steps=(1,))).notes].count("WORK_BEFORE") == 1


def test_on_the_timeline_it_is_not_idle_either(tmp_path: Path) -> None:
    trace = drawn.job(tmp_path, FIRST, *HELD).trace()
    found = in_range(trace, 0, 700 * TICK)
    assert (found.before, sum(found.idle.values())) == (490 * TICK, 180 * TICK)
    assert found.longest == (510 * TICK, 610 * TICK)


def test_a_trace_whose_device_was_free_has_none(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, FIRST, *queued(10, 20), *queued(490, 500, number=2))
    assert "WORK_BEFORE" not in examine(job.trace())
    assert steps(job.trace()).device.start.tolist() == [0]
