"""Owners: what they have sums to the step, and goes to who it should."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.analyses import named
from kinetoscope.analyses.step_breakdown import CATEGORIES
from kinetoscope.compare.diff.time_ownership import NOTHING_RECORDED, RESULT, owners_of_rank
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL, Selection
from tests.catalog.samples import everywhere, job_of
from tests.compare.drawing import call, loop
from tests.drawn import Event, annotation, job, kernel, launch, op, python
from tests.notes import codes

SELECTIONS = (ALL, Selection(steps="steady"), Selection(time=(1_000_000, 40_000_000)))


def asked(run: Job, select: Selection = ALL) -> pl.DataFrame:
    return run.map(owners_of_rank, RESULT, select).frame


def by_step(frame: pl.DataFrame, steps: int) -> dict[str, list[int]]:
    """What each category has in each step."""
    found = {name: [0] * steps for name in CATEGORIES}
    for category, places, times in frame.select("category", "places", "times").iter_rows():
        for place, time in zip(places, times, strict=True):
            found[category][place] += time
    return found


@pytest.mark.parametrize("path", everywhere())
def test_owners_sum_to_the_categories_of_every_step(path: Path) -> None:
    run = job_of(path)
    trace = run.trace()
    alone = Job(run.path, (trace.source,), run.engine)
    for select in SELECTIONS:
        steps = named("step_breakdown")(alone, select=select).frame
        found = asked(alone, select)
        assert by_step(found, steps.height) == {name: steps.get_column(name).to_list() for name in CATEGORIES}
        assert found.get_column("time").sum() == steps.get_column("duration").sum()
        assert (found.get_column("steps") == steps.height).all()


def time_of(run: Job, name: str) -> int:
    return int(asked(run).filter(pl.col("name") == name).get_column("time").sum())


def test_of_kernels_the_one_that_started_last_owns(tmp_path: Path) -> None:
    run = loop(
        tmp_path,
        [
            *call("aten::mm", 0, 20, "gemm", 100, 300, 1),
            *call("aten::add", 20, 20, "add", 200, 100, 2),
        ],
    )
    assert time_of(run, "gemm") == 200
    assert time_of(run, "add") == 100
    assert time_of(run, NOTHING_RECORDED) == 1000 - 300 - 40


def test_the_host_owns_what_no_device_work_covers(tmp_path: Path) -> None:
    run = loop(
        tmp_path, [op("aten::outer", 0, 500), op("aten::inner", 100, 200), launch(150, 50, 1), kernel("k", 400, 50, 1)]
    )
    assert [time_of(run, name) for name in ("aten::outer", "aten::inner", "cudaLaunchKernel", "k")] == [
        250,
        150,
        50,
        50,
    ]


def test_an_idle_instant_belongs_to_what_the_main_thread_does(tmp_path: Path) -> None:
    run = loop(
        tmp_path,
        [
            python("train.py(3): step", 0, 900),
            annotation("evaluate", 100, 300),
            python("train.py(9): sleep", 200, 100),
            python("other.py(1): thread", 0, 1000, tid=9),
            op("aten::add", 500, 100),
        ],
    )
    frame = asked(run).filter(pl.col("category") == "other")
    assert dict(frame.select("name", "time").iter_rows()) == {
        "train.py: step": 500,
        "evaluate": 200,
        "train.py: sleep": 100,
        NOTHING_RECORDED: 100,
    }
    paths = dict(frame.select("name", "path").iter_rows())
    assert paths["train.py: sleep"] == "evaluate"


def test_owners_are_known_by_path_and_shapes(tmp_path: Path) -> None:
    shapes = {"Input Dims": [[2, 3], []]}
    run = loop(
        tmp_path,
        [
            annotation("forward", 0, 400),
            *call("aten::mm", 0, 20, "gemm", 100, 50, 1, **shapes),
            annotation("backward", 500, 400),
            *call("aten::mm", 500, 20, "gemm", 600, 70, 2, **shapes),
        ],
    )
    rows = (
        asked(run).filter(pl.col("name") == "gemm").sort("time").select("path", "input_shapes", "time", "calls").rows()
    )
    assert rows == [("forward;aten::mm", "[[2, 3], []]", 50, 1), ("backward;aten::mm", "[[2, 3], []]", 70, 1)]


def test_steps_are_no_part_of_a_path(tmp_path: Path) -> None:
    run = loop(tmp_path, *([op("aten::add", 0, 100)] for _ in range(3)))
    frame = asked(run).filter(pl.col("name") == "aten::add")
    assert frame.select("path", "calls", "time").rows() == [("", 3, 300)]
    assert not asked(run).get_column("name").str.starts_with("ProfilerStep").any()


def test_annotations_numbered_by_steps_are_one_and_those_of_layers_are_not(tmp_path: Path) -> None:
    run = loop(
        tmp_path,
        *(
            [annotation(f"batch {n}", 0, 900), annotation("layer_1", 0, 300), annotation("layer_2", 400, 300)]
            for n in range(3)
        ),
    )
    names = set(asked(run).get_column("name"))
    assert names == {"batch #", "layer_1", "layer_2", NOTHING_RECORDED}


def test_what_was_launched_before_the_recording_is_not_counted(tmp_path: Path) -> None:
    run = loop(tmp_path, [kernel("late", 60, 50, 77), *call("aten::mm", 0, 20, "gemm", 100, 50, 1)])
    frame = asked(run)
    assert frame.filter(pl.col("name") == "late").select("calls", "time").rows() == [(0, 40)]
    alone = job(tmp_path, annotation("ProfilerStep#1", 0, 1000), kernel("k", 10, 20, 5))
    assert asked(alone).filter(pl.col("name") == "k").get_column("calls").to_list() == [1]


def test_without_shapes_it_says_so(tmp_path: Path) -> None:
    found = loop(tmp_path, [op("aten::add", 0, 10)]).map(owners_of_rank, RESULT)
    assert codes(found.notes) == ["NOT_RECORDED"]
    assert found.frame.get_column("input_shapes").null_count() == found.frame.height


KINDS = st.sampled_from(("op", "annotation", "python", "launch", "kernel", "memcpy", "nccl"))


@given(st.lists(st.tuples(KINDS, st.integers(0, 25), st.integers(0, 12), st.integers(1, 2)), max_size=14))
def test_whatever_happens_owners_sum_to_the_step(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, int, int, int]]
) -> None:
    def event(number: int, kind: str, start: int, length: int, lane: int) -> Event:
        if kind == "launch":
            return launch(start, length, number, tid=lane)
        if kind == "kernel":
            return kernel("k", start, length, number, stream=lane)
        if kind == "memcpy":
            return kernel("Memcpy DtoH", start, length, number, stream=lane, category="gpu_memcpy")
        if kind == "nccl":
            return kernel("ncclKernel", start, length, number - 1, stream=lane)
        return {"op": op, "annotation": annotation, "python": python}[kind]("x" * lane, start, length, tid=lane)

    events = [event(number, *each) for number, each in enumerate(drawn, 1)]
    marks = [annotation("ProfilerStep#1", 0, 12), annotation("ProfilerStep#2", 12, 15)]
    run = job(tmp_path_factory.mktemp("drawn"), *marks, *events)
    steps = named("step_breakdown")(run).frame
    expected = {name: steps.get_column(name).to_list() for name in CATEGORIES}
    found = asked(run)
    assert by_step(found, steps.height) == expected
    assert np.sum([sum(each) for each in found.get_column("times").to_list()]) == steps.get_column("duration").sum()


def test_a_crafted_depth_does_not_fill_the_memory(tmp_path: Path) -> None:
    run = loop(tmp_path, [op(f"call{n}", n, 1000 - 2 * n) for n in range(400)])
    paths = asked(run).get_column("path")
    assert paths.str.count_matches(";").max() == 99
    assert asked(run).get_column("time").sum() == 1000


def test_a_call_without_a_name(tmp_path: Path) -> None:
    nameless = {key: value for key, value in op("x", 100, 50).items() if key != "name"}
    run = loop(tmp_path, [nameless, op("aten::add", 200, 50)])
    assert time_of(run, "(no name)") == 50
