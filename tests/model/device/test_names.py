"""What the devices of a run are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope.model.device.names import NAMELESS, names_of_used_devices
from tests import drawn

MI300X = {"totalGlobalMem": 206141652992, "computeMajor": 9, "computeMinor": 4, "numSms": 304}
WORK = drawn.kernel("gemm", 10, 10, 1, device=2)
LAUNCH = drawn.launch(0, 5, 1)


@pytest.mark.parametrize(
    ("events", "listed", "names"),
    [
        ((WORK,), [{"id": 0, "name": "AMD Instinct MI300X VF"}], ["AMD Instinct MI300X VF"]),
        ((WORK,), [{"id": 0, "name": "", **MI300X}], ["MI300X"]),
        ((WORK,), [{"id": 0, "name": "", **MI300X, "numSms": 100}], [NAMELESS]),
        ((WORK,), [{"id": 0, "name": "", "computeMajor": 9, "computeMinor": 4}], [NAMELESS]),
        ((WORK,), [], [NAMELESS]),
        ((LAUNCH,), [{"id": 0, "name": "NVIDIA A40"}], ["NVIDIA A40"]),
        ((LAUNCH,), [], [NAMELESS]),
        ((drawn.op("aten::mm", 0, 5),), [{"id": 0, "name": "NVIDIA A40"}], []),
    ],
    ids=[
        "numbered otherwise",
        "no name",
        "no such product",
        "too few facts",
        "not listed",
        "lost",
        "lost, too",
        "host",
    ],
)
def test_only_a_run_without_device_is_on_the_host_alone(
    tmp_path: Path, events: tuple[drawn.Event, ...], listed: list[dict[str, Any]], names: list[str]
) -> None:
    assert names_of_used_devices(drawn.job(tmp_path, *events, deviceProperties=listed).trace()) == names
