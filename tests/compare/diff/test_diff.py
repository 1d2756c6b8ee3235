"""The difference of two runs: complete, aligned, and with no difference where there is none."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.analyses import named
from kinetoscope.compare.diff.diff import Diff, _rounded, between, diff
from kinetoscope.compare.diff.normalize_names import normalized
from kinetoscope.compare.diff.run_profile import VARYING_SHAPES, RunProfile, run_profile
from kinetoscope.errors import InputError
from kinetoscope.model.execution.marks import MODULE
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.reading import read
from tests.catalog.samples import required
from tests.compare.drawing import call, loop
from tests.conftest import OURS, ROOT
from tests.drawn import Event, annotation, kernel, launch, op, python, written
from tests.notes import codes

GOLDEN = ROOT.parent / "shared" / "golden" / "hta" / "trace_diff.json"
STEADY = Selection(steps="steady")


def compared(folder: Path, base: list[Event], new: list[Event], steps: int = 3) -> Diff:
    """Two runs of alike steps."""
    found = diff(loop(folder / "base", *([base] * steps)), loop(folder / "new", *([new] * steps)))
    assert_complete(found)
    return found


def assert_complete(found: Diff) -> None:
    """Rows and parts sum to the whole, without residue."""
    rows, fall = found.rows.frame, found.waterfall.frame
    assert [rows.get_column(name).sum() for name in ("base", "new", "change")] == [found.base, found.new, found.change]
    categories = fall.filter(pl.col("part").is_null())
    assert categories.get_column("change").sum() == found.change
    assert (rows.get_column("new") - rows.get_column("base") == rows.get_column("change")).all()
    for category, change, begin, end in categories.select("category", "change", "from_time", "to_time").rows():
        assert end - begin == change
        parts = fall.filter((pl.col("category") == category) & pl.col("part").is_not_null())
        assert not parts.height or parts.get_column("change").sum() == change
    assert categories.get_column("from_time").head(1).to_list() == [found.base]
    assert categories.get_column("to_time").tail(1).to_list() == [found.new]


def row(found: Diff, name: str) -> dict[str, Any]:
    rows = found.rows.frame.filter(pl.col("name") == name).to_dicts()
    assert len(rows) == 1, rows
    return rows[0]


# --- sums


@given(st.lists(st.integers(0, 10**12), max_size=40), st.integers(1, 97))
def test_rounding_is_by_less_than_a_nanosecond_and_keeps_the_sum(totals: list[int], count: int) -> None:
    found = _rounded(totals, count)
    assert all(abs(whole - Fraction(total, count)) < 1 for whole, total in zip(found, totals, strict=True))
    assert abs(sum(found) - Fraction(sum(totals), count)) <= Fraction(1, 2)
    assert all(whole == 0 for whole, total in zip(found, totals, strict=True) if not total)


def mean_step(job: Job) -> Fraction:
    lengths = named("step_breakdown")(job, select=STEADY).frame.get_column("duration")
    return Fraction(int(lengths.sum()), len(lengths))


def test_data_loading_is_what_more_workers_change(shared_traces: Path) -> None:
    runs = [read(str(shared_traces / "resnet50_v100" / f"num_workers_{n}")) for n in (0, 4)]
    found = diff(*runs)
    assert_complete(found)
    assert abs(found.base - mean_step(runs[0])) <= Fraction(1, 2)
    assert abs(found.new - mean_step(runs[1])) <= Fraction(1, 2)
    assert found.sentence.startswith(
        "A step takes 18.7% less time: 166 ms → 135 ms; data loading −47.1 ms".replace(" ms", "\xa0ms")
    )
    assert found.verdict.word == "better"
    first = found.rows.frame.row(0, named=True)
    assert (first["name"], first["status"], first["verdict"]) == ("enumerate(DataLoader)", "faster calls", "better")
    assert found.waterfall.frame.row(0, named=True)["category"] == "data_loading"
    # The bars of the plugin's diff of the same pair were six of the optimizer.
    assert not found.rows.frame.head(8).get_column("name").str.contains("Optimizer").any()


def test_a_run_does_not_differ_from_itself(shared_traces: Path) -> None:
    run = read(str(shared_traces / "trace_diff" / "control"))
    found = diff(run, run)
    assert_complete(found)
    assert set(found.rows.frame.get_column("status")) == {"same"}
    assert found.change == 0
    assert "as long as before" in found.sentence


# --- what HTA finds, and what it finds wrongly


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    required(GOLDEN)
    found: dict[str, Any] = json.loads(GOLDEN.read_text())["results"]
    return found


def changes_of_calls(base: RunProfile, new: RunProfile) -> dict[str, set[str]]:
    """Names by what became of their calls, as HTA has it: by name alone."""
    before, after = Counter[str](), Counter[str]()
    for counter, run in ((before, base), (after, new)):
        for entry in run.owners:
            counter[entry.key.name] += entry.calls
    kinds: dict[str, set[str]] = {}
    for name in before.keys() | after.keys():
        was, now = before[name], after[name]
        kind = "unchanged" if was == now else "increased" if now > was else "decreased"
        kind = kind if was and now else "added" if now else "deleted"
        if was or now:
            kinds.setdefault(kind, set()).add(name)
    return kinds


def test_every_difference_that_hta_finds_is_found(shared_traces: Path, golden: dict[str, Any]) -> None:
    step = Selection(steps=(1009,))
    runs = [run_profile(read(str(shared_traces / "trace_diff" / name)), step) for name in ("control", "test")]
    mine = changes_of_calls(runs[0], runs[1])
    for question in ("ops_diff_default", "ops_diff_cpu", "ops_diff_gpu"):
        for kind, names in golden[question]["result"].items():
            there = {normalized(name) for name in names["names"] if not name.startswith("ProfilerStep#")}
            assert there <= mine[kind], (question, kind, there - mine[kind])
    for kind, names in golden["ops_diff_default"]["result"].items():
        steps = 1 if kind == "unchanged" else 0  # for HTA a step is an operator
        assert len(mine[kind]) == names["n"] - steps

    found = between(runs[0], runs[1])
    assert_complete(found)
    rows = found.rows.frame
    now, was = "; ".join(rows.get_column("name")), "; ".join(rows.get_column("was_name").drop_nulls())
    assert all(name in now for name in mine["added"])
    assert all(name in now or name in was for name in mine["deleted"])
    assert set(rows.filter(pl.col("status") == "new").get_column("name")) & mine["added"]
    for each in golden["compare_default"]["result"]["top10_by_abs_diff_counts"]:
        calls = rows.filter(pl.col("name") == normalized(each["name"])).get_column("new_calls").sum()
        assert calls == each["Test_counts"]


def test_a_step_is_not_new_because_it_has_another_number(shared_traces: Path) -> None:
    """HTA: ProfilerStep#1010 deleted, ProfilerStep#1011 added."""
    run = read(str(shared_traces / "trace_diff" / "control"))
    found = between(*(run_profile(run, Selection(steps=(number,))) for number in (1010, 1011)))
    assert_complete(found)
    names = found.rows.frame.get_column("name")
    assert not names.str.contains("ProfilerStep").any()
    assert found.rows.frame.filter(pl.col("status").is_in(["new", "gone"])).height < 0.02 * found.rows.frame.height


