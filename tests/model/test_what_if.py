from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope.errors import UsageError
from kinetoscope.model.what_if import rules, what_if
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
    assert what_if(drawn.job(tmp_path, *STEP).trace(), rules(text)).duration.tolist() == [duration]


def test_a_gain_in_one_step_may_be_lost_in_the_next(tmp_path: Path) -> None:
    """The host needs 100 a step, and the device is behind: without the kernels the second step still needs 100."""
    steps = [drawn.annotation(f"ProfilerStep#{k}", 100 * k, 100) for k in range(2)]
    launches = [drawn.launch(100 * k + 90, 5, k + 1) for k in range(2)]
    work = [drawn.kernel("gemm", 100 * k + 100, 80, k + 1) for k in range(2)]
    trace = drawn.job(tmp_path, *steps, *launches, *work).trace()
    assert what_if(trace, ()).duration.tolist() == [180, 100]
    assert what_if(trace, rules("gemm=0")).duration.tolist() == [100, 100]


def test_events_that_a_name_tells_are_counted(tmp_path: Path) -> None:
    answer = what_if(drawn.job(tmp_path, *STEP).trace(), rules("cuda=1; no such=0; host=1"))
    assert answer.events == (("cuda=1", 3), ("no such=0", 0), ("host=1", -1))


@pytest.mark.parametrize("text", ["gemm", "gemm=fast", "gemm=-1", "=2", "gemm=nan", "/(/=1", "a=1; b"])
def test_what_cannot_be_read_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"gemm=0\.5"):
        rules(text)


def test_nothing_asked_is_no_rule() -> None:
    assert rules(" ; ") == ()
