from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kinetoscope import Selection, idle_breakdown, read, temporal_breakdown
from tests import conftest, drawn

BUSY = drawn.kernel("before", 0, 1000, 0)

Reasons = dict[tuple[str, str], int]


def reasons(folder: Path, *events: drawn.Event, select: Selection | None = None, **how: Any) -> Reasons:
    """Time by reason and detail of a trace's only device."""
    frame = idle_breakdown(drawn.job(folder, *events), select=select or Selection(), **how).frame
    return {(reason, detail): time for reason, detail, time in frame.select("reason", "detail", "time").rows()}


# --- each reason


def test_a_late_launch_is_split_by_what_its_thread_did(tmp_path: Path) -> None:
    thread = [
        drawn.python("train.py(1): step", 900, 590),  # until 1490: covers what follows, and comes last
        drawn.annotation("enumerate(DataLoader)#_Single.__next__", 1010, 90),
        drawn.op("aten::stack", 1020, 30),  # in the loader
        drawn.op("aten::item", 1100, 60),
        drawn.launch(1110, 40, 90, name="cudaStreamSynchronize"),
        drawn.launch(1200, 10, 91, name="cudaMalloc"),
        drawn.launch(1220, 5, 92, name="cudaEventRecord"),
        drawn.op("aten::mm", 1480, 60),
        drawn.launch(1500, 20, 1),
    ]
    elsewhere = [drawn.op("aten::other", 1000, 500, tid=2)]
    found = reasons(tmp_path, BUSY, *thread, *elsewhere, drawn.kernel("gemm", 1550, 10, 1))
    assert found == {
        ("launch late", "data loading"): 90,
        ("launch late", "synchronizing call"): 40,
        ("launch late", "allocating call"): 10,
        ("launch late", "other runtime call"): 5,
        ("launch late", "host operator"): 20 + 20,
        ("launch late", "Python"): 315,
        ("launch late", "launch call"): 20,
        ("launch late", "launch to start"): 30,
    }


def test_a_thread_of_which_nothing_is_known_did_nothing_recorded(tmp_path: Path) -> None:
    events = [BUSY, drawn.annotation("ProfilerStep#1", 0, 3000), drawn.launch(1700, 9, 1)]
    found = reasons(tmp_path, *events, drawn.kernel("gemm", 1800, 1, 1))
    assert found == {
        ("launch late", "nothing recorded"): 700,
        ("launch late", "launch call"): 9,
        ("launch late", "launch to start"): 91,
    }


def test_a_launch_is_to_blame_until_shortly_after_its_call(tmp_path: Path) -> None:
    events = [BUSY, drawn.launch(1200, 10, 1), drawn.kernel("gemm", 900_000, 10, 1)]
    assert reasons(tmp_path, *events) == {
        ("launch late", "nothing recorded"): 200,
        ("launch late", "launch call"): 10,
        ("launch late", "launch to start"): 900_000 - 1_210,
    }
    other = [drawn.launch(950_000, 10, 2), drawn.kernel("gemm", 950_020, 10, 2, stream=8)]
    found = reasons(tmp_path, *events, *other)
    assert found["waiting", "stream or event"] == 900_000 - 31_210, "of two streams one may wait for the other"
    assert found["launch late", "launch to start"] == 30_000 + 10


def test_capturing_a_graph_is_a_reason_of_its_own(tmp_path: Path) -> None:
    begin, end = (
        drawn.launch(t, 10, 8, name=f"cudaStream{what}Capture") for t, what in ((1100, "Begin"), (1500, "End"))
    )
    malloc = drawn.launch(1400, 30, 10, name="cudaMalloc")  # while a graph is captured, but not captured itself
    host = [begin, end, drawn.op("aten::mm", 1200, 100), drawn.launch(1250, 10, 9), malloc, drawn.launch(1600, 10, 1)]
    assert reasons(tmp_path, BUSY, *host, drawn.kernel("gemm", 1610, 10, 1)) == {
        ("launch late", "nothing recorded"): 450,
        ("launch late", "allocating call"): 30,
        ("launch late", "graph capture"): 120,
        ("launch late", "launch call"): 10,
    }


