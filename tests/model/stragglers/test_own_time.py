from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from kinetoscope.algorithms.outliers import excess
from kinetoscope.model.steps.scope import scope
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.model.stragglers.own_time import (
    COLUMNS,
    IN_COLLECTIVES,
    ON_HOST,
    OWN,
    is_constant,
    own_steps,
    own_time,
)
from tests import drawn


def steps_of(folder: Path, select: Selection = ALL) -> pl.DataFrame:
    """Two steps: 30 of computation, 40 of communication of which it hides 10, a copy of 5, data loading of 12."""
    job = drawn.job(
        folder,
        drawn.annotation("ProfilerStep#1", 0, 100),
        drawn.annotation("ProfilerStep#2", 110, 50),
        drawn.kernel("gemm", 10, 30, 1),
        drawn.kernel("ncclDevKernel_AllReduce_Sum_f32", 30, 40, 2, stream=9),
        drawn.kernel("Memcpy HtoD (Pinned -> Device)", 75, 5, 3) | {"cat": "gpu_memcpy"},
        drawn.annotation("enumerate(DataLoader)#_Single.__next__", 78, 14),
        drawn.kernel("gemm", 120, 40, 4),
    )
    return own_steps(scope(job.trace(0), select))


def test_a_step_is_all_own_time_but_for_collectives_and_lasts_until_the_next(tmp_path: Path) -> None:
    table = steps_of(tmp_path)
    assert table["step"].to_list() == [1, 2]
    own = dict(zip(OWN, table.select(COLUMNS).row(0), strict=True))
    assert (own["computation"], own["memory copies"], own["data loading"]) == (30, 5, 12)
    assert sum(own.values()) == 110 - 30  # of communication 30 are exposed
    assert table.select(pl.sum_horizontal(COLUMNS)).to_series().to_list() == [80, 50]


def test_time_in_collectives_is_what_it_is_with_and_without_computation(tmp_path: Path) -> None:
    assert steps_of(tmp_path).select(IN_COLLECTIVES).rows() == [(40, 30), (0, 0)]


def test_steps_that_nothing_numbers_are_not_compared_by_time_in_collectives(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, drawn.kernel("gemm", 10, 30, 1))
    assert own_steps(scope(job.trace(0), ALL)).select(IN_COLLECTIVES).rows() == [(None, None)]


def test_a_range_of_time_cuts_steps(tmp_path: Path) -> None:
    table = steps_of(tmp_path, Selection(time=(0, 20)))
    assert table.select("step", pl.sum_horizontal(COLUMNS)).rows() == [(1, 20)]


def test_what_the_host_did_is_known_whether_hidden_or_not(tmp_path: Path) -> None:
    """Of the first step, until 110, 14 load data and 96 are not recorded; hidden is nearly all of both."""
    assert steps_of(tmp_path).select(ON_HOST.values()).rows() == [(14, 96), (0, 50)]


def test_python_functions_alone_are_nothing(tmp_path: Path) -> None:
    events = [drawn.annotation("ProfilerStep#1", 0, 100), drawn.python("train.py(3): wait", 0, 100)]
    job = drawn.job(tmp_path, *events, drawn.op("aten::mm", 10, 30), drawn.kernel("gemm", 20, 30, 1))
    assert own_steps(scope(job.trace(0), ALL)).select(ON_HOST.values()).rows() == [(0, 70)]


def test_of_steps_that_nothing_numbers_the_host_is_not_compared(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, drawn.kernel("gemm", 10, 30, 1))
    table = own_steps(scope(job.trace(0), ALL)).with_columns(rank=pl.lit(0), calls=1)
    assert table.select(ON_HOST.values()).rows() == [(None, None)]
    stages = pl.DataFrame({"rank": [0], "stage": [1]}, schema_overrides={"stage": pl.Int32})
    assert own_time(table, stages, 100).on_host == {}


@pytest.mark.parametrize(
    ("seen", "hosts", "expected"),
    [
        ([90, 0, 0, 0], [90, 91, 89, 90], True),
        ([90, 0, 0, 0], [90, 0, 0, 0], False),  # an accident
        ([90, 0, 0, 0], [40, 40, 40, 40], False),  # and something small that is always so
        ([90, 0, 0, 0], [50, 50, 50, 50], True),
    ],
)
def test_what_hosts_do_in_each_step_is_no_accident(seen: list[int], hosts: list[int], expected: bool) -> None:
    kind = np.ones(4, np.int32)
    others = np.zeros((3, 4))
    above = [excess(np.vstack([others, each]).astype(np.float64), kind, 1.0) for each in (seen, hosts)]
    assert is_constant(*above).tolist() == [False, False, False, expected]


def cells(times: dict[int, list[int]], calls: dict[tuple[int, int], int]) -> pl.DataFrame:
    """Computation of each rank in each step."""
    return pl.DataFrame(
        [
            {"rank": rank, "step": step, "calls": calls.get((rank, step), 4)}
            | dict.fromkeys((*COLUMNS, *ON_HOST.values()), 0)
            | {"own computation": time}
            for rank, series in times.items()
            for step, time in enumerate(series)
        ]
    )


def test_only_ranks_of_one_stage_are_compared() -> None:
    stages = pl.DataFrame({"rank": [0, 1, 2, 3], "stage": [1, 1, 2, 2]}, schema_overrides={"stage": pl.Int32})
    own = own_time(cells({0: [10] * 4, 1: [10] * 4, 2: [50] * 4, 3: [57] * 4}, {}), stages, 100)
    assert own.above.level.tolist() == [0, 0, -7, 7]
    assert own.causes[OWN.index("computation")].level.tolist() == [0, 0, -7, 7]


@pytest.mark.parametrize(("calls", "expected"), [(1, 0.0), (4, -4.0)])
def test_a_step_that_is_cut_off_is_not_compared(calls: int, expected: float) -> None:
    stages = pl.DataFrame({"rank": [0, 1], "stage": [1, 1]}, schema_overrides={"stage": pl.Int32})
    own = own_time(cells({0: [10, 10, 10, 10], 1: [10, 10, 10, 2]}, {(1, 3): calls}), stages, 100)
    assert own.above.each[1].sum(where=own.above.each[1] == own.above.each[1]) == pytest.approx(2 * expected)
