from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import Selection, step_breakdown
from kinetoscope.analyses.step_breakdown import CATEGORIES, Order
from tests import drawn

# --- each instant has one category

INSTANTS = 40
DRAWERS = {
    "computation": lambda start, length, number: [drawn.kernel("gemm", start, length, number)],
    "communication": lambda start, length, number: [drawn.kernel("ncclKernel_AllReduce", start, length, number)],
    "memcpy": lambda start, length, number: [drawn.kernel("Memcpy HtoD", start, length, number, category="gpu_memcpy")],
    "memset": lambda start, length, number: [drawn.kernel("Memset", start, length, number, category="gpu_memset")],
    "runtime": lambda start, length, number: [drawn.launch(start, length, -1, tid=100 + number)],
    "data_loading": lambda start, length, number: [
        drawn.annotation("enumerate(DataLoader)#Iter.__next__", start, length, tid=100 + number)
    ],
    "host": lambda start, length, number: [drawn.op("aten::mm", start, length, tid=100 + number)],
}
PLUGINS_PRIORITY = ["computation", "memcpy", "memset", "communication", "runtime", "data_loading", "host"]

happenings = st.lists(st.tuples(st.sampled_from(sorted(DRAWERS)), st.integers(0, 39), st.integers(0, 20)), max_size=12)
cuts = st.lists(st.integers(0, INSTANTS), min_size=2, max_size=6, unique=True).map(sorted)


@given(happenings, cuts, st.sampled_from(["default", "plugin"]))
def test_it_charges_each_instant_as_counting_instants_does(
    tmp_path_factory: pytest.TempPathFactory,
    happened: list[tuple[str, int, int]],
    bounds: list[int],
    order: Order,
) -> None:
    # No launch is recorded, so that the device's steps are the host's.
    steps = list(zip(bounds[::2], bounds[1::2], strict=False))
    events = [drawn.annotation(f"ProfilerStep#{k}", start, end - start) for k, (start, end) in enumerate(steps)]
    for number, (what, start, length) in enumerate(happened):
        events += DRAWERS[what](start, length, number + 1)
    frame = step_breakdown(drawn.job(tmp_path_factory.getbasetemp(), *events), order=order).frame

    priority = list(CATEGORIES[:-1]) if order == "default" else PLUGINS_PRIORITY
    for (start, end), row in zip(steps, frame.to_dicts(), strict=True):
        counted = dict.fromkeys(CATEGORIES, 0)
        for instant in range(start, end):
            running = {what for what, begin, length in happened if begin <= instant < begin + length}
            counted[next((what for what in priority if what in running), "other")] += 1
        assert {name: row[name] for name in CATEGORIES} == counted
        assert row["duration"] == end - start


# --- what belongs where

STEPS = [drawn.annotation("ProfilerStep#3", 0, 100), drawn.annotation("ProfilerStep#4", 100, 100)]


def breakdown(folder: Path, *events: drawn.Event, order: Order = "default", **selected: object) -> list[dict[str, Any]]:
    select = Selection(**selected)  # type: ignore[arg-type]
    return step_breakdown(drawn.job(folder, *events), select=select, order=order).frame.to_dicts()


def test_spans_of_gloo_are_communication_in_both_orders(tmp_path: Path) -> None:
    span = drawn.annotation("gloo:all_reduce", 10, 30, tid=9)
    for order in ("default", "plugin"):
        assert breakdown(tmp_path, *STEPS, span, order=order)[0]["communication"] == 30


def test_spans_of_nccl_on_the_host_are_communication_only_for_the_plugin_and_if_it_knows_them(tmp_path: Path) -> None:
    known, unknown = drawn.annotation("nccl:all_reduce", 10, 30), drawn.annotation("nccl:all_to_all", 50, 20)
    mine = breakdown(tmp_path, *STEPS, known, unknown)[0]
    its = breakdown(tmp_path, *STEPS, known, unknown, order="plugin")[0]
    assert (mine["communication"], mine["host"], mine["other"]) == (0, 0, 100)
    assert (its["communication"], its["host"], its["other"]) == (30, 20, 50)


def test_marks_are_not_operators_even_where_the_file_says_so(tmp_path: Path) -> None:
    step = drawn.op("ProfilerStep#3", 0, 100)
    lightning = drawn.op("[pl][module]torch.nn.Linear: net", 0, 80)
    assert breakdown(tmp_path, step, lightning, drawn.op("aten::mm", 10, 5))[0]["host"] == 5


def test_a_step_waits_for_its_own_work_and_not_for_work_without_a_recorded_launch(tmp_path: Path) -> None:
    late = [drawn.launch(90, 5, 1), drawn.kernel("gemm", 110, 30, 1)]
    unlinked = drawn.kernel("gemm", 150, 100, 7)
    result = step_breakdown(drawn.job(tmp_path, *STEPS, *late, unlinked))
    assert result.frame["duration"].to_list() == [140, 60]
    assert result.frame["computation"].to_list() == [30, 50]
    assert any(note.startswith("1 of 2 pieces of device work have no recorded launch") for note in result.notes)


def test_empty_steps_are_named(tmp_path: Path) -> None:
    late = [drawn.launch(90, 5, 1), drawn.kernel("gemm", 110, 130, 1)]
    result = step_breakdown(drawn.job(tmp_path, *STEPS, *late))
    assert result.frame["duration"].to_list() == [240, 0]
    assert [note for note in result.notes if note.startswith("Empty steps (4)")]


