from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope import Selection, critical_path, critical_path_events
from kinetoscope.errors import UsageError
from kinetoscope.model.critical_path.path import CAUSES
from kinetoscope.model.trace.recording import not_recorded
from tests import drawn

STEP = [
    drawn.annotation("ProfilerStep#4", 0, 100),
    drawn.op("aten::mm", 8, 8),
    drawn.launch(10, 5, 1),
    drawn.launch(17, 5, 2),
    drawn.kernel("gemm", 20, 40, 1),
    drawn.kernel("ncclDevKernel_AllReduce", 61, 29, 2),
    drawn.event("cuda_runtime", "cudaStreamSynchronize", 25, 67),
]


def causes(row: dict[str, Any]) -> dict[str, int]:
    return {name: row[name] for name in CAUSES if row[name]}


def steps(folder: Path, *events: drawn.Event, select: Selection | None = None, **params: str) -> list[dict[str, Any]]:
    job = drawn.job(folder, *events)
    return critical_path(job, select=select or Selection(), **params).frame.to_dicts()  # type: ignore[arg-type]


def test_the_causes_of_a_step_sum_to_it(tmp_path: Path) -> None:
    [row] = steps(tmp_path, *STEP)
    assert (row["step"], row["start"], row["duration"]) == (4, 0, 100)
    assert causes(row) == {"host": 20, "launch": 10, "computation": 40, "gaps": 1, "communication": 29}
    assert (row["what_if"], row["gain"]) == (None, None)
    assert row["inferred_share"] == (90 - 25) / 100


def test_the_host_is_the_path_where_the_device_is_waited_for_by_nobody(tmp_path: Path) -> None:
    [row] = steps(tmp_path, *STEP[:-1])
    assert causes(row) == {"host": 90, "launch": 10}
    assert row["inferred_share"] == 0


def test_a_step_that_the_device_ends_last_ends_on_the_device(tmp_path: Path) -> None:
    [row] = steps(tmp_path, drawn.annotation("ProfilerStep#4", 0, 50), *STEP[1:-1])
    assert row["duration"] == 90
    assert causes(row) == {"host": 10, "launch": 10, "computation": 40, "gaps": 1, "communication": 29}


def test_a_launch_that_comes_after_the_work_before_is_what_the_next_waits_for(tmp_path: Path) -> None:
    late = [drawn.launch(70, 5, 3), drawn.kernel("late", 80, 30, 3)]
    [row] = steps(tmp_path, drawn.annotation("ProfilerStep#4", 0, 50), drawn.launch(0, 5, 1), STEP[4], *late)
    assert row["duration"] == 60
    [row] = steps(tmp_path, drawn.annotation("ProfilerStep#4", 0, 75), drawn.launch(0, 5, 1), STEP[4], *late)
    assert causes(row) == {"host": 65, "launch": 15, "computation": 30}


def test_time_in_a_data_loader_is_loading_and_its_launches_are_launches(tmp_path: Path) -> None:
    loader = drawn.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 60)
    copy = [
        drawn.launch(50, 4, 1, name="cudaMemcpyAsync"),
        drawn.kernel("Memcpy HtoD", 55, 1, 1, category="gpu_memcpy"),
    ]
    [row] = steps(tmp_path, drawn.annotation("ProfilerStep#4", 0, 100), loader, drawn.op("collate", 10, 20), *copy)
    assert causes(row) == {"data_loading": 56, "launch": 4, "host": 40}


def test_the_path_goes_over_to_the_backward_thread_and_back(tmp_path: Path) -> None:
    forward = drawn.op("forward", 0, 20, **{"Sequence number": 5})
    backward = drawn.op("backward", 25, 45, tid=2, **{"Sequence number": 5, "Fwd thread id": 1})
    job = drawn.job(tmp_path, drawn.annotation("ProfilerStep#4", 0, 100), forward, backward, drawn.op("adam", 75, 20))
    rows = critical_path_events(job, group_by="event").frame.to_dicts()
    assert [(row["name"], row["start"], row["time"], row["thread"]) for row in rows] == [
        ("forward", 0, 20, 1),
        ("ProfilerStep#4", 20, 5, 1),
        ("backward", 25, 45, 2),
        ("ProfilerStep#4", 70, 5, 1),
        ("adam", 75, 20, 1),
        ("ProfilerStep#4", 95, 5, 1),
    ]
    assert critical_path(job, what_if="backward=0").frame["gain"].to_list() == [45]


