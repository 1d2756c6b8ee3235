from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
from polars.testing import assert_series_equal

from kinetoscope.model.stragglers.host_activity import before_collectives
from kinetoscope.model.stragglers.pipeline_stages import LAUNCHED, launched_before, same_stage, stages
from tests import drawn

SCHEMA: dict[str, Any] = {
    "rank": pl.Int64, "cycle": pl.Int64, "step": pl.Int64, "place": pl.Int64, "kind": pl.String,
    "destination_rank": pl.Int64, "on_host": pl.Boolean, "launch": pl.Int64, LAUNCHED: pl.Int32,
}  # fmt: skip


Program = dict[int, list[tuple[str, int | None]]]


def calls(program: Program, launched: dict[int, int] | None = None, *, on_host: bool = False) -> pl.DataFrame:
    """Two steps of each rank: kinds, and to whom it sends; `launched` kernels before each."""
    rows = [
        (rank, 0, step, place, kind, to, on_host, 7, (launched or {}).get(rank, 3))
        for rank, kinds in program.items()
        for step in range(2)
        for place, (kind, to) in enumerate(kinds, step * len(kinds))
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def divided(frame: pl.DataFrame | None) -> list[list[int]]:
    """Ranks of one code."""
    assert frame is not None
    return sorted(frame.sort("rank").group_by("stage").agg("rank")["rank"].to_list())


def test_stages_differ_in_what_they_send() -> None:
    program: Program = {0: [("send", 2)], 1: [("send", 3)], 2: [("recv", 2)], 3: []}
    frame = calls(program | {3: [("recv", 3)]})
    assert divided(stages(frame)) == [[0, 1], [2, 3]]


def test_who_is_in_other_collectives_does_something_else() -> None:
    reduce: list[tuple[str, int | None]] = [("all_reduce", None)]
    assert divided(same_stage(calls({0: reduce, 1: reduce, 2: reduce * 2, 3: [("broadcast", None)]}))) == [
        [0, 1],
        [2],
        [3],
    ]


def test_where_nobody_says_to_whom_it_sends_the_program_tells() -> None:
    """All send and reduce; the first stage launches 3 kernels before each, the last 5."""
    program: Program = {rank: [("send", None), ("all_reduce", None)] for rank in range(4)}
    assert divided(same_stage(calls(program, {2: 5, 3: 5}))) == [[0, 1], [2, 3]]
    turned = program | {1: program[1][::-1]}
    assert divided(same_stage(calls(turned, {2: 5, 3: 5}))) == [[0], [1], [2, 3]]


def test_what_was_launched_before_a_step_is_not_of_its_program() -> None:
    """Of ranks 0 and 1, which do the same, one was recorded from the middle of a step on."""
    frame = calls({rank: [("send", None), ("all_reduce", None)] for rank in range(2)})
    first = (pl.col("rank") == 1) & (pl.col("place") % 2 == 0)
    assert divided(same_stage(frame.with_columns(pl.when(first).then(9).otherwise(LAUNCHED).alias(LAUNCHED)))) == [
        [0, 1]
    ]


def test_what_is_left_of_before_the_recording_makes_no_stage() -> None:
    frame = calls({0: [("all_reduce", None)], 1: [("all_reduce", None)]})
    leftover = frame.head(1).with_columns(kind=pl.lit("send_recv"), step=pl.lit(None, pl.Int64))
    assert divided(stages(pl.concat([frame, *[leftover] * 5]))) == [[0, 1]]


def test_on_hosts_it_does_not() -> None:
    assert same_stage(calls({0: [("send", None)], 1: [("send", None)]}, on_host=True)) is None
    assert divided(same_stage(calls({0: [("all_reduce", None)], 1: [("all_reduce", None)]}, on_host=True))) == [[0, 1]]


def test_what_was_launched_since_the_collective_before(tmp_path: Path) -> None:
    def work(name: str, launched: int, start: int, number: int) -> list[drawn.Event]:
        return [drawn.launch(launched, 5, number), drawn.kernel(name, start, 10, number, stream=9)]

    reduce = "ncclDevKernel_AllReduce_Sum_f32"
    events = [
        *work("gemm", 0, 100, 1),
        *work("gemm", 10, 110, 2),
        *work(reduce, 20, 120, 3),
        *work(reduce, 30, 130, 4),
        *work("gemm", 40, 140, 5),
        *work(reduce, 50, 150, 6),
    ]
    trace = drawn.job(tmp_path, *events).trace(0)
    found = launched_before(trace, before_collectives(trace))
    assert_series_equal(found, pl.Series(LAUNCHED, [2, 0, 1], pl.Int32))
