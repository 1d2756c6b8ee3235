"""What the rules about data find in traces drawn by hand, and what they promise, to the nanosecond."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinetoscope.advisor.evidence.data_loader import FROM_WORKERS, IN_PROCESS, starts
from kinetoscope.advisor.finding import NO_STAKE
from kinetoscope.advisor.laws import lawful
from kinetoscope.advisor.step_statistics import range_of_mean
from tests.advisor.views import STEP, findings, rank_view, steps
from tests.drawn import Event, annotation, event, kernel, launch, op, python

COUNT = 6
PINNED, PAGEABLE, UNKNOWN_PRECISION = (
    "Memcpy HtoD (Pinned -> Device)",
    "Memcpy HtoD (Pageable -> Device)",
    "Memcpy HtoD (Host -> Device)",
)


def host_loop(span: str, length: int, step: int = STEP, count: int = COUNT) -> list[Event]:
    """A loop on the host alone: it fetches a batch, and computes for the rest of the step."""
    events = steps(count, step)
    for n in range(count):
        begin = n * step
        events += [annotation(span, begin, length), op("aten::addmm", begin + length, step - length)]
    return events


# --- the loader


def test_batches_made_in_the_process_are_at_stake(tmp_path: Path) -> None:
    (finding,) = findings("DATA001", rank_view(tmp_path, *host_loop(IN_PROCESS, 4_000_000, 10 * STEP)))
    assert finding.stake.high == 4_000_000
    # half, as workers share the host's cores with the training; less what taking a batch may cost
    assert finding.stake.low == 2_000_000 - 1_000_000
    assert "num_workers=2" in finding.change
    assert "4.00" in finding.message


def test_batches_that_are_made_quickly_surely_save_nothing(tmp_path: Path) -> None:
    """A ready one has to be taken as well: with workers a step of 0.6 ms took 2.5."""
    (finding,) = findings("DATA001", rank_view(tmp_path, *host_loop(IN_PROCESS, 400_000)))
    assert (finding.stake.low, finding.stake.high) == (0.0, 400_000)


@pytest.mark.parametrize(("later", "is_guess"), [(200_000, True), (2_000_000, False)])
def test_a_data_set_that_keeps_what_it_loaded_needs_no_workers(later: int, is_guess: bool, tmp_path: Path) -> None:
    """The first epoch ends within the recording."""
    step = 10 * STEP
    events = steps(COUNT, step)
    for n in range(COUNT):
        length = 4_000_000 if n < COUNT - 2 else later
        events += [annotation(IN_PROCESS, n * step, length), op("aten::addmm", n * step + length, step - length)]
    (finding,) = findings("DATA001", rank_view(tmp_path, *events))
    assert (finding.confidence == "low") == (finding.stake.low == 0) == is_guess
    assert ("Each of the last 2 steps loads for much less" in finding.why) is is_guess


def test_a_pipeline_of_transformers_has_no_loader_of_the_users(tmp_path: Path) -> None:
    """It starts workers anew for each call, and some take one at most."""
    events = host_loop(IN_PROCESS, 400_000)
    frame = python("transformers/pipelines/pt_utils.py(249): __next__", 0, 5 * STEP)
    (finding,) = findings("DATA001", rank_view(tmp_path, *events, frame))
    assert "pipe(images, num_workers=1)" in finding.change
    assert finding.stake.low == 0 < finding.stake.high


def test_workers_bring_no_more_than_they_can_make(tmp_path: Path) -> None:
    """A batch takes 9.6 ms and the training 0.4: 16 workers, of whom one batch comes every 600 µs."""
    (finding,) = findings("DATA001", rank_view(tmp_path, *host_loop(IN_PROCESS, 9_600_000, 10 * STEP)))
    assert finding.stake.high == 9_600_000
    assert finding.stake.low == (9_600_000 - (9_600_000 / 16 - 400_000)) / 2 - 1_000_000
    assert "num_workers=16" in finding.change


def test_a_loader_that_device_work_hides_is_not_worth_a_word(tmp_path: Path) -> None:
    events = steps(COUNT)
    for n in range(COUNT):
        begin = n * STEP
        events += [annotation(IN_PROCESS, begin, 300_000), launch(begin + 310_000, 5000, n + 1)]
        start = max(begin + 317_500, 317_500 + n * STEP)
        events.append(kernel("gemm", start, STEP - 1000, n + 1))
    assert findings("DATA001", rank_view(tmp_path, *events)) == []


def test_a_device_whose_work_was_not_recorded_may_hide_it(tmp_path: Path) -> None:
    gpu = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]}
    for code, span in (("DATA001", IN_PROCESS), ("DATA002", FROM_WORKERS)):
        (finding,) = findings(code, rank_view(tmp_path, *host_loop(span, 400_000), **gpu))
        assert finding.confidence == "low"


def test_a_quick_loader_is_not_worth_a_word(tmp_path: Path) -> None:
    assert findings("DATA001", rank_view(tmp_path, *host_loop(IN_PROCESS, 4000))) == []
    assert findings("DATA002", rank_view(tmp_path, *host_loop(FROM_WORKERS, 4000))) == []


def test_the_loader_of_another_thread_keeps_nobody_waiting(tmp_path: Path) -> None:
    events = [each | ({"tid": 9} if each["name"] == IN_PROCESS else {}) for each in host_loop(IN_PROCESS, 400_000)]
    assert findings("DATA001", rank_view(tmp_path, *events)) == []


def test_waiting_for_workers_is_at_stake_but_for_taking_a_batch(tmp_path: Path) -> None:
    (finding,) = findings("DATA002", rank_view(tmp_path, *host_loop(FROM_WORKERS, 3_400_000, step=10_000_000)))
    assert finding.stake.high == 3_300_000
    assert finding.stake.low == 0.5 * 1_900_000  # on the host alone a batch that is ready may take 1.5 ms
    assert "num_workers=2 * n" in finding.change


def test_no_more_than_the_waits_of_all_steps_is_at_stake(tmp_path: Path) -> None:
    """The later half of the steps waits three times as long as the mean: the mean is what can go."""
    early, late = host_loop(FROM_WORKERS, 200_000), host_loop(FROM_WORKERS, 5_100_000, step=10_000_000)
    moved = [{**each, "ts": each["ts"] + COUNT * STEP / 1000} for each in late if not each["name"].startswith("Prof")]
    marks = [annotation(f"ProfilerStep#{COUNT + n}", COUNT * STEP + n * 10_000_000, 10_000_000) for n in range(COUNT)]
    view = rank_view(tmp_path, *early, *moved, *marks)
    (finding,) = findings("DATA002", view)
    assert finding.takes is not None
    assert finding.takes == pytest.approx((100_000 + 5_000_000) / 2, rel=0.1)
    assert lawful(finding, view.step_time).high == finding.takes < finding.stake.high


def test_a_wait_that_may_be_unpacking_is_not_sure(tmp_path: Path) -> None:
    (finding,) = findings("DATA002", rank_view(tmp_path, *host_loop(FROM_WORKERS, 400_000)))
    assert (finding.stake.low, finding.stake.high) == (0.0, 300_000)


def test_slower_workers_need_more_of_them(tmp_path: Path) -> None:
    """All but 0.1 ms is waiting: four times the workers bring at most three quarters of the step."""
    (finding,) = findings("DATA002", rank_view(tmp_path, *host_loop(FROM_WORKERS, 100_000_000, step=100_000_001)))
    assert "num_workers=4 * n" in finding.change
    assert finding.stake.low == pytest.approx(0.5 * 0.75 * 100_000_001 * 98.5 / 99.9, abs=2)


@pytest.mark.parametrize(
    ("cores", "workers", "confidence", "times"), [(16, 4, "medium", 3), (3, 2, "low", 4), (2, 0, "medium", 4)]
)
def test_workers_need_cores(cores: int, workers: int, confidence: str, times: int, tmp_path: Path) -> None:
    """Two workers on three cores, one of them the training's: more would only be in each other's way."""
    facts = {"cpu": {"cores": cores, "threads": 1, "workers": workers}}
    events = host_loop(FROM_WORKERS, 8_000_000, step=10_000_000)
    (finding,) = findings("DATA002", rank_view(tmp_path, *events, kinetoscope=facts))
    assert finding.confidence == confidence
    assert f"num_workers={times} * n" in finding.change
    assert ("2 workers of the loader already have 2 cores" in finding.why) is (confidence == "low")
    events = host_loop(IN_PROCESS, 960_000)
    (alone,) = findings("DATA001", rank_view(tmp_path, *events, kinetoscope=facts))
    assert f"num_workers={min(cores - 1, 16)}," in alone.change


def test_means_of_what_comes_in_turns_lie_close_together() -> None:
    low, high = range_of_mean(np.array([0.0, 4, 0, 4, 0, 4, 0, 4]))
    assert low <= 2 <= high
    assert [low, high] == pytest.approx([1.6, 2.4])
    assert range_of_mean(np.array([])) == (0.0, 0.0)


def epochs(new: bool, shut: int = 2_000_000, start: int = 6_000_000, first: int = 1_000_000) -> list[Event]:
    """Nine batches on the host alone; after each third the epoch ends, and the next one begins."""
    events, now = [], 0
    for n in range(9):
        begin = now
        if n in (3, 6):
            events.append(annotation(FROM_WORKERS, now, shut))
            now += shut
            if new:
                events.append(op("aten::random_", now, 10_000))
            now += start
            events.append(annotation(FROM_WORKERS, now, first))
            now += first
        else:
            events.append(annotation(FROM_WORKERS, now, 50_000))
            now += 50_000
        events.append(op("aten::addmm", now, 4_950_000))
        now += 4_950_000
        events.append(annotation(f"ProfilerStep#{n}", begin, now - begin))
    return events


def test_workers_started_anew_are_at_stake(tmp_path: Path) -> None:
    view = rank_view(tmp_path, *epochs(new=True))
    (finding,) = findings("DATA003", view)
    found = starts(view.trace)
    assert (found.end - found.start).tolist() == [6_000_000, 6_000_000]
    assert finding.stake.low == pytest.approx(0.8 * 2 * 8_000_000 / 9, abs=1)
    assert finding.stake.high == pytest.approx(2 * (8_000_000 + 950_000) / 9, abs=1)
    assert finding.at_most == "critical"
    assert findings("DATA002", view) == []


def test_workers_that_live_on_are_left_alone(tmp_path: Path) -> None:
    """No seed for new workers; or one that the order of the samples needs, but no time for workers."""
    assert findings("DATA003", rank_view(tmp_path, *epochs(new=False))) == []
    assert findings("DATA003", rank_view(tmp_path, *epochs(new=True, start=1_000_000))) == []


def test_the_first_start_is_told_by_its_python_call(tmp_path: Path) -> None:
    events = host_loop(FROM_WORKERS, 50_000)
    late = [event | {"ts": event["ts"] + 30_000} for event in events]
    maker = python("torch/utils/data/dataloader.py(491): _get_iterator", 1_000_000, 29_000_000)
    (finding,) = findings("DATA003", rank_view(tmp_path, maker, *late))
    assert finding.stake == NO_STAKE  # it lies in no step
    assert finding.at_most == "note"


# --- loaders of another make


def queue_loop(wait: int, frame: str = "queue.py(154): get") -> list[Event]:
    events = steps(COUNT)
    for n in range(COUNT):
        begin = n * STEP
        events += [python("train.py(12): train", begin, STEP), python(frame, begin + 10, wait)]
        events.append(op("aten::addmm", begin + 10 + wait, STEP - wait - 20))
    return events


@pytest.mark.parametrize(
    "frame",
    [
        "queue.py(154): get",
        "PIL/Image.py(3243): open",
        "PIL/ImageFile.py(185): load",
        "<built-in method read of _io.BufferedReader object>",
    ],
)
def test_python_calls_that_wait_for_data_are_at_stake(tmp_path: Path, frame: str) -> None:
    (finding,) = findings("DATA004", rank_view(tmp_path, *queue_loop(300_000, frame)))
    is_ahead = frame.startswith("queue.py")  # something makes them ahead already
    assert finding.stake.high == 300_000
    assert finding.stake.low == (0 if is_ahead else 150_000)
    assert ("fill, args=(queue,)" in finding.change) is is_ahead
    assert finding.evidence[0].file == "train.py"
    assert finding.evidence[0].line == 12


@pytest.mark.parametrize("frame", ["PIL/Image.py(726): __array_interface__", "PIL/Image.py(2215): resize"])
def test_what_is_made_of_an_image_in_memory_is_no_data_that_is_waited_for(tmp_path: Path, frame: str) -> None:
    assert findings("DATA004", rank_view(tmp_path, *queue_loop(300_000, frame))) == []


@pytest.mark.parametrize(
    ("frame", "inner", "count"),
    [
        ("own_loader.py(6): batches", None, 1),
        ("<built-in function next>", None, 1),
        ("contextlib.py(132): __enter__", "<built-in function next>", 0),
        ("<built-in function next>", "cudaGraphLaunch", 0),
    ],
)
def test_a_generator_is_a_loader_and_a_context_manager_is_none(
    tmp_path: Path, frame: str, inner: str | None, count: int
) -> None:
    step = 10 * STEP
    events = steps(COUNT, step)
    for n in range(COUNT):
        begin = n * step
        events += [python(frame, begin, 6 * STEP), op("aten::addmm", begin + 6 * STEP, 3 * STEP)]
        if inner is not None and inner.startswith("cuda"):
            events.append(launch(begin + STEP, 1000, n + 1, name=inner))
        elif inner is not None:
            events.append(python(inner, begin + 10, 5 * STEP))
    found = findings("DATA004", rank_view(tmp_path, *events))
    assert len(found) == count
    assert all(each.takes == 6 * STEP for each in found)


def test_other_python_calls_are_no_evidence(tmp_path: Path) -> None:
    assert findings("DATA004", rank_view(tmp_path, *queue_loop(300_000, "train.py(40): log"))) == []


def test_torchs_loader_is_not_another_one(tmp_path: Path) -> None:
    events = host_loop(FROM_WORKERS, 300_000)
    events += [python("multiprocessing/queues.py(98): get", n * STEP + 100, 200_000) for n in range(COUNT)]
    assert findings("DATA004", rank_view(tmp_path, *events)) == []


# --- copies


def copying(
    name: str,
    *,
    size: int = 8_000_000,
    took: int = 400_000,
    sync: bool,
    call: int = 5_000,
    category: str = "gpu_memcpy",
) -> list[Event]:
    """Each step copies a batch, launches a kernel, and ends with it."""
    events = steps(COUNT, 2 * STEP)
    for n in range(COUNT):
        begin, copy, work = n * 2 * STEP, 2 * n + 1, 2 * n + 2
        inside = begin + 1000
        shape: dict[str, Any] = {"Input Dims": [[32, 3, 64, 64], [32, 3, 64, 64]], "Input type": ["float", "float"]}
        wait = took if sync else 0
        events.append(op("aten::copy_", inside, call + wait + 20_000, **shape))
        events.append(launch(inside + 1000, call, copy, name="cudaMemcpyAsync"))
        events.append(kernel(name, inside + 5000, took, copy, category=category, bytes=size))
        if sync:
            events.append(event("cuda_runtime", "cudaStreamSynchronize", inside + call + 2000, wait + 2000))
        after = inside + call + wait + 30_000 + 300_000
        events.append(launch(after, 5000, work))
        events.append(kernel("gemm", max(after + 8000, inside + 6000 + took), 900_000, work))
    return events


def test_copies_from_pageable_memory_are_at_stake(tmp_path: Path) -> None:
    view = rank_view(tmp_path, *copying(PAGEABLE, sync=True, call=400_000, took=400_000))
    (finding,) = findings("DATA005", view)
    assert 0 < finding.stake.low < finding.stake.high < 800_000
    assert "20.0" in finding.message  # 8 MB in 400 µs are 20 GB/s
    assert findings("DATA007", view) == []


def test_small_copies_are_somebody_elses(tmp_path: Path) -> None:
    assert findings("DATA005", rank_view(tmp_path, *copying(PAGEABLE, size=8000, sync=True))) == []


def test_pinned_copies_that_nobody_waits_for_are_well(tmp_path: Path) -> None:
    view = rank_view(tmp_path, *copying(PINNED, sync=False))
    assert findings("DATA005", view) == []
    assert findings("DATA007", view) == []


def sent_before_each_step(*, beside: bool = False) -> list[Event]:
    """Each step sends a batch, launches a kernel behind it, and waits for the device."""
    events = steps(COUNT, 2 * STEP)
    for n in range(COUNT):
        begin, copy, work = n * 2 * STEP, 3 * n + 1, 3 * n + 2
        events += [launch(begin + 1000, 5000, copy, name="cudaMemcpyAsync"), launch(begin + 10_000, 5000, work)]
        events.append(kernel(PINNED, begin + 8000, 400_000, copy, category="gpu_memcpy", bytes=8_000_000))
        events.append(kernel("gemm", begin + 409_000, 1_400_000, work))
        events.append(event("cuda_runtime", "cudaDeviceSynchronize", begin + 20_000, 1_790_000))
        if beside:
            events.append(launch(begin + 15_500, 1000, work + 1))
            events.append(kernel("other", begin + 9000, 390_000, work + 1, stream=9))
    return events


def test_copies_that_nothing_runs_beside_could_come_earlier(tmp_path: Path) -> None:
    (finding,) = findings("DATA009", rank_view(tmp_path, *sent_before_each_step()))
    assert finding.takes == 400_000
    assert finding.stake.low == 0
    assert 380_000 < finding.stake.high <= 400_000
    assert "400\xa0µs of each step (20%)" in str(finding.message)


def test_copies_beside_kernels_and_those_that_the_host_waits_for_are_of_other_rules(tmp_path: Path) -> None:
    for events in (sent_before_each_step(beside=True), copying(PAGEABLE, sync=False), copying(PINNED, sync=True)):
        assert findings("DATA009", rank_view(tmp_path, *events)) == []


def test_pinned_copies_that_the_host_waits_for(tmp_path: Path) -> None:
    """The host launches 400 µs sooner; then the copy is what the kernel waits for."""
    (finding,) = findings("DATA007", rank_view(tmp_path, *copying(PINNED, sync=True)))
    assert finding.confidence == "high"
    assert 300_000 < finding.stake.high < 405_000
    assert finding.stake.low == pytest.approx(0.85 * finding.stake.high, rel=0.01)


def test_where_nothing_tells_a_call_as_long_as_its_copy_has_waited(tmp_path: Path) -> None:
    (finding,) = findings("DATA007", rank_view(tmp_path, *copying(UNKNOWN_PRECISION, sync=False, call=410_000)))
    assert finding.confidence == "medium"
    assert "pin_memory" in finding.change


def test_float_images_take_four_times_their_bytes(tmp_path: Path) -> None:
    (finding,) = findings("DATA006", rank_view(tmp_path, *copying(PINNED, sync=True)))
    assert finding.stake.high == pytest.approx(300_000, rel=0.05)
    assert finding.stake.low == pytest.approx(0.8 * finding.stake.high)
    assert finding.confidence == "medium"


Change = Callable[[Event], Event]


def with_dims(dims: object, types: object = ("float", "float")) -> Change:
    def change(each: Event) -> Event:
        return each | {"args": {"Input Dims": dims, "Input type": types}} if each["name"] == "aten::copy_" else each

    return change


@pytest.mark.parametrize(
    ("change", "confidence"),
    [
        (with_dims([[32, 64, 64, 3]]), "medium"),
        (with_dims([[4, 3, 16, 64, 64]]), "medium"),
        (with_dims([[32, 1, 64, 64]]), "low"),
        (with_dims([[32, 4, 64, 64]]), "low"),
        (with_dims([[32, 3, 64, 64]], ["unsigned char"]), ""),
        (with_dims([[32, 64, 64, 64]]), ""),
        (with_dims([[32, 3, 8, 8]]), ""),
        (with_dims([[32, 1024]]), ""),
        (with_dims([[-1, "x", None, {}], 7]), ""),
        (with_dims("hostile", 3), ""),
        (with_dims([], []), ""),
    ],
)
def test_what_is_an_image(tmp_path: Path, change: Change, confidence: str) -> None:
    found = findings("DATA006", rank_view(tmp_path, *map(change, copying(PINNED, sync=True))))
    assert [finding.confidence for finding in found] == ([confidence] if confidence else [])