def test_work_whose_launch_was_not_recorded_has_time_that_nothing_explains(tmp_path: Path) -> None:
    after = [drawn.launch(23, 1, 4), drawn.kernel("after", 90, 1, 4)]
    [row] = steps(tmp_path, *STEP[:3], STEP[4], drawn.kernel("lost", 70, 20, 9), *after, STEP[6])
    assert causes(row) == {"host": 19, "launch": 10, "computation": 40 + 20 + 1, "other": 10}


LATE = [drawn.annotation("ProfilerStep#4", 0, 900_000), drawn.op("aten::mm", 0, 600_000)]


def test_what_passes_long_after_a_launch_is_no_launching(tmp_path: Path) -> None:
    work = [drawn.launch(500_000, 10_000, 1), drawn.kernel("gemm", 800_000, 200_000, 1)]
    [row] = steps(tmp_path, *LATE, *work)
    assert causes(row) == {"host": 500_000, "launch": 40_000, "other": 260_000, "computation": 200_000}
    [row] = steps(tmp_path, *LATE, *work, what_if="launch=0")
    assert row["gain"] == 40_000
    [row] = steps(tmp_path, *LATE, *work, what_if="other=0.5")
    assert row["gain"] == 100_000  # of 130,000: the host's step ends then
    events = critical_path_events(drawn.job(tmp_path, *LATE, *work)).frame
    assert dict(events.filter(name="cudaLaunchKernel").select("cause", "time").rows()) == {"launch": 40_000}


def test_launches_behind_work_that_is_not_in_the_trace_do_not_tell_what_a_launch_takes(tmp_path: Path) -> None:
    held = [drawn.launch(500_000, 10_000, 1), drawn.launch(590_000, 10_000, 2), drawn.launch(610_000, 10_000, 3)]
    work = [drawn.kernel("gemm", 800_000 + 60_000 * k, 50_000, k + 1) for k in range(3)]
    [row] = steps(tmp_path, *LATE, *held, *work)
    assert causes(row) == {"host": 500_000, "launch": 40_000, "other": 260_000, "computation": 150_000, "gaps": 20_000}


def test_a_copy_that_blocks_is_time_of_its_call(tmp_path: Path) -> None:
    call = drawn.launch(500_000, 400_000, 1, name="hipMemcpyWithStream")
    copy = drawn.kernel("Memcpy HtoD (Host -> Device)", 890_000, 10_000, 1, category="gpu_memcpy")
    [row] = steps(tmp_path, *LATE, call, copy)
    assert causes(row) == {"host": 860_000, "launch": 30_000, "copies": 10_000}
    [row] = steps(tmp_path, *LATE, call, copy, what_if="hipMemcpyWithStream=0")
    assert row["gain"] == 390_000


def test_a_path_of_the_run_is_on_the_host_if_the_host_is_always_late(tmp_path: Path) -> None:
    """The device ends each step after the host, yet the next step waits for the host alone."""
    marks = [drawn.annotation(f"ProfilerStep#{k}", 100 * k, 100) for k in range(3)]
    launches = [drawn.launch(100 * k + 90, 5, k + 1) for k in range(3)]
    work = [drawn.kernel("gemm", 100 * k + 100, 80, k + 1) for k in range(3)]
    each = {"host": 10, "launch": 10, "computation": 80}
    assert [causes(row) for row in steps(tmp_path, *marks, *launches, *work)] == [{**each, "host": 90}, each, each]
    of_run = [causes(row) for row in steps(tmp_path, *marks, *launches, *work, path="run")]
    assert of_run == [{"host": 175, "launch": 5}, {"host": 95, "launch": 5}, each]


# --- what if


def test_what_if_says_what_a_change_would_bring(tmp_path: Path) -> None:
    result = critical_path(drawn.job(tmp_path, *STEP), what_if="gemm=0.5; communication=0; absent=0")
    assert result.frame.select("what_if", "gain").rows() == [(51, 49)]
    assert result.notes[-3:] == (
        "'gemm=0.5' names 1 event.",
        "No event of this trace is named by 'absent=0'.",
        "With gemm=0.5; communication=0; absent=0 all steps together take 49.0% less.",
    )


