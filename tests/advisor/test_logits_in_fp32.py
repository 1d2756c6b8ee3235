"""DEVICE008 on drawn steps: a cast of logits to FP32, a soft-max of them, and something else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope.advisor.finding import Finding
from kinetoscope.advisor.rule import RankView
from kinetoscope.advisor.rules.logits_in_fp32 import logits_in_fp32_of_rank
from kinetoscope.model.steps.selection import ALL
from tests.drawn import Event, annotation, job, kernel, launch, op

US = 1000
HOST = 100 * US
TOKENS, CLASSES = 4096, 32_000
H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0, "numSms": 132}

Call = tuple[str, list[tuple[str, list[int]]], int]
"""An operator, the types and shapes of its tensors, and how long its kernel takes, µs."""


def findings(folder: Path, *calls: Call) -> list[Finding]:
    events: list[Event] = []
    number = 0
    for step in range(3):  # the host is ahead
        at = step * HOST
        events.append(annotation(f"ProfilerStep#{step}", at, HOST))
        begin = step * sum(duration for _, _, duration in calls) * US
        for name, tensors, duration in calls:
            number += 1
            told: dict[str, Any] = {
                "Input Dims": [*(shape for _, shape in tensors), [], []],
                "Input type": [*(kind for kind, _ in tensors), "Scalar", "Scalar"],
                "Concrete Inputs": [*("" for _ in tensors), "1", "False"],
            }
            events += [op(name, at, 10 * US, **told), launch(at + US, US, number)]
            events.append(kernel("k", 20 * US + begin, duration * US, number))
            at, begin = at + 11 * US, begin + duration * US
    trace = job(folder, *events, deviceProperties=[H100]).trace()
    return list(logits_in_fp32_of_rank(RankView(trace, ALL)))


def loss(classes: int = CLASSES, kind: str = "float") -> list[Call]:
    """500 µs of other things, 200 of a cast, 500 of a soft-max."""
    logits = [TOKENS, classes]
    return [
        ("aten::relu", [("c10::BFloat16", [TOKENS, 64])], 500),
        ("aten::copy_", [(kind, logits), ("c10::BFloat16", logits)], 200),
        ("aten::_log_softmax", [(kind, logits)], 500),
    ]


def test_casts_go_and_the_rest_takes_half_its_time(tmp_path: Path) -> None:
    [finding] = findings(tmp_path, *loss())
    assert finding.title == "Logits of 32,000 classes are made FP32 for the loss"
    assert "those of 4,096 tokens are 524\N{NO-BREAK SPACE}MB" in finding.message
    assert finding.stake.low == pytest.approx((200 + 0.45 * 500) * US, rel=0.01)
    floor = 4 * TOKENS * CLASSES / 3.352e12 * 1e9  # read and written once in 16 bits
    assert finding.stake.high == pytest.approx(1.05 * (700 * US - floor), rel=0.01)


@pytest.mark.parametrize(
    "calls",
    [loss(classes=1000), loss(kind="c10::BFloat16"), [each for each in loss() if each[0] != "aten::copy_"]],
    ids=["few classes", "16 bits", "products in FP32 already"],
)
def test_others_are_left_alone(tmp_path: Path, calls: list[Call]) -> None:
    assert findings(tmp_path, *calls) == []