def test_a_copy_that_the_host_waits_for_synchronizes(tmp_path: Path) -> None:
    call = drawn.launch(1200, 800_200, 1, name="hipMemcpyWithStream")
    copy = drawn.kernel("Memcpy HtoD (Host -> Device)", 800_000, 10, 1, category="gpu_memcpy")
    assert reasons(tmp_path, BUSY, call, copy) == {
        ("launch late", "nothing recorded"): 200,
        ("launch late", "synchronizing call"): 800_000 - 31_200,
        ("launch late", "launch call"): 30_000,
    }


@pytest.mark.parametrize(
    ("launched", "begun", "stream", "reason"),
    [
        (1000, 1040, 7, ("launch latency", "launched just before")),  # launched as the gap began is not late
        (990, 1040, 7, ("launch latency", "launched just before")),
        (940, 1040, 7, ("waiting", "kernel to kernel")),
        (940, 1040, 8, ("waiting", "stream or event")),
        (940, 1100, 7, ("launch latency", "launch to start")),  # longer than a queue of ready kernels needs
    ],
)
def test_work_that_was_launched_in_time(
    tmp_path: Path, launched: int, begun: int, stream: int, reason: tuple[str, str]
) -> None:
    events = [BUSY, drawn.launch(launched, 5, 1), drawn.kernel("gemm", begun, 10, 1, stream=stream)]
    assert reasons(tmp_path, *events, launch_latency=100) == {reason: begun - 1000}


def test_work_without_a_recorded_launch_is_unknown(tmp_path: Path) -> None:
    assert reasons(tmp_path, BUSY, drawn.kernel("gemm", 1010, 10, 5)) == {("unknown", "launch not recorded"): 10}


def test_a_device_that_another_stream_keeps_busy_is_not_idle(tmp_path: Path) -> None:
    events = [BUSY, drawn.kernel("copy", 900, 500, 5, stream=8), drawn.launch(1200, 9, 1)]
    work = drawn.kernel("gemm", 1390, 10, 1)
    assert reasons(tmp_path, *events, work) == {}
    assert reasons(tmp_path, *events, work, by="stream") == {("host wait", "launched late"): 390}


def test_the_end_of_a_selected_step_ends_a_gap(tmp_path: Path) -> None:
    steps = [drawn.annotation(f"ProfilerStep#{n}", 1000 * n, 1000) for n in (1, 2)]
    launches = [drawn.launch(1100, 10, 1), drawn.launch(2300, 10, 2)]
    work = [drawn.kernel("gemm", 1110, 500, 1), drawn.kernel("gemm", 2310, 500, 2)]
    found = reasons(tmp_path, *steps, *launches, *work, select=Selection(steps=(1,)))
    assert found == {
        ("launch late", "nothing recorded"): 100,
        ("launch late", "launch call"): 10,
        ("end of step", "no more work"): 390,
    }


def test_a_row_counts_its_gaps_and_finds_the_longest(tmp_path: Path) -> None:
    work = [drawn.kernel("gemm", 1100 * n, 1000 + 10 * n, 40 + n) for n in range(5)]
    [row] = idle_breakdown(drawn.job(tmp_path, *work)).frame.rows(named=True)
    assert row["stream"] is None
    assert (row["gaps"], row["time"], row["longest"], row["longest_at"]) == (4, 100 + 90 + 80 + 70, 100, 1000)
    assert (row["share"], row["window_share"]) == (1.0, 340 / 5440)


# --- against a count of instants


@dataclass(frozen=True)
class Kernel:
    start: int
    duration: int
    device: int
    stream: int
    launch: tuple[int, int, int] | None
    """Start, duration and thread."""

    @property
    def end(self) -> int:
        return self.start + self.duration


HOST = {
    "enumerate(DataLoader)#X.__next__": ("user_annotation", "data loading"),
    "cudaDeviceSynchronize": ("cuda_runtime", "synchronizing call"),
    "cudaFree": ("cuda_runtime", "allocating call"),
    "cudaEventRecord": ("cuda_runtime", "other runtime call"),
    "aten::mm": ("cpu_op", "host operator"),
    "f.py(1): f": ("python_function", "Python"),
    "anything": ("user_annotation", "nothing recorded"),
}
PRIORITY = [detail for _, detail in HOST.values()]
LATENCY = 6

