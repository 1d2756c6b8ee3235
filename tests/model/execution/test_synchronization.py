from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope import Trace, read
from kinetoscope.model.execution.device_work import device_work
from kinetoscope.model.execution.synchronization import host_waits, idle_after
from tests import drawn
from tests.catalog.samples import SHARED, required


def name(trace: Trace, row: int) -> str:
    return trace.strings.label(int(trace.name[row]))


def awaited(trace: Trace, use_recorded: bool = True) -> list[tuple[str, str | None, bool]]:
    """Each synchronising call, what it waited for, and whether it did."""
    waits, rows = host_waits(trace, use_recorded), device_work(trace).rows
    return [
        (name(trace, call), name(trace, rows[work]) if work >= 0 else None, bool(waited))
        for call, work, waited in zip(waits.call, waits.work, waits.waited, strict=True)
    ]


def sync(start: int, duration: int, called: str = "cudaStreamSynchronize", **args: Any) -> drawn.Event:
    return drawn.event("cuda_runtime", called, start, duration, **args)


WORK = [
    drawn.launch(0, 2, 1),
    drawn.launch(3, 2, 2),
    drawn.kernel("first", 10, 20, 1),
    drawn.kernel("second", 12, 40, 2, stream=8),
]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (sync(20, 15), ("first", True)),  # the other stream was still busy when the call ended
        (sync(20, 35), ("second", True)),
        (sync(60, 5), ("second", False)),  # nothing to wait for; the stream of the last launch
        (sync(20, 5), (None, False)),  # both streams were busy: it cannot have waited for either
        (sync(20, 35, "cudaDeviceSynchronize"), ("second", True)),
        (sync(20, 35, "hipEventSynchronize"), ("second", True)),
        (sync(20, 35, "cudaFree"), ("second", True)),
        (sync(1, 50, "cudaStreamSynchronize"), ("first", True)),  # the second was launched after it began
    ],
)
def test_a_call_waits_for_what_ended_last_on_the_streams_that_are_over(
    tmp_path: Path, call: drawn.Event, expected: tuple[str | None, bool]
) -> None:
    assert awaited(drawn.job(tmp_path, *WORK, call).trace()) == [(call["name"], *expected)]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (sync(20_000, 90_000, "cudaEventSynchronize"), ("before", True)),  # as an engine that works a step ahead
        (sync(20_000, 90_000, "hipEventSynchronize"), ("before", True)),
        (sync(20_000, 90_000), (None, False)),  # a stream is not over before all of it is
        (sync(95_000, 10_000, "cudaEventSynchronize"), (None, False)),  # so short a call finds its event over
        (sync(20_000, 70_000, "cudaEventSynchronize"), (None, False)),  # nothing ends while it runs
        (sync(20_000, 300_000, "cudaEventSynchronize"), ("after", True)),
    ],
)
def test_an_event_may_be_recorded_before_the_last_launch(
    tmp_path: Path, call: drawn.Event, expected: tuple[str | None, bool]
) -> None:
    work = [
        *(drawn.launch(0, 2, 1), drawn.launch(3, 2, 2)),
        *(drawn.kernel("before", 10_000, 90_000, 1), drawn.kernel("after", 100_000, 200_000, 2)),
    ]
    assert awaited(drawn.job(tmp_path, *work, call).trace()) == [(call["name"], *expected)]


@pytest.mark.parametrize("called", ["cudaEventQuery", "cudaStreamQuery", "cudaFreeAsync", "cudaFreeHost", "cudaMalloc"])
def test_a_call_that_only_asks_waits_for_nothing(tmp_path: Path, called: str) -> None:
    assert awaited(drawn.job(tmp_path, *WORK, sync(20, 35, called)).trace()) == []


@pytest.mark.parametrize(
    ("called", "copied", "waits"),
    [
        ("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)", True),
        ("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pinned)", False),
        ("cudaMemcpy", "Memcpy DtoH (Device -> Pinned)", True),
        ("hipMemcpyWithStream", "Memcpy HtoD (Host -> Device)", True),
    ],
)
def test_a_copy_waits_if_it_is_not_asynchronous_or_touches_pageable_memory(
    tmp_path: Path, called: str, copied: str, waits: bool
) -> None:
    call = drawn.launch(20, 45, 3, name=called)
    copy = drawn.kernel(copied, 55, 5, 3, stream=9, category="gpu_memcpy")
    late = drawn.kernel("second", 12, 60, 2, stream=8)  # runs on: the copy waits for its own stream alone
    trace = drawn.job(tmp_path, *WORK[:3], late, call, copy).trace()
    assert awaited(trace) == ([(called, copied, True)] if waits else [])


