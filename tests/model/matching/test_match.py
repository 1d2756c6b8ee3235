"""Which calls of different ranks are one collective: on real jobs, on simulated ones, and whatever their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import Selection, read
from kinetoscope.model.collectives.calls import CALLS, for_matching
from kinetoscope.model.matching.match import Matched, match
from tests.catalog.samples import SHARED, required
from tests.conftest import few_examples
from tests.simulator import Model, simulate


def calls_of(path: Path) -> pl.DataFrame:
    job = read(path, jobs=1)
    return pl.concat([for_matching(job.engine.trace(source), Selection()).frame for source in job.sources])


def sets_of(matched: Matched) -> list[list[int]]:
    """The ranks of each match, in order of its number."""
    found = matched.frame.drop_nulls("match").group_by("match").agg(pl.col("rank").sort()).sort("match")
    return [list(ranks) for ranks in found["rank"]]


def drawn(calls: list[dict[str, Any]]) -> pl.DataFrame:
    """Calls of a process group of four, where nothing else is said."""
    usual = {
        "kind": "all_reduce", "name": "nccl", "on_host": False, "group": "0 dp [0-3]", "group_name": "0",
        "group_description": "dp", "group_size": 4, "group_ranks": "0-3", "dtype": "float32", "bytes": 400, "step": 0,
        "exposed": 0, "host": None,
    }  # fmt: skip
    rows = [{"row": place, **usual, "end": call["start"] + 50, **call} for place, call in enumerate(calls)]
    schema = {column.name: column.dtype for column in CALLS} | {"rank": pl.Int64, "host": pl.String}
    return pl.DataFrame(rows, schema=schema)


# --- real jobs


def test_all_of_eight_ranks_of_dlrm() -> None:
    matched = match(calls_of(required(SHARED / "dlrm_ddp_v100_8rank")))
    assert (matched.calls, matched.unmatched) == (64, 0)
    assert sets_of(matched) == [list(range(8))] * 8
    each = matched.frame.group_by("match").agg(
        pl.col("kind").unique().first(),
        spread=pl.col("end").max() - pl.col("end").min(),
        last=pl.col("rank").sort_by("start").last(),
    )
    assert sorted(each["kind"].to_list()) == ["all_reduce"] * 3 + ["all_to_all"] * 5
    assert each["spread"].max() == 7_000
    assert each["last"].to_list().count(7) == 5
    assert set(matched.frame["matched_by"]) == {"shape"}


def test_two_of_128_ranks_that_name_no_group_are_not_paired() -> None:
    """They use several streams, so several groups, and whom they wait for may be one of those that are not here."""
    matched = match(calls_of(required(SHARED / "sampled_2rank")))
    assert (matched.calls, matched.unmatched) == (20, 20)
    assert "20 of 20 calls have no counterpart" in matched.notes[0]
    assert "several groups that act alike" in matched.notes[1]


def test_gloo_without_groups() -> None:
    matched = match(calls_of(required(SHARED / "torch_2_13_cpu") / "ddp4_*"))
    assert (matched.calls, matched.unmatched) == (156, 0)
    sets = sets_of(matched)
    assert (sets.count([0, 1, 2, 3]), sets.count([0, 1])) == (38, 2)
    # One all-reduce is of a group of two: no record says so, but that just these two took part in it does.
    groups = matched.frame.filter(bytes=20)["group"].unique().to_list()
    assert groups == ["1 half_pg [0-1]"]
    assert matched.frame.filter(bytes=64)["kind"].unique().sort().to_list() == ["all_gather", "broadcast"]


# --- simulated jobs

MODELS = [
    pytest.param(Model(ranks=8, tensor=2, pipeline=2, dialect=dialect, names="purpose", clock_offset=10_000_000,
                       clock_drift=20, seed=3), id=dialect)
    for dialect in ("2024-03", "2025", "2026", "rocm")
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_simulated_jobs_are_matched_without_fault(model: Model, tmp_path: Path) -> None:
    truth = simulate(model, tmp_path).collectives.select(
        "rank", "kind", true="match", start="start_recorded", end="end_recorded"
    )
    matched = match(calls_of(tmp_path))
    both = matched.frame.join(truth, on=["rank", "kind", "start", "end"], how="left")
    assert both["true"].null_count() == 0
    assert matched.unmatched == 0
    assert both.group_by("match").agg(pl.col("true").n_unique())["true"].max() == 1
    assert both["match"].n_unique() == both["true"].n_unique()


def test_a_rank_that_is_missing_silences_nobody(tmp_path: Path) -> None:
    simulate(Model(ranks=4, missing=(2,), dialect="2025", seed=1), tmp_path)
    matched = match(calls_of(tmp_path))
    assert matched.unmatched == 0
    assert set(map(tuple, sets_of(matched))) == {(0, 1, 3)}


# --- what is no match


def test_numbers_of_one_group_only() -> None:
    calls: list[dict[str, Any]] = [
        {"rank": 0, "start": 0, "seq": 1},
        {"rank": 1, "start": 10, "seq": 1},
        {"rank": 2, "start": 10, "seq": 1, "group": "1 dp [2-3]", "group_ranks": "2-3"},
        {"rank": 3, "start": 10, "seq": 2, "group": "1 dp [2-3]", "group_ranks": "2-3"},
        {"rank": 1, "start": 100, "seq": 2, "kind": "broadcast"},
        {"rank": 0, "start": 100, "seq": 2},
    ]
    matched = match(drawn(calls))
    assert matched.frame.sort("row")["match"].to_list() == [0, 0, None, None, None, None]


def test_what_was_launched_before_a_recording_spoils_nothing_that_is_known() -> None:
    """Each cycle of the profiler begins with one call of which the file does not say whose it is."""
    unknown = {
        "group": None,
        "group_name": None,
        "group_ranks": None,
        "kind": "other",
        "candidates": "",
        "launch": None,
    }
    calls: list[dict[str, Any]] = []
    for rank in range(4):
        for place in range(8):
            facts = unknown if place % 4 == 0 else {"launch": 1}
            start = 1_000_000 * (place + 50 * (place // 4)) + (7_000 * place * (rank + 1)) % 90_000
            calls.append(
                {"rank": rank, "start": start, "end": 1_000_000 * (place + 50 * (place // 4)) + 90_000, **facts}
            )
    frame = drawn(calls).with_columns(cycle=pl.Series([place // 4 for _ in range(4) for place in range(8)]))
    matched = match(frame)
    assert sets_of(matched) == [[0, 1, 2, 3]] * 6
    assert matched.frame.filter(pl.col("match").is_null())["kind"].unique().to_list() == ["other"]


def test_a_recording_that_ends_a_step_earlier_has_no_gaps() -> None:
    calls = [
        {"rank": rank, "start": 1_000_000 * place + 9_000 * rank, "end": 1_000_000 * place + 90_000, "group_size": 2,
         "group_ranks": "0-1", "profiler_step": place // 4}
        for rank, count in enumerate((12, 8)) for place in range(count)
    ]  # fmt: skip
    assert sets_of(match(drawn(calls))) == [[0, 1]] * 8


def test_a_number_that_occurs_twice_pairs_in_order() -> None:
    calls = [{"rank": rank, "start": start, "seq": 1} for rank in (0, 1) for start in (0, 100)]
    assert match(drawn(calls)).frame["match"].to_list() == [0, 1, 0, 1]


def test_numbers_of_point_to_point_work_tell_nothing() -> None:
    two: dict[str, Any] = {"kind": "send", "source_rank": 0, "destination_rank": 1, "group_size": 4}
    calls = [
        {"rank": 0, "start": 0, "seq": 5, **two},
        {"rank": 0, "start": 100, "seq": 6, **two},
        {"rank": 1, "start": 0, "seq": 1, **two, "kind": "recv"},
        {"rank": 1, "start": 100, "seq": 5, **two, "kind": "recv"},
    ]
    assert match(drawn(calls)).frame["match"].to_list() == [0, 1, 0, 1]


def test_ranks_of_a_group_come_from_those_who_know() -> None:
    known: dict[str, Any] = {"start": 0, "seq": 1}
    cut = {**known, "group": "0 dp (4 ranks)", "group_ranks": None}
    matched = match(drawn([{"rank": 0, **known}, {"rank": 1, **cut}, {"rank": 9, **cut}]))
    assert matched.frame["group"].to_list() == ["0 dp [0-3]", "0 dp [0-3]", "0 dp (4 ranks)"]
    assert matched.frame["match"].to_list() == [0, 0, None]


def test_other_ranks_that_do_the_same_in_groups_of_their_own_are_told_apart() -> None:
    open_ = {"candidates": "", "group": None, "group_name": None, "group_ranks": None, "group_size": None}
    times = [0, 90_000, 210_000, 300_000, 420_000, 500_000]
    late = [0, 20_000, 41_000, 18_000, 35_000, 2_000]  # the second pair's, otherwise each time
    calls = [
        {"rank": rank, "start": time + (delay if rank > 1 else 0), "end": time + delay * (rank > 1) + 60_000, **open_}
        for rank in range(4)
        for time, delay in zip(times, late, strict=True)
    ]
    assert sorted(map(tuple, sets_of(match(drawn(calls))))) == [(0, 1)] * 6 + [(2, 3)] * 6


def test_one_rank_and_none() -> None:
    alone = match(drawn([{"rank": 0, "start": 0}]))
    assert (alone.unmatched, alone.notes) == (1, ())
    assert match(drawn([])).frame.is_empty()


@few_examples
@given(seed=st.integers(0, 10**6), what=st.sampled_from(["order", "sequence", "shape"]))
def test_the_order_of_files_and_rows_changes_nothing(seed: int, what: str) -> None:
    extra: dict[str, Any] = {"candidates": "", "group": None} if what == "shape" else {}
    calls = [
        {"rank": rank, "start": 1000 * step + 7 * rank * (step % 3), "seq": step if what == "sequence" else None,
         "bytes": 100 * (step % 2 + 1), **extra}
        for rank in range(4) for step in range(8) if (rank, step) != (2, 3)
    ]  # fmt: skip
    frame = drawn(calls)
    shuffled = frame.sample(fraction=1, shuffle=True, seed=seed)
    assert match(shuffled).frame.equals(match(frame).frame)
