"""What a process took is measured from outside, whatever becomes of it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from benchmarks.measure import Measured, measured

MB = 10**6


def python(code: str, **limits: Any) -> Measured:
    return measured([sys.executable, "-I", "-S", "-c", code], **limits)


def test_output_time_and_memory_of_a_process() -> None:
    run = python("import time; block = bytearray(150_000_000); time.sleep(0.2); print('said')")
    assert (run.status, run.out) == ("done", "said\n")
    assert run.wall > 0.2
    assert 0 < run.cpu < run.wall
    assert 150 * MB < run.peak < 200 * MB


@pytest.mark.slow
def test_the_memory_of_the_one_who_measures_does_not_count() -> None:
    block = np.ones(40 * MB)
    assert python("pass").peak < 50 * MB < block.nbytes


def test_children_count_with_their_parents() -> None:
    child = "if os.fork() == 0:\n  more = bytearray(80_000_000)\n  time.sleep(0.5)\nelse:\n  os.wait()"
    run = python(f"import os, time\nblock = bytearray(80_000_000)\n{child}")
    assert run.peak > 160 * MB


def test_a_failure_says_why() -> None:
    run = python("1 / 0")
    assert run.status == "failed"
    assert run.error.endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize(
    ("code", "limits", "status"),
    [
        ("import time; print('began', flush=True); time.sleep(60)", {"timeout": 0.5}, "timeout"),
        (
            "import time; print('began', flush=True); b = bytearray(200_000_000); time.sleep(60)",
            {"memory": 150 * MB},
            "memory",
        ),
    ],
)
def test_a_limit_ends_it_and_what_it_said_is_kept(code: str, limits: dict[str, Any], status: str) -> None:
    run = python(code, **limits)
    assert (run.status, run.out) == (status, "began\n")
