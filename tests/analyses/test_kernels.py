"""Kernels: on drawn traces, and against a brute-force twin."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import kernels
from kinetoscope.analyses.kernels import ANALYSIS, RESULT, GroupBy
from kinetoscope.errors import UsageError
from kinetoscope.model.steps.selection import ALL, Selection
from tests.drawn import Event, annotation, job, kernel, launch, op
from tests.notes import codes

Row = dict[str, Any]


def filled(blocks: float, occupancy: float, *, grid: int = 8) -> dict[str, Any]:
    return {
        "blocks per SM": blocks,
        "est. achieved occupancy %": occupancy,
        "grid": [grid, 1, 1],
        "block": [128, 1, 1],
        "registers per thread": 32,
        "shared memory": 0,
    }


def rows(
    folder: Path, *events: Event, select: Selection = ALL, group_by: GroupBy = "name", copies: bool = False
) -> list[Row]:
    return kernels(job(folder, *events), select=select, group_by=group_by, copies=copies).frame.to_dicts()


# --- drawn


def test_one_row_a_name_sorted_by_total(tmp_path: Path) -> None:
    events = [kernel("b", 100, 10, 1), kernel("a", 200, 30, 2), kernel("a", 300, 40, 3), kernel("c", 400, 10, 4)]
    found = rows(tmp_path, *events)
    columns = ("rank", "name", "kind", "calls", "total", "mean", "median", "min", "max", "p99")
    assert [tuple(row[column] for column in columns) for row in found] == [
        (0, "a", "computation", 2, 70, 35, 35, 30, 40, 40),
        (0, "b", "computation", 1, 10, 10, 10, 10, 10, 10),
        (0, "c", "computation", 1, 10, 10, 10, 10, 10, 10),
    ]
    assert [row["share"] for row in found] == pytest.approx([7 / 9, 1 / 9, 1 / 9])


def test_by_the_annotations_around_the_launch(tmp_path: Path) -> None:
    events = [
        *(annotation("forward", 0, 100), annotation("block", 10, 40)),
        *(launch(20, 5, 1), launch(60, 5, 2), launch(200, 5, 3)),
        *(kernel("a", 300, 30, 1), kernel("a", 400, 20, 2), kernel("a", 500, 10, 3)),
    ]
    found = rows(tmp_path, *events, group_by="annotation")
    assert [(row["annotations"], row["total"]) for row in found] == [
        ("forward > block", 30),
        ("forward", 20),
        (None, 10),
    ]
    assert [(row["annotations"], row["total"]) for row in rows(tmp_path, *events)] == [(None, 60)]


def test_the_99th_percentile_is_a_duration_that_occurred(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, *(kernel("a", 1000 * n, n, n) for n in range(1, 201)))
    assert (row["median"], row["p99"], row["max"]) == (101, 198, 200)


def test_copies_are_listed_on_request_and_always_part_of_the_whole(tmp_path: Path) -> None:
    events = [kernel("a", 100, 30, 1), kernel("Memcpy HtoD", 200, 10, 2, category="gpu_memcpy")]
    assert [(row["name"], row["share"]) for row in rows(tmp_path, *events)] == [("a", 0.75)]
    assert [(row["kind"], row["matrix_unit"]) for row in rows(tmp_path, *events, copies=True)] == [
        ("computation", "unknown"),
        ("memcpy", "no"),
    ]


def test_a_name_of_two_kinds_has_two_rows(tmp_path: Path) -> None:
    events = [op("nccl:all_reduce", 0, 50), launch(10, 5, 1), kernel("div", 100, 9, 1), kernel("div", 200, 5, 2)]
    assert [(row["kind"], row["total"]) for row in rows(tmp_path, *events)] == [
        ("communication", 9),
        ("computation", 5),
    ]


def test_means_leave_out_what_is_missing(tmp_path: Path) -> None:
    events = [
        kernel("a", 100, 30, 1, **filled(2, 50)),
        kernel("a", 200, 10, 2, **filled(4, 0)),
        kernel("a", 300, 60, 3),
    ]
    result = kernels(job(tmp_path, *events))
    (row,) = result.frame.to_dicts()
    assert (row["blocks_per_sm"], row["occupancy"]) == (pytest.approx(2.5), pytest.approx(0.375))
    assert "1 of 3 kernels (60.0% of their time) have no occupancy; the means leave them out." in result.notes


def test_what_nobody_recorded_is_null_with_the_reason(tmp_path: Path) -> None:
    result = kernels(job(tmp_path, kernel("a", 100, 30, 1)))
    assert result.frame["occupancy"].to_list() == result.frame["blocks_per_sm"].to_list() == [None]
    assert "NO_KERNEL_HAS" in codes(result.notes)


def test_calls_without_duration_have_a_plain_mean(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, kernel("a", 100, 0, 1, **filled(2, 50)), kernel("a", 200, 0, 2, **filled(4, 50)))
    assert (row["total"], row["blocks_per_sm"], row["share"]) == (0, 3.0, None)


def test_launch_configurations_are_told_apart(tmp_path: Path) -> None:
    events = [
        op("aten::mm", 0, 50),
        launch(10, 5, 1),
        launch(20, 5, 2),
        op("aten::bmm", 60, 50),
        launch(70, 5, 3),
        kernel("gemm", 100, 10, 1, **filled(1, 1)),
        kernel("gemm", 200, 10, 2, **filled(2, 1, grid=16)),
        kernel("gemm", 300, 10, 3, **filled(1, 1)),
        kernel("gemm", 400, 10, 4, **filled(1, 1)),
    ]
    found = rows(tmp_path, *events, group_by="launch")
    assert [(row["operator"], row["grid"], row["calls"]) for row in found] == [
        ("aten::bmm", "[8, 1, 1]", 1),
        ("aten::mm", "[16, 1, 1]", 1),
        ("aten::mm", "[8, 1, 1]", 1),
        (None, "[8, 1, 1]", 1),
    ]
    (row,) = rows(tmp_path, *events)
    shared = (row["operator"], row["grid"], row["block"], row["registers"], row["shared_memory"])
    assert shared == (None, None, "[128, 1, 1]", 32, 0)


def test_a_selection_of_steps(tmp_path: Path) -> None:
    steps = [annotation(f"ProfilerStep#{n}", 1000 * n, 900) for n in (1, 2)]
    launches = [launch(1_100, 5, 1), launch(2_100, 5, 2)]
    events = [*steps, *launches, kernel("a", 2_500, 10, 1), kernel("a", 2_600, 20, 2)]
    assert [row["total"] for row in rows(tmp_path, *events, select=Selection(steps=(1,)))] == [10]


def test_a_time_range_clips_totals_and_counts_what_starts_in_it(tmp_path: Path) -> None:
    events = [kernel("a", 0, 100, 1), kernel("a", 150, 100, 2), kernel("b", 0, 60, 3, stream=8)]
    found = {row["name"]: row for row in rows(tmp_path, *events, select=Selection(time=(50, 200)))}
    assert (found["a"]["total"], found["a"]["calls"], found["a"]["max"]) == (100, 1, 100)
    assert (found["b"]["total"], found["b"]["calls"], found["b"]["max"]) == (10, 0, None)


def test_by_an_argument_that_somebody_chose(tmp_path: Path) -> None:
    events = [
        kernel("gemm", 0, 10, 1, module_fqn="layers.0"),
        kernel("gemm", 10, 20, 1, module_fqn="layers.1"),
        kernel("gemm", 30, 30, 1, module_fqn="layers.1", priority=3),
        kernel("gemm", 60, 5, 1),
    ]

    def table(**asked: Any) -> list[dict[str, Any]]:
        return kernels(job(tmp_path, *events), **asked).frame.to_dicts()

    assert [(row["argument"], row["total"]) for row in table(argument="module_fqn")] == [
        ("layers.1", 50),
        ("layers.0", 10),
        (None, 5),
    ]
    assert [(row["argument"], row["total"]) for row in table(argument="priority")] == [
        (None, 35),
        ("3", 30),
    ]
    note = "Kernels are annotated: argument=module_fqn groups them by that."
    assert note in kernels(job(tmp_path, *events)).notes
    with pytest.raises(UsageError, match=r"'layer'; of annotations there are: module_fqn"):
        kernels(job(tmp_path, *events), argument="layer")


def test_nothing_to_list(tmp_path: Path) -> None:
    copies = kernels(job(tmp_path, kernel("Memcpy HtoD", 200, 10, 2, category="gpu_memcpy")))
    assert (len(copies), copies.notes) == (0, ("No kernels in what was selected.",))


def test_the_declared_schema_is_the_result(tmp_path: Path) -> None:
    result = ANALYSIS(job(tmp_path, kernel("a", 100, 30, 1)), group_by="launch", copies=True)
    assert result.frame.schema == RESULT.empty().schema


# --- a brute-force twin

NUMBERS = st.integers(0, 5)
KERNELS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30), NUMBERS, st.none() | NUMBERS), min_size=1)


@given(drawn=KERNELS)
def test_statistics_are_those_of_a_plain_program(tmp_path_factory: pytest.TempPathFactory, drawn: list[Any]) -> None:
    events = []
    for number, (name, duration, grid, occupancy) in enumerate(drawn):
        args = {"grid": [grid]} | ({} if occupancy is None else {"est. achieved occupancy %": occupancy})
        events.append(kernel(name, 100 * number, duration, number + 1, **args))
    groups: dict[tuple[str, str], list[tuple[int, float | None]]] = defaultdict(list)
    for name, duration, grid, occupancy in drawn:
        groups[name, f"[{grid}]"].append((duration, occupancy))
    found = rows(tmp_path_factory.mktemp("drawn"), *events, group_by="launch")
    assert {(row["name"], row["grid"]) for row in found} == set(groups)
    assert [row["total"] for row in found] == sorted((row["total"] for row in found), reverse=True)
    for row in found:
        calls = groups[row["name"], row["grid"]]
        durations = sorted(duration for duration, _ in calls)
        assert (row["calls"], row["total"]) == (len(calls), sum(durations))
        assert (row["min"], row["max"]) == (durations[0], durations[-1])
        assert row["median"] == math.floor(np.median(durations) + 0.5)
        assert row["p99"] == durations[math.ceil(len(calls) * 99 / 100) - 1]
        assert abs(row["mean"] - sum(durations) / len(calls)) <= 0.5
        assert row["occupancy"] == weighted(calls)


def weighted(calls: list[tuple[int, float | None]]) -> Any:
    known = [(duration, occupancy / 100) for duration, occupancy in calls if occupancy is not None]
    if not known:
        return None
    if not sum(duration for duration, _ in known):
        known = [(1, occupancy) for _, occupancy in known]
    return pytest.approx(sum(d * o for d, o in known) / sum(d for d, _ in known))