def test_steps_of_other_numbers_in_two_files(shared_traces: Path) -> None:
    folder = shared_traces / "trace_compare"
    found = diff(read(str(folder / "base")), read(str(folder / "test")), select=ALL)
    assert_complete(found)
    assert not found.rows.frame.get_column("name").str.contains("ProfilerStep").any()


# --- alignment


def test_status(tmp_path: Path) -> None:
    base = [
        op("same", 0, 100),
        op("slow", 100, 100),
        op("more", 200, 50),
        op("gone", 300, 50),
        op("fewer", 350, 10),
        op("fewer", 360, 10),
    ]
    new = [
        op("same", 0, 100),
        op("slow", 100, 140),
        op("more", 250, 50),
        op("more", 300, 50),
        op("new", 350, 30),
        op("fewer", 400, 10),
    ]
    found = compared(tmp_path, base, new)
    status = {name: row(found, name)["status"] for name in ("same", "slow", "more", "gone", "new", "fewer")}
    assert status == {
        "same": "same",
        "slow": "slower calls",
        "more": "more calls",
        "gone": "gone",
        "new": "new",
        "fewer": "fewer calls",
    }
    assert row(found, "nothing recorded")["status"] == "less time"
    assert (row(found, "more")["base_calls"], row(found, "more")["new_calls"]) == (1.0, 2.0)