# --- selections

BUSY = [
    *STEPS,
    drawn.op("aten::mm", 10, 70),
    drawn.op("aten::mm", 102, 88, tid=2),
    drawn.launch(85, 5, 1),
    drawn.kernel("gemm", 110, 30, 1, device=1, stream=7),
    drawn.launch(120, 5, 2, tid=2),
    drawn.kernel("gemm", 130, 30, 2, device=1, stream=8),
]


@pytest.mark.parametrize("step", [3, 4])
def test_what_happens_in_a_step_does_not_depend_on_which_steps_are_asked_for(tmp_path: Path, step: int) -> None:
    [row] = breakdown(tmp_path, *BUSY, steps=(step,))
    assert row == breakdown(tmp_path, *BUSY)[step - 3]


def test_a_range_of_time_clips_steps_and_what_reaches_into_it(tmp_path: Path) -> None:
    [row] = breakdown(tmp_path, *BUSY, time=(20, 50))
    assert (row["step"], row["start"], row["duration"], row["host"]) == (3, 20, 30, 30)


def test_steps_outside_a_range_of_time_have_no_row(tmp_path: Path) -> None:
    assert [row["step"] for row in breakdown(tmp_path, *BUSY, time=(150, 160))] == [4]


def test_threads_choose_host_events_and_what_was_launched_from_them(tmp_path: Path) -> None:
    first, second = breakdown(tmp_path, *BUSY, threads=(2,))
    assert (first["host"], first["runtime"], first["computation"]) == (23, 5, 10)  # until 140 the device is in step 3
    assert (second["host"], second["runtime"], second["computation"]) == (190 - 160, 0, 20)


def test_streams_choose_device_work(tmp_path: Path) -> None:
    first, second = breakdown(tmp_path, *BUSY, streams=(8,))
    assert (first["computation"], second["computation"]) == (10, 20)


def test_an_annotation_can_be_the_step(tmp_path: Path) -> None:
    mine = [drawn.annotation("train_step", 0, 40), drawn.annotation("train_step", 50, 40)]
    rows = breakdown(tmp_path, *BUSY, *mine, steps_by="train_step")
    assert [(row["step"], row["host_duration"]) for row in rows] == [(0, 40), (1, 40)]


# --- beside the sum: the gap before the forward pass

GAP = [*STEPS, drawn.op("aten::mm", 10, 50), drawn.python("nn.Module: Net_0", 150, 40)]


def test_the_gap_reaches_from_the_last_op_of_the_step_before_to_the_forward_pass(tmp_path: Path) -> None:
    first, second = breakdown(tmp_path, *GAP)
    assert (first["step_gap"], first["step_gap_cause"]) == (None, None)  # no forward pass in it
    assert (second["step_gap"], second["step_gap_cause"]) == (150 - 60, "host gap")


def test_the_gap_is_the_same_if_only_that_step_is_asked_for(tmp_path: Path) -> None:
    [row] = breakdown(tmp_path, *GAP, steps=(4,))
    assert row["step_gap"] == 90


def test_device_work_is_no_part_of_the_gap(tmp_path: Path) -> None:
    work = [drawn.launch(20, 5, 1), drawn.kernel("gemm", 50, 40, 1)]
    assert breakdown(tmp_path, *GAP, *work)[1]["step_gap"] == 90 - 30


@pytest.mark.parametrize(
    "evidence",
    [
        [drawn.python("queue.py(154): get", 70, 60)],
        [drawn.python("multiprocessing/connection.py(250): recv", 70, 60)],
        [drawn.python("<built-in method get of _queue.SimpleQueue object at 0x7f>", 70, 60)],
        [drawn.python("mine/dataloader.py(7): __next__", 70, 60)],
        [drawn.annotation("enumerate(DataLoader)#_Iter.__next__", 70, 60)],
        [drawn.launch(70, 5, 9, name="cudaMemcpyAsync"), drawn.kernel("Memcpy HtoD", 75, 5, 9, category="gpu_memcpy")],
    ],
    ids=lambda events: events[0]["name"],
)
def test_the_gap_is_a_data_wait_only_with_evidence(tmp_path: Path, evidence: list[drawn.Event]) -> None:
    assert breakdown(tmp_path, *GAP, *evidence)[1]["step_gap_cause"] == "data wait"


@pytest.mark.parametrize(
    "elsewhere",
    [
        [drawn.python("queue.py(154): get", 160, 10)],
        [drawn.python("queue.py(170): put", 70, 60)],
        [drawn.launch(70, 5, 9, name="cudaMemcpyAsync"), drawn.kernel("Memcpy DtoH", 75, 5, 9, category="gpu_memcpy")],
    ],
    ids=lambda events: events[0]["name"],
)
def test_what_is_elsewhere_or_something_else_is_no_evidence(tmp_path: Path, elsewhere: list[drawn.Event]) -> None:
    assert breakdown(tmp_path, *GAP, *elsewhere)[1]["step_gap_cause"] == "host gap"


def test_a_link_to_the_backward_pass_begins_a_forward_pass(tmp_path: Path) -> None:
    link = {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 1, "tid": 1, "ts": 0.17}
    assert breakdown(tmp_path, *GAP[:3], link)[1]["step_gap"] == 170 - 60
