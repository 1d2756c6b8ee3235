"""The page about a snapshot: sentences with the numbers of the analyses, a picture of the instants that matter."""

from __future__ import annotations

from pathlib import Path

import pytest

import kinetoscope
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import ALL, Selection
from kinetoscope.pages import findings, memory
from kinetoscope.pages.blocks import (
    AllocatorBlock,
    ElsewhereBlock,
    FindingsBlock,
    IcicleBlock,
    Page,
    TableBlock,
)
from kinetoscope.pages.sentences.memory import memory_questions, memory_sentences
from kinetoscope.views.numbers import shown
from tests.snapshots.allocator import OutOfMemory
from tests.snapshots.process import Process
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import write

SMALL = Model(layers=2, width=256, batch=2, tokens=128, vocabulary=1000)


def job_of(process: Process, folder: Path) -> Job:
    path = folder / "run.pickle"
    write(path, process.snapshot())
    return kinetoscope.read(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Job:
    process = Process()
    process.record()
    training = Training(process, SMALL, metadata=True)
    training.build()
    training.run(4)
    return job_of(process, tmp_path_factory.mktemp("memory"))


def picture(page: Page) -> AllocatorBlock:
    return next(block for block in page.blocks if isinstance(block, AllocatorBlock))


def test_the_sentence_has_the_numbers_of_the_peak(trained: Job) -> None:
    page = memory.page(trained, ALL, {})
    peak = kinetoscope.memory_peak(trained, group_by="use").frame
    largest = peak.sort("size", descending=True).row(0, named=True)
    assert page.sentence.startswith(f"Memory of cuda:0 peaks at {shown(int(peak['size'].sum()), 'bytes')}")
    assert f"{largest['name']} {shown(largest['size'], 'bytes')}" in page.sentence
    assert {"memory_peak", "memory_growth", "memory_fragmentation", "memory_what_if"} <= {
        block.analysis for block in page.blocks if isinstance(block, TableBlock)
    }


def test_the_picture_begins_with_the_peak_and_has_the_steps(trained: Job) -> None:
    block = picture(memory.page(trained, ALL, {}))
    assert block.moments[0].label == "Peak"
    assert block.moments[0].time == kinetoscope.memory_peak(trained).frame["time"][0]
    assert [step.label for step in block.steps] == [f"step {number}" for number in range(4)]
    assert {each.event for each in block.moments} <= set(block.kept)
    assert {name for name, _ in block.categories} >= {"parameter", "gradient", "optimizer state", "activation"}


def test_a_selection_has_a_peak_of_its_own(trained: Job) -> None:
    whole = picture(memory.page(trained, ALL, {}))
    begin = whole.steps[0].time
    assert whole.span is not None
    assert begin is not None
    select = Selection(time=(whole.span[0], begin))
    block = picture(memory.page(trained, select, {}))
    assert [each.label for each in block.moments[:2]] == ["Peak of the selection", "Peak"]
    assert block.moments[0].event < whole.steps[0].event
    assert block.span == whole.span, "the picture is of all"


def test_bytes_of_the_flame_are_those_of_the_peak(trained: Job) -> None:
    block = next(each for each in memory.page(trained, ALL, {}).blocks if isinstance(each, IcicleBlock))
    rows = kinetoscope.memory_peak(trained, group_by="stack").frame.drop_nulls("stack")
    roots = sum(value for value, parent in zip(block.value, block.parent, strict=True) if parent < 0)
    assert roots == rows["size"].sum()
    assert block.unit == "bytes"


def test_what_failed_comes_first(tmp_path: Path) -> None:
    process = Process(total=900 << 20)
    process.record()
    training = Training(process, SMALL)
    training.build()
    with pytest.raises(OutOfMemory):
        process.alloc("aten::empty", 400 << 20)
    job = job_of(process, tmp_path)
    page = memory.page(job, ALL, {})
    assert page.sentence == memory_sentences(job, ALL, job.ask(memory_questions(ALL)))[0]
    assert shown(400 << 20, "bytes") in page.sentence
    assert "Out of memory" in [each.label for each in picture(page).moments]
    assert "memory_oom" in [block.analysis for block in page.blocks if isinstance(block, TableBlock)]


def test_what_to_change_of_a_snapshot_begins_with_what_is_found(tmp_path: Path) -> None:
    process = Process()
    process.record()
    training = Training(process, Model(layers=6, width=256, batch=8, tokens=128, vocabulary=100))
    training.build()
    training.run(3)
    job = job_of(process, tmp_path)
    assert any(isinstance(block, ElsewhereBlock) for block in memory.page(job, ALL, {}).blocks)
    page = findings.page(job, ALL, {})
    [block] = [each for each in page.blocks if isinstance(each, FindingsBlock)]  # the first is what other pages show
    assert {each.code for each in block.findings} >= {"MEMORY011"}
    assert page.sentence.startswith(block.findings[0].message.removesuffix("."))