def test_a_kernel_of_another_name_at_the_same_place_is_the_same(tmp_path: Path) -> None:
    found = compared(
        tmp_path, call("aten::mm", 0, 20, "gemm_a", 100, 300, 1), call("aten::mm", 0, 20, "gemm_b", 100, 200, 1)
    )
    found_row = row(found, "gemm_b")
    assert (found_row["was_name"], found_row["change"], found_row["status"]) == ("gemm_a", -100, "faster calls")
    assert found_row["was_path"] is None
    assert "gemm_a → gemm_b" in found.waterfall.frame.get_column("part").to_list()


def test_a_kernel_that_became_two(tmp_path: Path) -> None:
    two = [*call("aten::mm", 0, 30, "split", 100, 100, 1), launch(10, 5, 2), kernel("reduce", 200, 20, 2)]
    found = compared(tmp_path, call("aten::mm", 0, 30, "gemm", 100, 300, 1), two)
    found_row = row(found, "split + reduce")
    assert (found_row["was_name"], found_row["change"]) == ("gemm", -180)


def test_another_batch_size_is_no_other_program(tmp_path: Path) -> None:
    def step(batch: int) -> list[Event]:
        return [
            *call("aten::mm", 0, 20, "gemm", 100, 2 * batch, 1, **{"Input Dims": [[batch, 8], [8, 8]]}),
            *call("aten::mm", 20, 20, "gemm", 300, 3 * batch, 2, **{"Input Dims": [[batch, 4], [4, 4]]}),
        ]

    found = compared(tmp_path, step(16), step(32))
    rows = found.rows.frame.filter(pl.col("name") == "gemm").sort("base")
    assert rows.select("input_shapes", "was_shapes", "base", "new").rows() == [
        ("[[32, 8], [8, 8]]", "[[16, 8], [8, 8]]", 32, 64),
        ("[[32, 4], [4, 4]]", "[[16, 4], [4, 4]]", 48, 96),
    ]
    assert not set(found.rows.frame.get_column("status")) & {"new", "gone"}


def test_shapes_that_follow_the_data_are_one(tmp_path: Path) -> None:
    def run(folder: Path, lengths: list[int]) -> Job:
        return loop(folder, *(call("aten::mm", 0, 20, "gemm", 100, n, 1, **{"Input Dims": [[n, 8]]}) for n in lengths))

    found = diff(run(tmp_path / "a", [31, 42, 53]), run(tmp_path / "b", [36, 47, 58]))
    assert_complete(found)
    found_row = row(found, "gemm")
    assert (found_row["input_shapes"], found_row["base"], found_row["new"]) == (VARYING_SHAPES, 42, 47)


def test_a_wrapper_around_the_model_is_no_other_program(tmp_path: Path) -> None:
    inside = call("aten::mm", 20, 20, "gemm", 100, 300, 1)
    found = compared(tmp_path, inside, [annotation("DistributedDataParallel.forward", 10, 200), *inside])
    found_row = row(found, "gemm")
    assert (found_row["status"], found_row["was_path"]) == ("same", "aten::mm")
    assert found_row["path"] == "DistributedDataParallel.forward;aten::mm"


def test_numbers_of_requests_are_no_names(tmp_path: Path) -> None:
    found = compared(
        tmp_path,
        [annotation("request 788544", 0, 500), op("aten::add", 10, 50)],
        [annotation("request 990011", 0, 600), op("aten::add", 10, 50)],
        steps=1,
    )
    assert not set(found.rows.frame.get_column("status")) & {"new", "gone"}


def test_modules_that_one_run_has_not_recorded(tmp_path: Path) -> None:
    inside = call("aten::mm", 20, 20, "gemm", 100, 300, 1)
    found = compared(tmp_path, inside, [python(f"{MODULE}Linear_0", 10, 100), *inside])
    assert row(found, "gemm")["was_path"] is None
    assert "MODULES_ON_ONE_SIDE" in codes(found.notes)


def test_shapes_that_one_run_has_not_recorded(tmp_path: Path) -> None:
    with_shapes = call("aten::mm", 20, 20, "gemm", 100, 300, 1, **{"Input Dims": [[4, 4]]})
    found = compared(tmp_path, with_shapes, call("aten::mm", 20, 20, "gemm", 100, 300, 1))
    assert row(found, "gemm")["status"] == "same"
    assert "SHAPES_ON_ONE_SIDE" in codes(found.notes)


def test_runs_of_different_kind_are_still_compared(tmp_path: Path) -> None:
    found = compared(tmp_path, [op("aten::mm", 0, 800)], call("aten::mm", 0, 20, "gemm", 50, 300, 1))
    assert "DEVICE_WORK_ON_ONE_SIDE" in codes(found.notes)
    assert row(found, "gemm")["status"] == "new"