HostCall = tuple[str, int, int, int]
launches = st.none() | st.tuples(st.integers(0, 45), st.integers(0, 4), st.integers(1, 2))
kernels = st.builds(Kernel, st.integers(0, 40), st.integers(0, 6), st.integers(0, 1), st.integers(7, 8), launches)
host_calls = st.tuples(st.sampled_from(list(HOST)), st.integers(0, 40), st.integers(0, 9), st.integers(1, 2))


def doing(instant: int, thread: int, calls: list[HostCall], work: list[Kernel]) -> str:
    happening = [HOST[name][1] for name, start, time, of in calls if of == thread and start <= instant < start + time]
    for kernel in work:
        if kernel.launch and kernel.launch[2] == thread and 0 <= instant - kernel.launch[0] < kernel.launch[1]:
            happening.append("other runtime call")
    return min(happening, key=PRIORITY.index, default="nothing recorded")


def by_instants(work: list[Kernel], calls: list[HostCall], device: int) -> Iterator[tuple[str, str]]:
    """The reason of each idle instant of a device."""
    here = [kernel for kernel in work if kernel.device == device and kernel.duration]
    alone = len({kernel.stream for kernel in work if kernel.device == device}) == 1
    running = {instant for kernel in here for instant in range(kernel.start, kernel.end)}
    for instant in range(min(running, default=0), max(running, default=0)):
        if instant in running:
            continue
        begun = max(t for t in running if t < instant) + 1
        end = min(t for t in running if t > instant)
        by = next(kernel for kernel in here if kernel.start == end)
        before = {kernel.stream for kernel in work if kernel.device == device and kernel.end == begun}
        if by.launch is None:
            yield "unknown", "launch not recorded"
        elif by.launch[0] > begun and instant < by.launch[0]:
            yield "launch late", doing(instant, by.launch[2], calls, work)
        elif by.launch[0] > begun and (alone or instant < sum(by.launch[:2]) + LATENCY):
            yield "launch late", "launch call" if instant < sum(by.launch[:2]) else "launch to start"
        elif by.launch[0] > begun:
            yield "waiting", "stream or event"
        elif end - by.launch[0] < LATENCY:
            yield "launch latency", "launched just before"
        else:
            near = by.stream in before and end - begun < LATENCY
            late = ("launch latency", "launch to start") if alone else ("waiting", "stream or event")
            yield ("waiting", "kernel to kernel") if near else late


@example(
    work=[Kernel(0, 1, 0, 7, None), Kernel(3, 1, 0, 7, (3, 0, 1))],
    calls=[("cudaDeviceSynchronize", 0, 2, 1), ("cudaDeviceSynchronize", 1, 2, 1)],
)
@given(st.lists(kernels, min_size=1, max_size=8), st.lists(host_calls, max_size=8))
def test_it_equals_a_count_of_instants(tmp_path: Path, work: list[Kernel], calls: list[HostCall]) -> None:
    events = [drawn.event(HOST[name][0], name, start, time, tid=thread) for name, start, time, thread in calls]
    for place, kernel in enumerate(work):
        events.append(
            drawn.kernel("k", kernel.start, kernel.duration, place + 1, device=kernel.device, stream=kernel.stream)
        )
        if kernel.launch:
            start, time, thread = kernel.launch
            events.append(drawn.launch(start, time, place + 1, tid=thread))
    frame = idle_breakdown(drawn.job(tmp_path, *events), launch_latency=LATENCY).frame
    for device in (0, 1):
        mine = {(row["reason"], row["detail"]): row["time"] for row in frame.filter(device=device).to_dicts()}
        assert mine == dict(Counter(by_instants(work, calls, device)))


# --- real traces


def test_selected_streams_are_looked_at_as_if_there_were_no_others(tmp_path: Path) -> None:
    events = [BUSY, drawn.kernel("copy", 900, 500, 5, stream=8), drawn.kernel("gemm", 1390, 10, 9)]
    assert reasons(tmp_path, *events, select=Selection(streams=(7,))) == {("unknown", "launch not recorded"): 390}


def test_nothing_is_lost_on_a_trace_of_our_own() -> None:
    job = read(conftest.DEMO)
    assert len(idle_breakdown(job)) == 0 or idle_breakdown(job).frame["time"].sum() == (
        temporal_breakdown(job).frame["idle"].sum()
    )
