from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope import Trace, read
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.stream_waits import stream_waits
from tests import drawn
from tests.catalog.samples import SHARED, required


def name(trace: Trace, row: int) -> str:
    return trace.strings.label(int(trace.name[row]))


def pairs(trace: Trace, use_recorded: bool = True) -> set[tuple[str, str]]:
    found, rows = stream_waits(trace, use_recorded), device_work(trace).rows
    return {(name(trace, rows[a]), name(trace, rows[b])) for a, b in zip(found.work, found.on, strict=True)}


US = 1000


def streams_of_work(start: int) -> list[drawn.Event]:
    return [
        drawn.launch(0, US, 1),
        drawn.launch(2 * US, US, 2),
        drawn.kernel("gradients", 10 * US, 90 * US, 1),
        drawn.kernel("reduce", start * US, 50 * US, 2, stream=20),
    ]


def test_work_that_starts_just_when_another_stream_ends_waited_for_it(tmp_path: Path) -> None:
    assert pairs(drawn.job(tmp_path, *streams_of_work(105)).trace()) == {("reduce", "gradients")}
    assert pairs(drawn.job(tmp_path, *streams_of_work(121)).trace()) == set()
    assert pairs(drawn.job(tmp_path, *streams_of_work(20)).trace()) == set()


def test_after_a_call_by_which_a_stream_waits_work_depends_on_the_other_stream(tmp_path: Path) -> None:
    wait = drawn.launch(1500, 100, 3, name="cudaStreamWaitEvent")
    own = drawn.kernel("before", 20 * US, 84 * US, 4, stream=20)  # ends last: times alone tell nothing
    drawing = [*streams_of_work(105), drawn.launch(500, 100, 4), own]
    assert pairs(drawn.job(tmp_path, *drawing).trace()) == set()
    assert pairs(drawn.job(tmp_path, *drawing, wait).trace()) == {("reduce", "gradients")}


def test_a_recorded_wait_of_a_stream_counts(tmp_path: Path) -> None:
    record = drawn.launch(1200, 100, 30, name="cudaEventRecord")
    wait = drawn.launch(1500, 100, 31, name="cudaStreamWaitEvent")
    told = {"correlation": 31, "stream": 20, "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 30}
    row = drawn.event("cuda_sync", "Stream Wait Event", 20, 15, pid=0, tid=20, **told)
    trace = drawn.job(tmp_path, *streams_of_work(400), record, wait, row).trace()
    assert pairs(trace) == {("reduce", "gradients")}
    assert pairs(trace, use_recorded=False) == set()  # the gap of 300 µs speaks against it


@pytest.mark.parametrize(("folder", "recorded", "alike"), [("alexnet_a100", 6, 4), ("critical_path/simple_add", 0, 0)])
def test_of_recorded_pairs_most_are_inferred(folder: str, recorded: int, alike: int) -> None:
    """Of AlexNet's six, two are of a stream that was forked before anything was launched there."""
    trace = read(required(SHARED) / folder, jobs=1).trace()
    told, guessed = stream_waits(trace), stream_waits(trace, use_recorded=False)
    known = set(zip(told.work[told.recorded].tolist(), told.on[told.recorded].tolist(), strict=True))
    assert len(known) == recorded
    assert len(known & set(zip(guessed.work.tolist(), guessed.on.tolist(), strict=True))) == alike
