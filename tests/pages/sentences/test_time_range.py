"""The sentence of the timeline says why a device ran nothing, as `idle_breakdown` of the range does."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope.analyses import named
from kinetoscope.model.job import Job
from kinetoscope.model.steps.scope import recorded_span
from kinetoscope.model.steps.selection import Selection
from kinetoscope.model.timeline.range import in_range
from kinetoscope.pages.sentences.time_range import range_sentence
from kinetoscope.reading import read
from kinetoscope.views.sentences import Sentence
from tests import drawn

US = 1_000

QUEUED = [
    drawn.op("aten::mm", 0, 100 * US),
    *(drawn.launch(each * US, US // 2, each) for each in range(1, 20)),
    *(drawn.kernel("gemm", 10 * each * US, 9 * US, each) for each in range(1, 20)),
]
"""A host that launches 19 kernels at once; each begins 1 µs after the one before."""


def sentence(job: Job, begin: int, end: int) -> Sentence:
    """The sentence of a range; each of its quantities is what the analyses say of that range."""
    trace, select = job.trace(), Selection(time=(begin, end))
    said = range_sentence(trace, in_range(trace, begin, end), select)
    for quantity in said.quantities:
        if quantity.source is not None:
            again = quantity.source.look_up(lambda analysis, params: named(analysis)(job, **params))
            assert again == pytest.approx(quantity.value), (said, quantity.name)
    return said


def test_a_device_with_a_full_queue_does_not_wait_for_the_host(tmp_path: Path) -> None:
    said = sentence(drawn.job(tmp_path, *QUEUED), 40 * US, 80 * US)
    assert said == (
        "In view, 40.0\u00a0µs: the GPU is busy 90% of the time; it runs nothing for 4.00\u00a0µs, "
        "while the next kernel, launched in time, begins."
    )


def test_the_reason_of_a_gap_is_the_same_however_the_view_cuts_it(tmp_path: Path) -> None:
    late = [*QUEUED, drawn.op("aten::add", 200 * US, 100 * US), drawn.launch(290 * US, 5 * US, 99)]
    job = drawn.job(tmp_path, *late, drawn.kernel("add", 300 * US, 50 * US, 99))
    for begin, end in ((200, 350), (210, 280), (205, 320)):  # the launch, and the kernel, may be out of view
        assert "while the host runs operators before it launches more" in sentence(job, begin * US, end * US)
    assert "while the host is in the call that launches" in sentence(job, 291 * US, 295 * US)


def test_a_view_beyond_a_step_says_so(tmp_path: Path) -> None:
    step, after = drawn.annotation("ProfilerStep#3", 0, 100 * US), drawn.op("aten::add", 230 * US, 10 * US)
    job = drawn.job(tmp_path, step, *QUEUED, after)
    assert sentence(job, 0, 199 * US).startswith("In view, step 3: the GPU is busy ")
    assert sentence(job, 0, 190 * US).startswith("In view, part of step 3: the GPU is busy ")
    assert sentence(job, 0, 240 * US).startswith("In view, step 3 with 41.0\u00a0µs around it: the GPU is busy ")


@pytest.mark.parametrize("name", ["qwen_h100", "mtia", "ddp_nccl_a100"])
def test_of_real_traces_each_quantity_is_that_of_the_analyses(shared_traces: Path, name: str) -> None:
    job = read(shared_traces / name, ranks=[0])
    low, high = recorded_span(job.trace())
    for part in range(8):
        begin = (high - low) * part // 8
        for length in ((high - low) // 3_000, (high - low) // 40, high - low):
            sentence(job, begin, min(begin + length, high - low))