def test_what_if_is_of_whole_steps(tmp_path: Path) -> None:
    result = critical_path(drawn.job(tmp_path, *STEP), what_if="gemm=0", select=Selection(time=(0, 50)))
    assert result.frame.select("duration", "what_if").rows() == [(50, None)]
    assert result.notes[-1].code == "WHAT_IF_OF_STEPS"


def test_a_question_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not say"):
        critical_path(drawn.job(tmp_path, *STEP), what_if="gemm")


# --- selections and notes


def test_a_range_of_time_cuts_the_path(tmp_path: Path) -> None:
    [row] = steps(tmp_path, *STEP, select=Selection(time=(15, 62)))
    assert (row["start"], row["duration"]) == (15, 47)
    assert causes(row) == {"launch": 5, "computation": 40, "gaps": 1, "communication": 1}


def test_other_selections_do_not_change_the_path(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, *STEP)
    result = critical_path(job, select=Selection(streams=(7,)))
    assert result.frame.equals(critical_path(job).frame)
    assert (
        "The path is through the whole rank: of the selection only steps and the range of time count." in result.notes
    )


def test_notes_say_what_is_inferred_missing_or_odd(tmp_path: Path) -> None:
    early = drawn.kernel("early", 5, 2, 7, stream=9)
    notes = critical_path(
        drawn.job(tmp_path, *STEP, drawn.kernel("lost", 3, 1, 9), drawn.launch(12, 1, 7), early)
    ).notes
    assert "1 of 4 pieces of device work have no recorded launch: time before them is other." in notes
    assert "1 of 4 pieces of device work start before their launch: clocks disagree." in notes
    assert any(note.startswith("Waits are inferred from times, and up to 68% of the path") for note in notes)
    job = drawn.job(tmp_path, drawn.annotation("ProfilerStep#1", 0, 10))
    assert critical_path(job).notes == (not_recorded("device work", "the path is the host's"),)


def test_a_gap_that_nothing_explains_is_said(tmp_path: Path) -> None:
    ms = 1_000_000
    mark = drawn.annotation("ProfilerStep#4", 0, 100)
    launches = [drawn.launch(10, 5, k) for k in (1, 2)]
    work = [drawn.kernel("gemm", 20, ms, 1), drawn.kernel("relu", 3 * ms, ms, 2)]
    notes = critical_path(drawn.job(tmp_path, mark, *launches, *work)).notes
    assert any(note.startswith("1 gap is longer than 1 ms (50% of the path)") for note in notes)


# --- names


def test_by_name_stands_first_what_the_path_is_longest_in(tmp_path: Path) -> None:
    frame = critical_path_events(drawn.job(tmp_path, *STEP)).frame
    assert frame.select("cause", "name", "pieces", "time", "share").rows() == [
        ("computation", "gemm", 1, 40, 0.40),
        ("communication", "ncclDevKernel_AllReduce", 1, 29, 0.29),
        ("host", "ProfilerStep*", 2, 16, 0.16),
        ("launch", "cudaLaunchKernel", 1, 10, 0.10),
        ("host", "aten::mm", 1, 2, 0.02),
        ("host", "cudaStreamSynchronize", 1, 2, 0.02),
        ("gaps", "ncclDevKernel_AllReduce", 1, 1, 0.01),
    ]
    assert frame["step"].null_count() == len(frame)


def test_event_by_event_the_path_says_where_it_is(tmp_path: Path) -> None:
    frame = critical_path_events(drawn.job(tmp_path, *STEP), group_by="event").frame
    assert frame["time"].sum() == 100
    [gemm] = frame.filter(name="gemm").to_dicts()
    assert [gemm[name] for name in ("step", "start", "event", "thread", "device", "stream")] == [4, 20, 4, None, 0, 7]
    assert frame.filter(name="aten::mm").select("event", "thread", "device").rows() == [(1, 1, None)]


def test_time_in_which_no_call_runs_has_a_row_without_a_name(tmp_path: Path) -> None:
    frame = critical_path_events(drawn.job(tmp_path, drawn.op("a", 0, 10), drawn.op("b", 30, 10))).frame
    assert frame.select("cause", "name", "time").rows() == [("host", None, 20), ("host", "a", 10), ("host", "b", 10)]
