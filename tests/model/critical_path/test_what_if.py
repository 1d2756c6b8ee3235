from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.errors import UsageError
from kinetoscope.model.critical_path.what_if import parse_rules, what_if
from tests import drawn

STEP = [
    drawn.annotation("ProfilerStep#1", 0, 100),
    drawn.op("aten::mm", 8, 8),
    drawn.launch(10, 5, 1),
    drawn.launch(17, 5, 2),
    drawn.kernel("gemm", 20, 40, 1),
    drawn.kernel("relu", 61, 29, 2),
    drawn.event("cuda_runtime", "cudaStreamSynchronize", 25, 67),
]
"""The path: 10 on the host, 10 to launch, 40 gemm, 1 gap, 29 relu, 2 until the call returns, 8 on the host."""


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("gemm=1", 100),
        ("gemm=0.5", 80),
        ("gemm=2", 140),
        ("relu=0", 71),
        ("gemm=0; relu=0", 37),  # the second launch, at 17, needs 10 as the first did, and the call that waits 2
        ("aten::mm=0", 58),  # the call of 8, of which 2 before the launch are on the path, and its kernel
        ("cudaLaunchKernel=0", 90),
        ("launch=0", 90),
        ("computation=0", 37),
        ("communication=0", 100),
        ("host=0", 80),
        ("gaps=0", 99),
        ("cudaStreamSynchronize=0", 98),
        ("/^r.lu$/=0", 71),
        ("/^elu/=0", 100),
    ],
)
def test_the_step_takes_as_long_as_what_is_left_needs(tmp_path: Path, text: str, duration: int) -> None:
    assert what_if(drawn.job(tmp_path, *STEP).trace(), parse_rules(text)).duration.tolist() == [duration]


def test_a_gain_in_one_step_may_be_lost_in_the_next(tmp_path: Path) -> None:
    """The host needs 100 a step, and the device is behind: without the kernels the second step still needs 100."""
    steps = [drawn.annotation(f"ProfilerStep#{k}", 100 * k, 100) for k in range(2)]
    launches = [drawn.launch(100 * k + 90, 5, k + 1) for k in range(2)]
    work = [drawn.kernel("gemm", 100 * k + 100, 80, k + 1) for k in range(2)]
    trace = drawn.job(tmp_path, *steps, *launches, *work).trace()
    assert what_if(trace, ()).duration.tolist() == [180, 100]
    assert what_if(trace, parse_rules("gemm=0")).duration.tolist() == [100, 100]


def test_events_that_a_name_tells_are_counted(tmp_path: Path) -> None:
    answer = what_if(drawn.job(tmp_path, *STEP).trace(), parse_rules("cuda=1; no such=0; host=1"))
    assert answer.events == (("cuda=1", 3), ("no such=0", 0), ("host=1", -1))


@pytest.mark.parametrize("text", ["gemm", "gemm=fast", "gemm=-1", "=2", "gemm=nan", "/(/=1", "a=1; b"])
def test_what_cannot_be_read_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"gemm=0\.5"):
        parse_rules(text)


def test_times_that_cannot_be_are_made_longer_without_a_word(tmp_path: Path) -> None:
    years = 3 * 10**18
    broken = [drawn.kernel("gemm", 20, years, 1), drawn.event("cuda_runtime", "cudaStreamSynchronize", 25, years)]
    job = drawn.job(tmp_path, *STEP[:4], *broken)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert what_if(job.trace(), parse_rules("gemm=1000000; other=1000000; host=1000000")).duration[0] > 0


def test_nothing_asked_is_no_rule() -> None:
    assert parse_rules(" ; ") == ()


# --- a machine that we know


