"""Servers that several tests ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import OURS
from tests.drawn import annotation, kernel, launch, op, written
from tests.server.serving import Client, serving

MLP = OURS / "mlp.pt.trace.json.gz"
RANKS = OURS / "ddp2"


@pytest.fixture(scope="session")
def mlp() -> Iterator[Client]:
    """A run of one rank."""
    with serving(MLP) as client:
        yield client


@pytest.fixture(scope="session")
def ranks() -> Iterator[Client]:
    """A run of two ranks."""
    with serving(RANKS) as client:
        yield client


@pytest.fixture(scope="session")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A run with two steps, launches and kernels."""
    folder = tmp_path_factory.mktemp("device")
    written(folder / "job.pt.trace.json", *_events(), distributedInfo={"rank": 0, "world_size": 1})
    with serving(folder) as client:
        yield client


def _events() -> Iterator[dict[str, object]]:
    for step in (1, 2):
        begin = step * 100_000
        yield annotation(f"ProfilerStep#{step}", begin, 90_000)
        for number in range(6):
            at, link = begin + 1_000 + number * 10_000, step * 10 + number
            yield op(f"aten::op{number % 3}", at, 8_000)
            yield launch(at + 1_000, 500, link)
            yield kernel(f"gemm{number % 2}", at + 3_000, 4_000 + number, link, stream=7 + number % 2)
