from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import Selection, launches, read
from tests import drawn
from tests.catalog.samples import SHARED, required

COLUMNS = ("start", "name", "duration", "delay", "work_duration", "work_name", "work")


def rows(
    folder: Path, *events: drawn.Event, columns: tuple[str, ...] = COLUMNS, **select: Any
) -> list[tuple[Any, ...]]:
    return launches(drawn.job(folder, *events), select=Selection(**select)).frame.select(columns).rows()


def test_a_row_is_a_call_and_what_it_launched(tmp_path: Path) -> None:
    events = [
        drawn.op("aten::mm", 90, 100),
        drawn.launch(100, 10, 1),
        drawn.kernel("gemm", 150, 7, 1, stream=7),
        drawn.launch(120, 30, 2, name="cuLaunchKernelEx"),
        drawn.kernel("triton", 140, 5, 2, stream=9, device=1),  # begins before its call is over
    ]
    assert rows(tmp_path, *events) == [
        (10, "cudaLaunchKernel", 10, 40, 7, "gemm", 1),
        (30, "cuLaunchKernelEx", 30, 0, 5, "triton", 1),
    ]
    others = ("kind", "device", "stream", "thread", "operator", "correlation")
    assert rows(tmp_path, *events, columns=others) == [
        ("computation", 0, 7, 1, "aten::mm", 1),
        ("computation", 1, 9, 1, "aten::mm", 2),
    ]


def test_a_graph_is_one_row_with_the_union_of_its_kernels(tmp_path: Path) -> None:
    events = [
        drawn.launch(0, 10, 1, name="hipGraphLaunch"),
        drawn.kernel("second", 60, 10, 1, stream=7),
        drawn.kernel("first", 50, 15, 1, stream=8),
        drawn.kernel("third", 100, 5, 1, stream=7),
    ]
    assert rows(tmp_path, *events) == [(0, "hipGraphLaunch", 10, 40, 25, "first", 3)]
    assert rows(tmp_path, *events, streams=(8,)) == [(0, "hipGraphLaunch", 10, 40, 25, "first", 3)]
    assert rows(tmp_path, *events, streams=(7,)) == []  # by the first work


def test_a_call_whose_work_was_not_recorded_has_no_delay(tmp_path: Path) -> None:
    events = [
        drawn.launch(0, 10, 1),
        drawn.launch(20, 10, 2, name="cudaMemcpyAsync"),
        drawn.launch(40, 10, 3, name="cudaStreamSynchronize"),  # launches nothing
        drawn.kernel("gemm", 15, 5, 1),
        drawn.kernel("alone", 60, 5, 77),
    ]
    result = launches(drawn.job(tmp_path, *events))
    assert result.frame.select(COLUMNS).rows() == [
        (0, "cudaLaunchKernel", 10, 5, 5, "gemm", 1),
        (20, "cudaMemcpyAsync", 10, None, None, None, 0),
    ]
    assert result.notes == (
        "1 of 2 pieces of device work have no recorded launch and are left out.",
        "Of 1 of 2 calls the work was not recorded: their delay is not known.",
    )


def test_a_driver_call_inside_the_call_that_launched_is_no_launch_of_its_own(tmp_path: Path) -> None:
    events = [drawn.launch(0, 10, 1), drawn.launch(2, 6, 1, name="cuLaunchKernel"), drawn.kernel("gemm", 15, 5, 1)]
    assert [row[1] for row in rows(tmp_path, *events)] == ["cudaLaunchKernel"]


def test_selections_choose_calls_by_when_they_start(tmp_path: Path) -> None:
    events = [drawn.annotation(f"ProfilerStep#{n}", 100 * n, 100) for n in (0, 1)]
    for n in range(4):
        events += [drawn.launch(50 * n, 10, n + 1, tid=1 + n % 2), drawn.kernel("k", 500 + 10 * n, 10, n + 1, stream=n)]
    correlation = ("correlation",)
    assert rows(tmp_path, *events, columns=correlation, steps=(1,)) == [(3,), (4,)]
    assert rows(tmp_path, *events, columns=correlation, time=(50, 150)) == [(2,), (3,)]  # whenever the work runs
    assert rows(tmp_path, *events, columns=correlation, threads=(2,)) == [(2,), (4,)]
    assert rows(tmp_path, *events, columns=correlation, streams=(0, 3)) == [(1,), (4,)]
    assert rows(tmp_path, *events, columns=correlation, time=(300, 400)) == []


def test_without_launches_it_says_so(tmp_path: Path) -> None:
    result = launches(drawn.job(tmp_path, drawn.kernel("gemm", 0, 9, 1)))
    assert (len(result), result.notes[-1]) == (0, "No call that launches device work was recorded.")


calls = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), min_size=1, max_size=5)
works = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9), st.integers(0, 6)), max_size=12)


@given(calls, works)
def test_it_equals_a_count_of_instants(
    tmp_path: Path, calls: list[tuple[int, int]], works: list[tuple[int, int, int]]
) -> None:
    events = [drawn.launch(start, duration, place + 1) for place, (start, duration) in enumerate(calls)]
    events += [drawn.kernel("k", start, duration, place) for start, duration, place in works]
    origin = min(event["ts"] for event in events) * 1000
    expected = []
    for place, (start, duration) in enumerate(calls):
        own = [(first, first + length) for first, length, of in works if of == place + 1]
        instants = {instant for first, last in own for instant in range(first, last)}
        delay = max(min(own)[0] - start - duration, 0) if own else None
        expected.append((start - origin, place + 1, duration, delay, len(instants) if own else None, len(own)))
    found = rows(tmp_path, *events, columns=("start", "correlation", "duration", "delay", "work_duration", "work"))
    assert found == sorted(expected)


# --- launches that HTA does not know


@pytest.mark.parametrize(
    ("trace", "names"),
    [
        ("owlv2_h100", {"cuLaunchKernel": 725, "cudaLaunchKernelExC": 745}),
        ("mi250_train", {"hipLaunchKernel": 12, "hipExtModuleLaunchKernel": 2, "hipMemcpyWithStream": 2}),
        ("resnet_ddp_mi300", {"hipExtModuleLaunchKernel": 1167, "hipLaunchKernel": 1059, "hipExtLaunchKernel": 12}),
    ],
)
def test_launches_of_the_driver_and_of_rocm_are_there(trace: str, names: dict[str, int]) -> None:
    frame = launches(read(required(SHARED / trace))).frame
    counts = dict(frame.filter(pl.col("delay").is_not_null())["name"].value_counts().rows())
    assert {name: counts[name] for name in names} == names