@pytest.mark.parametrize(
    ("copied", "begin", "expected"),
    [
        ("Memcpy HtoD (Host -> Device)", 5, ("first", True)),  # the call ends while its copy runs
        ("Memcpy HtoD (Host -> Device)", 32, ("first", False)),  # what the stream had was over
        ("Memcpy DtoH (Device -> Host)", 5, ("first", True)),
        ("Memcpy DtoH (Device -> Host)", 32, ("Memcpy DtoH (Device -> Host)", True)),  # the host has its data
    ],
)
def test_a_copy_that_ends_after_its_call_waited_for_what_its_stream_had_before(
    tmp_path: Path, copied: str, begin: int, expected: tuple[str, bool]
) -> None:
    call = drawn.launch(begin, 45 - begin, 3, name="hipMemcpyWithStream")
    copy = drawn.kernel(copied, 40, 8, 3, category="gpu_memcpy")
    trace = drawn.job(tmp_path, *WORK, call, copy).trace()
    assert awaited(trace) == [("hipMemcpyWithStream", *expected)]


def test_a_call_inside_a_waiting_call_does_not_wait_again(tmp_path: Path) -> None:
    inner = drawn.event("cuda_driver", "cuStreamSynchronize", 21, 33)
    assert awaited(drawn.job(tmp_path, *WORK, sync(20, 35), inner).trace()) == [
        ("cudaStreamSynchronize", "second", True)
    ]


def recorded_wait(kind: str, correlation: int, **args: Any) -> drawn.Event:
    return drawn.event("cuda_sync", kind, 20, 15, pid=0, tid=7, correlation=correlation, device=0, **args)


def test_what_was_recorded_counts(tmp_path: Path) -> None:
    record = drawn.launch(1, 1, 30, name="cudaEventRecord")
    call = drawn.launch(20, 40, 31, name="cudaEventSynchronize")
    row = recorded_wait(
        "Event Sync", 31, stream=-1, wait_on_stream=7, wait_on_cuda_event_record_corr_id=30, wait_on_cuda_event_id=1
    )
    trace = drawn.job(tmp_path, *WORK, record, call, row).trace()
    assert awaited(trace) == [("cudaEventSynchronize", "first", True)]
    assert awaited(trace, use_recorded=False) == [("cudaEventSynchronize", "second", True)]


def test_a_recorded_query_of_an_event_is_no_wait(tmp_path: Path) -> None:
    call = drawn.launch(20, 40, 31, name="cudaEventQuery")
    row = recorded_wait("Event Sync", 31, stream=-1, wait_on_stream=7, wait_on_cuda_event_record_corr_id=1)
    assert awaited(drawn.job(tmp_path, *WORK, call, row).trace()) == []


# --- what it costs


def test_idle_time_follows_from_a_call_as_far_as_the_call_took(tmp_path: Path) -> None:
    after = [drawn.launch(60, 2, 3), drawn.kernel("third", 70, 5, 3)]
    trace = drawn.job(tmp_path, *WORK, *after, sync(20, 35), sync(56, 1)).trace()
    assert idle_after(trace).tolist() == [18, 0]  # idle from 52 to 70, and without the first call the launch at 25
    trace = drawn.job(tmp_path, *WORK, *after, sync(50, 5), sync(56, 2)).trace()
    assert idle_after(trace).tolist() == [5, 2]
    assert idle_after(drawn.job(tmp_path, *WORK, sync(20, 35)).trace()).tolist() == [0]


# --- real traces

FOLDERS = [
    "alexnet_a100",
    "critical_path/simple_add",
    "critical_path/cuda_event_sync",
    "critical_path/cuda_event_sync_multi_stream",
]


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_inferred_is_what_was_recorded(folder: str) -> None:
    trace = read(required(SHARED) / folder, jobs=1).trace()
    told, guessed = host_waits(trace), host_waits(trace, use_recorded=False)
    assert told.recorded.any()
    assert not guessed.recorded.any()
    assert told.call.tolist() == guessed.call.tolist()
    assert told.work[told.recorded].tolist() == guessed.work[told.recorded].tolist()
