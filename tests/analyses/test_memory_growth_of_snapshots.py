"""Growth from memory snapshots: what is planted in a training is judged, and named with what holds it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kinetoscope import Job, Selection, memory_growth, read
from tests.drawn import annotation, job, op
from tests.snapshots.allocator import Block
from tests.snapshots.process import SIDE_STREAM, Process
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import write

RECORDED = Path(__file__).parents[1] / "snapshots" / "real"
MIB = 1 << 20
TINY = Model(layers=1, width=64, batch=1, tokens=32, vocabulary=100)
Plant = Callable[[Process, int], None]


def trained(folder: Path, plant: Plant, steps: int = 8, *, marks: bool = True, max_entries: int | None = None) -> Job:
    process = Process(stacks="python")
    process.record(max_entries=max_entries)
    training = Training(process, TINY, annotate=marks, metadata=marks, after_step=lambda step: plant(process, step))
    training.build()
    training.run(steps)
    write(folder / "snapshot.pickle", process.snapshot())
    return read(folder / "snapshot.pickle", jobs=1)


def rows(of: Job, **asked: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    whole, *kept = memory_growth(of, **asked).frame.to_dicts()
    return whole, kept


def keeps(process: Process, step: int) -> None:
    process.alloc("mean", MIB)


def keeps_every_third(process: Process, step: int) -> None:
    if step % 3 == 0:
        process.alloc("mean", MIB)


def flushes() -> Plant:
    kept: list[Block] = []

    def plant(process: Process, step: int) -> None:
        kept.append(process.alloc("clone", MIB))
        if step % 3 == 2:
            process.free(*kept)
            kept.clear()

    return plant


def holds_the_last(size_of: Callable[[int], int]) -> Plant:
    """A variable that holds the output of the last step: never more than one."""
    held: list[Block] = []

    def plant(process: Process, step: int) -> None:
        held.append(process.alloc("linear", size_of(step)))
        process.free(*held[:-1])
        del held[:-1]

    return plant


def fills_a_cache(process: Process, step: int) -> None:
    if step < 3:
        process.alloc("zeros", MIB)


@pytest.mark.parametrize(
    ("plant", "steps", "verdict"),
    [
        (keeps, 8, "leak"),
        (keeps_every_third, 12, "leak"),
        (keeps, 3, "too few steps"),
        (flushes(), 9, "no growth"),
        (holds_the_last(lambda step: MIB * (step + 1)), 9, "leak"),  # a cache that is replaced by a larger one
        (holds_the_last(lambda step: MIB * (5, 1, 4, 2, 7, 3, 6, 2, 5)[step]), 9, "no growth"),
        (fills_a_cache, 9, "no growth"),
        (fills_a_cache, 5, "unclear"),
        (lambda process, step: None, 8, "no growth"),
    ],
)
def test_verdicts(tmp_path: Path, plant: Plant, steps: int, verdict: str) -> None:
    whole, _ = rows(trained(tmp_path, plant, steps))
    assert whole["verdict"] == verdict


def test_what_is_kept_is_named_with_its_line_and_measured(tmp_path: Path) -> None:
    whole, kept = rows(trained(tmp_path, keeps))
    facts = {"per_step": MIB, "steps": 7, "size": 6 * MIB, "source": "snapshot", "device": "cuda:0", "kind": "device"}
    assert {name: whole[name] for name in facts} == pytest.approx(facts)
    [row] = kept
    facts = {"name": "train.py:51", "kind": "stack", "blocks": 6, "steps": 6, "per_step": MIB, "held_by": "references"}
    assert {name: row[name] for name in facts} == facts
    assert row["stack"].startswith("train.py(120): <module>;train.py(51): main")


@pytest.mark.parametrize("max_entries", [None, 900])
def test_without_marks_steps_are_periods_of_the_allocations(tmp_path: Path, max_entries: int | None) -> None:
    of = trained(tmp_path, keeps, 12, marks=False, max_entries=max_entries)
    result = memory_growth(of)
    assert result.notes[0].endswith("are proposed from a sequence of allocations that repeats.")
    whole, kept = rows(of)
    assert (whole["verdict"], whole["per_step"], kept[0]["name"]) == ("leak", pytest.approx(MIB), "train.py:51")


def test_layers_are_no_steps(tmp_path: Path) -> None:
    """A history of a forward pass alone, each layer of which holds more, as where memory runs out in it."""
    process = Process(stacks="python")
    training = Training(process, replace(TINY, layers=24), annotate=False, after_forward=stop)
    training.build()
    process.record()
    with suppress(StopIteration):
        training.run(1)
    write(tmp_path / "snapshot.pickle", process.snapshot())
    whole, _ = rows(read(tmp_path / "snapshot.pickle", jobs=1))
    assert (whole["verdict"], whole["steps"]) == ("too few steps", 0)


def stop(step: int) -> None:
    raise StopIteration


def test_a_history_that_is_longer_than_the_trace_has_more_steps(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    trained(tmp_path, keeps, 12, marks=False)
    first = min(each["time_us"] for each in pickle.loads(path.read_bytes())["device_traces"][0]) * 1000
    (tmp_path / "snapshots").mkdir()
    path.rename(tmp_path / "snapshots" / path.name)
    of = job(tmp_path, annotation("ProfilerStep#7", 0, 10), op("aten::mm", 2, 1), baseTimeNanoseconds=first)
    result = memory_growth(of)
    assert result.frame.filter(kind="device", source="snapshot")["verdict"].to_list() == ["leak"]
    assert result.notes[0].startswith("The history has 1 of the marked steps; 11 are proposed")


def test_what_waits_for_a_stream_or_belongs_to_a_graph_is_held_by_that(tmp_path: Path) -> None:
    def plant(process: Process, step: int) -> None:
        block = process.alloc("all_gather", MIB, stream=SIDE_STREAM)
        process.allocators[0].record_stream(block, 0)
        process.free(block)
        with process.capture((1, 0)):
            process.alloc("mm", 2 * MIB)

    whole, kept = rows(trained(tmp_path, plant))
    assert whole["verdict"] == "leak"
    assert {row["held_by"]: row["size"] for row in kept} == {"graph pool": 12 * MIB, "stream": 6 * MIB}


@pytest.mark.parametrize(("more", "verdict"), [(8 * MIB, "no growth"), (MIB // 2, "unclear")])
def test_steps_that_get_larger_are_no_leak(tmp_path: Path, more: int, verdict: str) -> None:
    def plant(process: Process, step: int) -> None:
        with process.module("model.py", 9):
            process.free(process.alloc("gelu", MIB + more * step))
        hold(process, step)

    hold = holds_the_last(lambda step: MIB * (step + 1))
    assert rows(trained(tmp_path, plant))[0]["verdict"] == verdict


def test_selection_and_warmup_choose_steps_and_devices(tmp_path: Path) -> None:
    of = trained(tmp_path, keeps)
    assert rows(of, warmup=0)[0]["steps"] == 8
    assert rows(of, select=Selection(steps=(2, 3, 5, 6)))[0]["size"] == 4 * MIB
    assert memory_growth(of, select=Selection(devices=(3,))).frame.is_empty()


@pytest.mark.parametrize(
    ("name", "verdict", "line", "holder"),
    [
        ("leak_2.13.0", "leak", "programs.py:45", "references"),
        ("leak_2.15.0", "leak", "programs.py:45", "references"),
        ("pending_2.15.0", "leak", "programs.py:109", "stream"),
        ("training_2.15.0", "no growth", None, None),
        ("training_expandable_2.13.0", "no growth", None, None),
    ],
)
def test_recorded_snapshots(name: str, verdict: str, line: str | None, holder: str | None) -> None:
    whole, kept = rows(read(RECORDED / f"{name}.pickle.gz", jobs=1))
    assert whole["verdict"] == verdict
    assert [(row["name"], row["held_by"]) for row in kept[:1]] == ([(line, holder)] if line else [])
