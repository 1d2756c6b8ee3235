"""Flame graphs: against a brute-force twin, and conservation of time on real traces."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kinetoscope import Selection, flame
from kinetoscope.model.trace.recording import not_recorded
from kinetoscope.views.exports.files import to_folded
from tests import drawn
from tests.nesting import around

KINDS = {"cpu_op", "user_annotation", "python_function", "cuda_runtime"}
Found = dict[str, tuple[int, int]]


def stacks(folder: Path, *events: drawn.Event, **params: Any) -> Found:
    result = flame(drawn.job(folder, *events), **params)
    found = {row["stack"]: (row["value"], row["calls"]) for row in result.frame.iter_rows(named=True)}
    assert len(found) == len(result)
    return found


# --- the brute-force twin


def span(event: drawn.Event) -> tuple[int, int]:
    start = round(event["ts"] * 1000)
    return start, start + round(event["dur"] * 1000)


class Twin:
    """What `flame` says, one instant at a time."""

    def __init__(self, events: list[drawn.Event], time: tuple[int, int] | None, hidden: set[str]) -> None:
        self.events, self.hidden = events, hidden
        origin = min(span(event)[0] for event in events)
        self.low, self.high = (origin + time[0], origin + time[1]) if time else (-1000, 1000)
        self.around: dict[int, int] = {}
        self.order: dict[int, int] = {}
        for tid in (1, 2):
            here = [k for k, event in enumerate(events) if event["tid"] == tid and event["cat"] in KINDS]
            here.sort(key=lambda k: (span(events[k])[0], -span(events[k])[1]))
            for k, above in zip(here, around([events[k] for k in here]), strict=True):
                self.around[k] = here[above] if above >= 0 else -1
                self.order[k] = len(self.order)

    def path(self, k: int) -> list[str]:
        """The frames of what is shown."""
        if k < 0:
            return []
        event = self.events[k]
        return self.path(self.around[k]) + ([str(event["name"])] if event["cat"] not in self.hidden else [])

    def innermost_shown(self, k: int) -> int:
        while k >= 0 and self.events[k]["cat"] in self.hidden:
            k = self.around[k]
        return k

    def host(self) -> Found:
        time, calls = Counter[str](), Counter[str]()
        for now in range(max(self.low, 0), min(self.high, 100)):
            for tid in (1, 2):
                shown = [k for k in self.order if self.innermost_shown(k) == k and self.events[k]["tid"] == tid]
                running = [k for k in shown if now in range(*span(self.events[k]))]
                owner = max(running, key=self.order.__getitem__, default=-1)
                if owner >= 0:
                    time[";".join(self.path(owner))] += 1
        for k in self.order:
            if self.innermost_shown(k) == k and self.low <= span(self.events[k])[0] < self.high:
                calls[";".join(self.path(k))] += 1
        return {path: (time[path], calls[path]) for path in time}

    def device(self, kernels: bool) -> Found:
        time, calls = Counter[str](), Counter[str]()
        launches = {self.events[k]["args"].get("correlation"): k for k in self.order}
        launches.pop(None, None)
        for event in self.events:
            if event["cat"] != "kernel":
                continue
            start, end = max(span(event)[0], self.low), min(span(event)[1], self.high)
            by = launches.get(event["args"]["correlation"])
            frames = ["unlinked"] if by is None else self.path(by) or ["no call"]
            path = ";".join([*frames, *([event["name"]] if kernels else [])])
            if start < end:
                time[path] += end - start
                calls[path] += start == span(event)[0]
        return {path: (time[path], calls[path]) for path in time}


def launch_number(event: drawn.Event) -> int:
    """One launch has a number alone."""
    return int(event["args"]["correlation"]) if event["cat"] == "cuda_runtime" else id(event)


def drawn_kernel(start: int, duration: int, correlation: int, name: str) -> drawn.Event:
    return drawn.kernel(name, start, duration, correlation)


def drawn_launch(start: int, correlation: int, tid: int) -> drawn.Event:
    return drawn.launch(start, 2, correlation, tid=tid)


NAMES, TIME, THREAD = st.sampled_from(["a", "b"]), st.integers(0, 15), st.integers(1, 2)
EVENTS = st.one_of(
    st.builds(drawn.op, NAMES, TIME, TIME, tid=THREAD),
    st.builds(drawn.annotation, NAMES, TIME, TIME, tid=THREAD),
    st.builds(drawn.python, st.sampled_from(["f", "nn.Module: A_0"]), TIME, TIME, tid=THREAD),
    st.builds(drawn_launch, TIME, st.integers(1, 4), THREAD),
    st.builds(drawn_kernel, st.integers(0, 25), st.integers(1, 9), st.integers(1, 5), st.sampled_from(["k", "m"])),
)

ENDS_WITH_ITS_CALLER = [drawn.python("f", 0, 13), drawn.python("f", 12, 4), drawn.op("a", 12, 3)]
"""Of the calls that begin together the one recorded longer comes first, though it is cut to the shorter."""


@given(
    st.lists(EVENTS, min_size=1, max_size=10, unique_by=launch_number),
    st.none() | st.tuples(st.integers(0, 9), st.integers(10, 20)),
    st.sampled_from(["host", "device"]),
    st.sampled_from(["all", "none"]),
    st.booleans(),
    st.booleans(),
)
@example(ENDS_WITH_ITS_CALLER, None, "host", "all", False, False)
def test_twin(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[drawn.Event],
    time: tuple[int, int] | None,
    weight: Literal["host", "device"],
    python: Literal["all", "none"],
    operators: bool,
    kernels: bool,
) -> None:
    params: dict[str, Any] = {"weight": weight, "python": python, "operators": operators, "kernels": kernels}
    found = stacks(tmp_path_factory.getbasetemp(), *events, select=Selection(time=time), **params)
    hidden = {"python_function"} if python == "none" else set()
    hidden |= set() if operators else {"cpu_op", "user_annotation", "cuda_runtime"}
    if weight == "device":
        hidden.add("cuda_runtime")
    twin = Twin(events, time, hidden)
    assert found == (twin.host() if weight == "host" else twin.device(kernels))


# --- small cases

CALLED = [
    drawn.python("train.py(7): main", 0, 100),
    drawn.python("nn.Module: Net_0", 10, 60),
    drawn.op("aten::mm", 20, 40),
    drawn.launch(30, 10, 1),
    drawn.kernel("gemm<1;2>", 200, 50, 1),
    drawn.kernel("lost", 300, 7, 99),
]


def test_host_and_device(tmp_path: Path) -> None:
    main, net = "train.py(7): main", "train.py(7): main;nn.Module: Net_0"
    assert stacks(tmp_path, *CALLED, weight="host") == {
        main: (40, 1),
        net: (20, 1),
        f"{net};aten::mm": (30, 1),
        f"{net};aten::mm;cudaLaunchKernel": (10, 1),
    }
    on_device = {f"{net};aten::mm;gemm<1 2>": (50, 1), "unlinked;lost": (7, 1)}
    assert stacks(tmp_path, *CALLED) == stacks(tmp_path, *CALLED, weight="device") == on_device
    modules = {"nn.Module: Net_0": (50, 1), "unlinked": (7, 1)}
    assert stacks(tmp_path, *CALLED, python="modules", operators=False, kernels=False) == modules
    nothing = stacks(tmp_path, *CALLED, python="none", operators=False)
    assert nothing == {"no call;gemm<1 2>": (50, 1), "unlinked;lost": (7, 1)}


def test_names_join_without_numbers_of_steps_and_addresses(tmp_path: Path) -> None:
    events = [
        drawn.annotation("ProfilerStep#1", 0, 10),
        drawn.annotation("ProfilerStep#2", 10, 10),
        drawn.python("<built-in method f of A object at 0x7f01>", 20, 5),
        drawn.python("<built-in method f of A object at 0xBEEF>", 30, 5),
    ]
    assert stacks(tmp_path, *events) == {"ProfilerStep*": (20, 2), "<built-in method f of A object>": (10, 2)}


def test_a_step(tmp_path: Path) -> None:
    steps = [drawn.annotation(f"ProfilerStep#{number}", 100 * number, 100) for number in (0, 1)]
    work = [
        drawn.launch(110, 5, 1),
        drawn.kernel("k", 300, 30, 1),
        drawn.launch(10, 5, 2),
        drawn.kernel("k", 400, 9, 2),
    ]
    around = drawn.python("main", 0, 300)
    select = Selection(steps=(1,))
    assert stacks(tmp_path, around, *steps, *work, select=select) == {"main;ProfilerStep*;k": (30, 1)}
    assert stacks(tmp_path, around, *steps, *work, select=select, weight="host") == {
        "main;ProfilerStep*": (95, 1),
        "main;ProfilerStep*;cudaLaunchKernel": (5, 1),
    }


def test_the_backward_pass_under_the_forward_pass(tmp_path: Path) -> None:
    numbers: dict[str, Any] = {"Sequence number": 5}
    events = [
        drawn.python("net.py(3): forward", 0, 50),
        drawn.op("aten::mm", 10, 20, **numbers, **{"Fwd thread id": 0}),
        drawn.op("evaluate: MmBackward0", 100, 40, tid=2, **numbers, **{"Fwd thread id": 1}),
        drawn.op("MmBackward0", 110, 20, tid=2, **numbers, **{"Fwd thread id": 1}),
        drawn.launch(115, 4, 1, tid=2),
        drawn.kernel("k", 200, 30, 1),
    ]
    back = "evaluate: MmBackward0;MmBackward0"
    forward = "net.py(3): forward;aten::mm"
    assert stacks(tmp_path, *events) == {f"{back};k": (30, 1)}
    assert stacks(tmp_path, *events, backward="forward") == {f"{forward};{back};k": (30, 1)}
    assert stacks(tmp_path, *events, backward="forward", weight="host") == {
        "net.py(3): forward": (30, 1),
        forward: (20, 1),
        f"{forward};evaluate: MmBackward0": (20, 1),
        f"{forward};{back}": (16, 1),
        f"{forward};{back};cudaLaunchKernel": (4, 1),
    }


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, drawn.op("aten::mm", 0, 5))
    stacks_missing = "Python calls were not recorded (with_stack=True records them)."
    assert flame(job).notes == (stacks_missing, "Values are host time.")
    assert to_folded(flame(job)) == b"aten::mm 5\n"
    result = flame(job, weight="device", python="none")
    assert len(result) == 0
    assert result.notes == (not_recorded("device work", "weight=host weighs by host time"),)


def test_what_a_thousand_calls_enclose_is_no_frame(tmp_path: Path) -> None:
    calls = [drawn.python("nn.Module: f_0" if k % 2 else "f", k, 10_000 - 2 * k) for k in range(3000)]
    found = stacks(tmp_path, *calls)
    assert (len(found), sum(value for value, _ in found.values())) == (1000, 10_000)
    assert max(stack.count(";") for stack in found) == 999