def test_warm_up_is_left_out_unless_steps_are_chosen(tmp_path: Path) -> None:
    def run(folder: Path, first: int) -> Job:
        folder.mkdir()
        marks = [(0, first), *((first + n * 1000, 1000) for n in range(6))]
        events = [annotation(f"ProfilerStep#{n}", *mark) for n, mark in enumerate(marks)]
        return read(written(folder / "a.pt.trace.json", *events, op("aten::add", first + 10, 10)), jobs=1)

    runs = run(tmp_path / "a", 9000), run(tmp_path / "b", 1000)
    assert diff(*runs).base == 1000
    assert diff(*runs, select=Selection(steps=range(7))).base > 2000


def test_ranks_are_averaged(tmp_path: Path) -> None:
    def run(folder: Path, *lengths: int) -> Job:
        folder.mkdir()
        for rank, length in enumerate(lengths):
            events = [annotation("ProfilerStep#1", 0, length), op("aten::add", 0, length // 2)]
            written(folder / f"r{rank}.pt.trace.json", *events, distributedInfo={"rank": rank})
        return read(str(folder), jobs=1)

    found = diff(run(tmp_path / "a", 1000, 2001), run(tmp_path / "b", 500, 500, 501))
    assert_complete(found)
    assert (found.base, found.new) == (1501, 500)  # 1500.5 and 500.33
    assert any("ranks" in note and "0-1" in note and "0-2" in note for note in found.notes)


def test_without_a_step_there_is_nothing_to_compare(tmp_path: Path) -> None:
    run = loop(tmp_path / "a", [op("aten::add", 0, 100)])
    empty = replace(run_profile(run, ALL), owners=())
    with pytest.raises(InputError, match="no step"):
        between(empty, run_profile(run, ALL))


def test_noise_is_not_called_a_change(tmp_path: Path) -> None:
    def run(folder: Path, lengths: list[int]) -> Job:
        return loop(folder, *([op("aten::add", 0, length)] for length in lengths))

    found = diff(run(tmp_path / "a", [300, 310, 290, 305]), run(tmp_path / "b", [306, 296, 312, 300]))
    assert row(found, "aten::add")["verdict"] in ("same", "inconclusive")
    assert "as long as before" in found.sentence


def test_the_side_of_a_run_knows_each_step(tmp_path: Path) -> None:
    run: RunProfile = run_profile(loop(tmp_path, *([op("aten::add", 0, length)] for length in (100, 200, 300))), ALL)
    (entry,) = (each for each in run.owners if each.key.name == "aten::add")
    assert run.values([entry]).tolist() == [100.0, 200.0, 300.0]
    assert run.steps.tolist() == [1000.0] * 3


@pytest.mark.parametrize(
    ("one", "other"),
    list(itertools.pairwise(sorted(OURS.glob("*.pt.trace.json.gz")))),
    ids=lambda path: path.name.split(".")[0],
)
def test_any_two_runs(one: Path, other: Path) -> None:
    found = diff(read(str(one)), read(str(other)))
    assert_complete(found)
    assert not found.rows.frame.get_column("name").str.contains("ProfilerStep").any()
    assert str(found).startswith("A step takes")


def test_each_number_of_the_sentence_is_in_the_tables(shared_traces: Path) -> None:
    runs = [read(shared_traces / "compile_graphs_3060" / f"trace_0{number}.json.gz") for number in (4, 5)]
    found = diff(*runs)
    assert len(found.sentence.quantities) >= 5
    for quantity in found.sentence.quantities:
        assert quantity.source is not None
        assert quantity.text in found.sentence
        again = quantity.source.look_up(lambda _, params: found.waterfall if "table" in params else found.rows)
        assert again == pytest.approx(quantity.value)


def test_where_no_steps_are_marked_windows_are_compared(tmp_path: Path) -> None:
    runs = [tmp_path / name for name in ("before.json", "after.json")]
    for run, time in zip(runs, (100, 80), strict=True):
        written(run, op("aten::mm", 0, time), op("aten::add", time, 20))
    difference = diff(read(runs[0]), read(runs[1]))
    assert difference.measure == "window"
    assert difference.sentence.startswith("The window takes 16.7% less time: 120")
    assert difference.sentence.endswith(
        "There is one window of each: nothing tells how much they differ by themselves."
    )