@dataclass
class Machine:
    """Runs a program of launches, ops and waits, and writes down what happens.

    A launch takes the host 3 and reaches the device after 5; work starts 1 after the work before it; a call that waits
    returns 2 after the work, or takes 2.
    """

    factors: Mapping[str, float] = field(default_factory=dict)
    time: int = 0
    events: list[drawn.Event] = field(default_factory=list)
    ends: dict[int, list[int]] = field(default_factory=dict)
    launched: list[tuple[int, int]] = field(default_factory=list)
    waits_for: int | None = None

    def op(self, name: str, duration: int) -> None:
        duration = int(duration * self.factors.get(name, 1))
        self.events.append(drawn.op(name, self.time, duration))
        self.time += duration

    def launch(self, stream: int, name: str, duration: int) -> None:
        correlation = len(self.launched) + 1
        before = [self.ends[stream][-1] + 1] if stream in self.ends else []
        if self.waits_for is not None:
            others = [end for other, end in self.launched if other != stream]
            before += [end + 1 for end in others[-1:]]
        start = max([self.time + 5, *before])
        end = start + int(duration * self.factors.get(name, 1))
        self.events.append(drawn.launch(self.time, 3, correlation))
        self.events.append(drawn.kernel(name, start, end - start, correlation, stream=stream))
        self.ends.setdefault(stream, []).append(end)
        self.launched.append((stream, end))
        self.waits_for = None
        self.time += 3

    def wait(self) -> None:
        """Of a stream for the work that was launched last on another one."""
        self.events.append(drawn.event("cuda_runtime", "cudaStreamWaitEvent", self.time, 1))
        self.waits_for = self.time
        self.time += 1

    def synchronize(self) -> None:
        end = max([self.time, *(end for _, end in self.launched)]) + 2
        self.events.append(drawn.event("cuda_runtime", "cudaDeviceSynchronize", self.time, end - self.time))
        self.time = end

    def run(self, program: Sequence[tuple[Any, ...]]) -> int:
        for name, *values in program:
            getattr(self, name)(*values)
        self.events.append(drawn.annotation("ProfilerStep#1", 0, self.time))
        return max([self.time, *(end for _, end in self.launched)])


CALIBRATION = [("launch", 7, "k0", 20), ("launch", 7, "k0", 20), ("synchronize",)]
"""Shows what a launch, a gap and a return need."""

names = st.sampled_from(["k0", "k1", "k2"])
programs = st.lists(
    st.one_of(
        st.tuples(st.just("launch"), st.integers(7, 9), names, st.integers(1, 12).map(lambda half: 2 * half)),
        st.tuples(st.just("op"), st.sampled_from(["a", "b"]), st.integers(1, 6).map(lambda half: 2 * half)),
        st.tuples(st.just("wait")),
        st.tuples(st.just("synchronize")),
    ),
    max_size=14,
)
scales = st.dictionaries(st.sampled_from(["k0", "k1", "k2", "a", "b"]), st.sampled_from([0, 0.5, 1, 1.5, 3]))


@given(programs, scales)
def test_it_foretells_what_a_machine_does(
    tmp_path_factory: pytest.TempPathFactory, program: list[tuple[Any, ...]], scales: dict[str, float]
) -> None:
    program = [*CALIBRATION, *program]
    measured, changed = Machine(), Machine(scales)
    now, then = measured.run(program), changed.run(program)
    trace = drawn.job(tmp_path_factory.getbasetemp(), *measured.events).trace()
    assert what_if(trace, ()).duration.tolist() == [now]
    asked = "; ".join(f"/^{name}$/={factor}" for name, factor in scales.items())
    assert what_if(trace, parse_rules(asked)).duration.tolist() == [then]


def test_what_the_host_did_while_the_device_was_behind_counts_from_the_devices_step_on(tmp_path: Path) -> None:
    """The device's step begins at 100, when earlier work is over; the host's at 50, and it is slow from 60 to 160."""
    trace = drawn.job(
        tmp_path,
        drawn.launch(10, 5, 1),
        drawn.kernel("before", 20, 80, 1),
        drawn.annotation("ProfilerStep#1", 50, 130),
        drawn.op("slow", 60, 100),
        drawn.launch(160, 5, 2),
        drawn.kernel("gemm", 170, 20, 2),
    ).trace()
    assert what_if(trace, ()).duration.tolist() == [90]
    assert what_if(trace, parse_rules("slow=0")).duration.tolist() == [30]
    assert what_if(trace, parse_rules("slow=0.5")).duration.tolist() == [60]
