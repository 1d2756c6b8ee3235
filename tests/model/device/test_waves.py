"""Blocks that run at a time, by cases of NVIDIA's occupancy calculator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.model.device.hardware import Device
from kinetoscope.model.device.waves import blocks_at_a_time, waves
from tests import drawn


def device(capability: tuple[int, int], threads: int = 2048, shared: int = 167_936) -> Device:
    properties = {
        "maxThreadsPerMultiprocessor": threads,
        "warpSize": 32,
        "regsPerMultiprocessor": 65_536,
        "sharedMemPerMultiprocessor": shared,
    }
    return Device(0, "", None, 108, capability, properties)


V100 = device((7, 0), shared=98_304)
A100 = device((8, 0))
H100 = device((9, 0), shared=233_472)
L4 = device((8, 9), threads=1536, shared=102_400)


@pytest.mark.parametrize(
    ("on", "block", "registers", "shared", "blocks"),
    [
        (A100, [1024, 1, 1], 32, 0, 2),  # threads
        (A100, [256, 1, 1], 64, 0, 4),  # registers
        (A100, [256, 1, 1], 65, 0, 3),  # of a warp 2,304 and no longer 2,048
        (A100, [32, 1, 1], 16, 0, 32),  # slots
        (L4, [32, 1, 1], 16, 0, 24),
        (A100, [128, 1, 1], 32, 65_536, 2),  # shared memory, with 1 kB that the system takes
        (V100, [128, 1, 1], 32, 49_152, 2),  # which it does not on older ones
        (A100, [128, 1, 1], 32, 55_000, 2),
        (H100, [384, 1, 1], 168, 213_000, 1),  # a matrix product on Hopper
        (A100, [16, 16, 1], 32, 0, 8),
        (A100, [2048, 1, 1], 255, 0, 0),  # none fits
        (A100, "", 32, 0, 0),
    ],
)
def test_what_there_is_least_of_limits_them(on: Device, block: Any, registers: int, shared: int, blocks: int) -> None:
    assert blocks_at_a_time(on, block, registers, shared) == blocks


sizes = st.integers(0, 1 << 40)


@given(st.one_of(st.none(), st.text(), st.lists(st.one_of(sizes, st.text(), st.none()))), sizes, sizes)
def test_any_configuration_has_an_answer(block: Any, registers: int, shared: int) -> None:
    assert 0 <= blocks_at_a_time(A100, block, registers, shared) <= 32


def test_waves_are_blocks_by_those_at_a_time(tmp_path: Path) -> None:
    configuration: dict[str, Any] = {"block": [256, 1, 1], "registers per thread": 64, "shared memory": 0}
    configuration["blocks per SM"] = 10.0
    properties = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8, "computeMinor": 0, "numSms": 108}
    job = drawn.job(
        tmp_path,
        drawn.kernel("a", 0, 10, 1, **configuration),
        drawn.kernel("b", 20, 10, 2),
        deviceProperties=[{**properties, **A100.properties}],
    )
    first, second = waves(job.trace()).tolist()
    assert first == 2.5
    assert second != second
