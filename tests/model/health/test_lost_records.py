"""Records that a profiler lost or misplaced: what the doctor says, and which answers carry a note."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import kinetoscope
from kinetoscope.model.graphs.lost_work import lost_work
from kinetoscope.model.graphs.replay_gaps import replay_gaps
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from tests import drawn
from tests.notes import codes

STEPS, LAUNCHES_OF_STEP = 4, 10


def job(folder: Path, lost: Sequence[int] = (), *, skew: int = 0, graph: bool = False, parts: bool = False) -> Job:
    """Four steps of ten launches each; those that are lost have no kernel, and kernels begin `skew` too early."""
    events = []
    for step in range(STEPS):
        begin = 1_000_000 * step
        events.append(drawn.annotation(f"ProfilerStep#{step}", begin, 990_000))
        for n in range(LAUNCHES_OF_STEP):
            number = LAUNCHES_OF_STEP * step + n
            start = begin + 90_000 * n + 10_000
            name = "cudaGraphLaunch" if graph else "cudaLaunchKernel"
            events += [
                drawn.annotation("bench", start - 2_000, 20_000),
                drawn.op("aten::mm", start - 1_000, 15_000),
                drawn.launch(start, 5_000, number + 1, name=name),
            ]
            if number in lost:
                continue
            events.append(drawn.kernel("gemm", start + 8_000 - skew, 40_000, number + 1))
            if parts:
                events.append(drawn.event("gpu_user_annotation", "bench", start + 8_000, 40_000, pid=0, tid=7))
    return drawn.job(folder, *events)


def symptoms(of: Job) -> dict[str, str]:
    wanted = ("LOST_AT_START", "LAUNCHES_WITHOUT_WORK", "LOST_AT_END", "WORK_BEFORE_LAUNCH", "NO_DEVICE_PART")
    return {each.code: str(each) for each in of.trace().health if each.code in wanted}


@pytest.mark.parametrize("graph", [False, True])
def test_what_comes_before_the_window_is_told_with_its_steps(tmp_path: Path, graph: bool) -> None:
    found = symptoms(job(tmp_path, range(13), graph=graph))
    assert list(found) == ["LOST_AT_START"]
    assert found["LOST_AT_START"].startswith(
        "The first 13 launches of 40 have no recorded work (steps 0-1), over 1.2 ms: profilers drop what their clock "
    )


def test_launches_whose_records_are_lost_in_between(tmp_path: Path) -> None:
    found = symptoms(job(tmp_path, (12, 13, 31)))
    assert found["LAUNCHES_WITHOUT_WORK"].startswith("3 launches have no recorded work, 7.5% of all (steps 1, 3), ")


def test_what_runs_after_the_end_is_only_noted(tmp_path: Path) -> None:
    of = job(tmp_path, (38, 39))
    assert list(symptoms(of)) == ["LOST_AT_END"]
    assert of.trace().health["LOST_AT_END"].severity == "note"
    assert not [note for note in kinetoscope.kernels(of).notes if "lost" in note]


def test_work_before_its_launch(tmp_path: Path) -> None:
    found = symptoms(job(tmp_path, skew=20_000))
    assert found["WORK_BEFORE_LAUNCH"].startswith(
        "40 pieces of device work start before their launches, by up to 12.0 µs: the clocks of host and "
    )
    assert symptoms(job(tmp_path, skew=8_500)) == {}  # less than a microsecond is rounding


def test_ranges_without_a_part_on_the_device(tmp_path: Path) -> None:
    found = symptoms(job(tmp_path, range(3), parts=True))
    assert found["NO_DEVICE_PART"].startswith("3 ranges (bench) launched work without the part on the device that ")
    assert symptoms(job(tmp_path, parts=True)) == {}
    assert symptoms(job(tmp_path)) == {}  # no profiler of ranges on the device


def test_a_captured_launch_is_not_lost(tmp_path: Path) -> None:
    events = [
        drawn.launch(0, 100, 1, name="cudaStreamBeginCapture"),
        drawn.launch(200, 10, 2),
        drawn.launch(300, 10, 3, name="cudaStreamEndCapture"),
        drawn.launch(400, 10, 4),
        drawn.kernel("gemm", 500, 10, 4),
    ]
    lost = lost_work(drawn.job(tmp_path, *events).trace())
    assert (lost.launches, len(lost.at_start), len(lost.between), len(lost.at_end)) == (1, 0, 0, 0)


@pytest.mark.parametrize("numbered", [True, False])
def test_replays_that_lack_nodes(tmp_path: Path, numbered: bool) -> None:
    """The first replay lost its first three nodes, the last one had only begun when the recording ended."""
    events = []
    for n, nodes in enumerate((range(3, 8), range(8), range(8), range(2))):
        events.append(drawn.launch(100_000 * n, 5_000, n + 1, name="cudaGraphLaunch"))
        ids: list[dict[str, Any]] = [
            {"graph id": 3, "graph node id": node + 1} if numbered else {} for node in range(8)
        ]
        events += [
            drawn.kernel(f"gemm{node}", 100_000 * n + 8_000 + 1_000 * node, 900, n + 1, **ids[node]) for node in nodes
        ]
    of = drawn.job(tmp_path, *events)
    assert (
        of.trace()
        .health["PARTIAL_REPLAYS"]
        .startswith("1 replay of a graph lacks 3 of the nodes that the graph has: records were lost, ")
    )
    assert (
        "3 nodes of replayed graphs were not recorded: times and counts of device" in kinetoscope.kernels(of).notes[0]
    )


@pytest.mark.parametrize(
    ("gap", "more", "expected"), [(0, 0, False), (2_000, 0, False), (7_000, 0, True), (7_000, 10_000, False)]
)
def test_gaps_inside_replays_that_a_device_does_not_need(tmp_path: Path, gap: int, more: int, expected: bool) -> None:
    """Kernels of 20 µs with a gap behind each, which grows by `more` in the later ones: those wait for something."""
    events = []
    for n in range(3):
        events.append(drawn.launch(2_000_000 * n, 5_000, n + 1, name="hipGraphLaunch"))
        for node in range(20):
            at = 2_000_000 * n + 8_000 + (20_000 + gap) * node + more * max(node - 9, 0) * (node - 8) // 2
            events.append(drawn.kernel(f"gemm{node}", at, 20_000, n + 1))
    of = drawn.job(tmp_path, *events)
    gaps = replay_gaps(of.trace())
    assert gaps.span == 3 * (20 * 20_000 + 19 * gap + 55 * more)
    assert gaps.total == 3 * (19 * gap + 55 * more)
    assert ("GAPS_IN_REPLAYS" in of.trace().health) is expected
    assert ("GAPS_IN_REPLAYS" in codes(kinetoscope.idle_breakdown(of).notes)) is expected


def test_a_trace_without_any_device_work_lost_all_of_it(tmp_path: Path) -> None:
    lost = drawn.job(tmp_path, drawn.launch(0, 10, 1), drawn.launch(20, 10, 2))
    assert list(symptoms(lost)) == ["LAUNCHES_WITHOUT_WORK"]
    assert symptoms(drawn.job(tmp_path, drawn.op("aten::mm", 0, 10))) == {}


ON_DEVICES = (
    "kernels", "kernel_kinds", "device_utilization", "idle_breakdown", "idle_gaps", "temporal_breakdown", "overlap",
    "step_breakdown", "operators", "launches", "queue_length", "critical_path", "categories", "roofline", "annotations",
)  # fmt: skip


@pytest.mark.parametrize("name", ON_DEVICES)
def test_answers_that_rest_on_lost_records_say_so(tmp_path: Path, name: str) -> None:
    notes = getattr(kinetoscope, name)(job(tmp_path, (*range(13), 25))).notes
    assert [note for note in notes if note.startswith("Of 14 launches the device's records were lost: ")], notes
    notes = getattr(kinetoscope, name)(job(tmp_path, skew=20_000)).notes
    assert [note for note in notes if note.startswith("40 pieces of device work start before their launches")], notes


def test_steps_that_lost_nothing_have_no_note(tmp_path: Path) -> None:
    of = job(tmp_path, range(13))
    for steps, lost in ((2, 3), 0), ((0,), 10), ((0, 1), 13):
        notes = kinetoscope.kernels(of, select=Selection(steps=steps)).notes
        assert [note.split()[1] for note in notes if "lost" in note] == [str(lost)] * (lost > 0)


def test_empty_keys_of_counters_are_told_and_read(tmp_path: Path) -> None:
    events = [
        {"ph": "C", "name": name, "pid": "GPU 0 Counters", "tid": 0, "ts": n, "args": {"": 100.5 + n}}
        for n in range(3)
        for name in ("Power (W)", "SM Clock (MHz)")
    ]
    of = drawn.job(tmp_path, *events)
    assert of.trace().health["EMPTY_KEYS"] == (
        "6 samples of counters (Power (W), SM Clock (MHz)) stand under an empty key: the name counts."
    )
    rows = of.sql("SELECT name, count(*) AS samples, max(value) AS most FROM counters GROUP BY name ORDER BY name")
    assert rows.frame.rows() == [("Power (W)", 3, 102.5), ("SM Clock (MHz)", 3, 102.5)]
