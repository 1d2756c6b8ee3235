from __future__ import annotations

import polars as pl
import pytest

from kinetoscope.model.stragglers.attribution import CAUSES
from kinetoscope.model.stragglers.delays import DELAY, delays_by_step
from kinetoscope.model.stragglers.own_time import COLUMNS, IN_COLLECTIVES, ON_HOST
from kinetoscope.model.stragglers.pipeline_stages import LAUNCHED

STEP = 1000
LATE = 100
"""What rank 2 does more in each step."""

RANKS = 4

FACTS = {
    "rank": pl.Int64, "step": pl.Int64, "step_time": pl.Int64, "calls": pl.Int64, "last": pl.Int64, "late": pl.Int64,
    "carried": pl.Int64, "lost": pl.Int64,
}  # fmt: skip
COSTS = pl.DataFrame(schema=FACTS | dict.fromkeys((*CAUSES, *(DELAY + name for name in CAUSES)), pl.Int64))


def cells(steps: int = 4, *, late: int = LATE, inside: int = LATE, alone: int = LATE) -> pl.DataFrame:
    """All load data for 300 and compute for 500, rank 2 loads more; it is in collectives for less."""
    rows = []
    for rank in range(RANKS):
        for step in range(steps):
            at_fault = rank == 2
            more = {"own computation": 500, "own data loading": 300 + late * at_fault}
            own = dict.fromkeys((*COLUMNS, *ON_HOST.values()), 0) | more
            waits = {IN_COLLECTIVES[0]: 300 - inside * at_fault, IN_COLLECTIVES[1]: 200 - alone * at_fault}
            rows.append({"rank": rank, "step": step, "step_time": STEP, "calls": 1} | own | waits)
    return pl.DataFrame(rows)


def calls(world: int | None = RANKS, kind: str = "all_reduce") -> pl.DataFrame:
    rows = [(rank, 0, 0, 0, kind if rank == 2 else "all_reduce", None, False, 1, 1, world) for rank in range(RANKS)]
    names = ("rank", "cycle", "step", "place", "kind", "destination_rank", "on_host", "launch", LAUNCHED, "world")
    return pl.DataFrame(rows, schema=names, orient="row")


def asked(table: pl.DataFrame, who: pl.DataFrame | None = None, costs: pl.DataFrame = COSTS) -> dict[int, int]:
    """What each rank costs in all."""
    found = delays_by_step(table, calls() if who is None else who, costs, STEP)
    assert found is not None
    assert found.columns == costs.columns
    assert found.select(pl.sum_horizontal(CAUSES) == pl.col("lost")).to_series().all()
    return dict(found.group_by("rank").agg(pl.col("lost").sum()).filter(pl.col("lost") > 0).iter_rows())


def test_it_costs_each_of_the_others_what_it_does_more() -> None:
    found = delays_by_step(cells(), calls(), COSTS, STEP)
    assert found is not None
    mine = found.filter(rank=2)
    assert mine["data loading"].to_list() == [3 * LATE] * 4
    assert mine[DELAY + "data loading"].to_list() == [LATE] * 4
    assert mine.select("step_time", "calls", "last", "late").row(0) == (STEP, 0, 0, None)
    assert asked(cells()) == {2: 4 * 3 * LATE}


@pytest.mark.parametrize(("inside", "alone", "each"), [(60, 100, 60), (100, 80, 80), (0, 100, 0), (100, 0, 0)])
def test_no_more_than_the_others_are_in_collectives_longer_and_do_not_compute(
    inside: int, alone: int, each: int
) -> None:
    """That it hides more of a transfer, as it computes for longer, costs nobody anything."""
    assert asked(cells(inside=inside, alone=alone)) == ({2: 4 * 3 * each} if each else {})


def test_who_waits_less_but_does_no_more_costs_nothing() -> None:
    assert asked(cells(late=0)) == {}


def test_who_does_less_than_half_as_much_more_may_just_hide_less() -> None:
    def also(each: int) -> pl.DataFrame:
        more = {"own data loading": each, IN_COLLECTIVES[0]: -each, IN_COLLECTIVES[1]: -each}
        who = pl.col("rank") == 3
        return cells().with_columns(pl.col(name) + pl.when(who).then(by).otherwise(0) for name, by in more.items())

    assert asked(also(LATE * 4 // 10)).keys() == {2}
    assert asked(also(LATE * 6 // 10)).keys() == {2, 3}


def test_what_was_there_once_is_no_habit() -> None:
    usual = cells(late=0, inside=0, alone=0).filter(pl.col("step") != 1)
    assert asked(pl.concat([usual, cells().filter(step=1)])) == {}


def test_what_was_there_once_is_one_if_the_host_does_it_in_each_step() -> None:
    usual = cells(late=0, inside=0, alone=0).filter(pl.col("step") != 1)
    table = pl.concat([usual, cells().filter(step=1)])
    late = pl.when(rank=2).then(LATE).otherwise(0).alias(ON_HOST["data loading"])
    assert asked(table.with_columns(late)) == {2: 3 * LATE}
    waits_as_long = table.with_columns(pl.lit(300).alias(name) for name in IN_COLLECTIVES)
    assert asked(waits_as_long.with_columns(late)) == {}


def test_nothing_is_told_without_peers_steps_or_most_of_the_ranks() -> None:
    assert asked(cells(), calls(kind="broadcast")) == {}
    two = pl.col("rank") >= 2
    assert asked(cells().filter(two), calls(kind="broadcast").filter(two).with_columns(world=2)) == {}
    assert delays_by_step(cells(steps=2), calls(), COSTS, STEP) is None
    assert delays_by_step(cells(), calls(world=2 * RANKS), COSTS, STEP) is None
    unmarked = cells().with_columns(pl.lit(None, pl.Int64).alias(name) for name in IN_COLLECTIVES)
    assert delays_by_step(unmarked, calls(), COSTS, STEP) is None
    assert asked(cells(), calls(world=None).with_columns(pl.col("world").cast(pl.Int64))) == {2: 4 * 3 * LATE}


def test_what_is_known_of_matched_collectives_is_kept() -> None:
    known = pl.DataFrame([{"rank": 2, "step": 0, "calls": 5, "last": 4, "late": 9, "carried": 1}], schema=FACTS)
    found = delays_by_step(cells(), calls(), pl.concat([COSTS, known], how="diagonal"), STEP)
    assert found is not None
    assert found.filter(rank=2, step=0).select("calls", "last", "late", "carried").rows() == [(5, 4, 9, 1)]
