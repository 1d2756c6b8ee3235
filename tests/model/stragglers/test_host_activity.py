from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from kinetoscope import Trace
from kinetoscope.model.steps.scope import origin_of_time
from kinetoscope.model.stragglers.host_activity import ACTIVITIES, COVERED, before_collectives
from tests import drawn
from tests.catalog.samples import everywhere, job_of

GROUP: dict[str, Any] = {"Process Group Name": "0", "Group size": 2, "Collective name": "allreduce"}


def meeting(start: int, end: int, correlation: int, *, stream: int = 9) -> drawn.Event:
    return drawn.kernel("ncclDevKernel_AllReduce", start, end - start, correlation, stream=stream, **GROUP)


def found(folder: Path, *events: drawn.Event) -> pl.DataFrame:
    return before_collectives(drawn.job(folder, *events).trace())


def did(frame: pl.DataFrame) -> list[dict[str, int]]:
    return [{name: time for name, time in row.items() if time} for row in frame.select(ACTIVITIES).to_dicts()]


def covered(frame: pl.DataFrame) -> list[list[tuple[int, int]]]:
    return [[(each["start"], each["end"]) for each in row] for row in frame[COVERED].to_list()]


def test_the_time_since_the_collective_before_is_charged_once(tmp_path: Path) -> None:
    """The synchronising call takes 5, and 5 more of the idle time until the next launch follow from it."""
    frame = found(
        tmp_path,
        drawn.kernel("gemm", 0, 10, 1),
        meeting(10, 20, 2),
        drawn.kernel("gemm", 12, 13, 3),
        drawn.kernel("Memcpy HtoD (Pinned -> Device)", 25, 5, 4, category="gpu_memcpy"),
        drawn.annotation("enumerate(DataLoader)#_Single.__next__", 20, 30),
        drawn.launch(55, 5, 0, name="cudaDeviceSynchronize"),
        drawn.op("aten::mm", 62, 8),
        drawn.launch(75, 1, 5),
        meeting(80, 90, 5),
    )
    assert did(frame) == [
        {"computation": 10},
        {"computation": 13, "communication": 2, "memory_copies": 5, "data_loading": 20, "synchronization": 10}
        | {"host_work": 6, "idle": 14},
    ]
    assert covered(frame) == [[(2, 10)], []]


def test_without_device_work_operators_are_the_computation(tmp_path: Path) -> None:
    frame = found(
        tmp_path,
        drawn.op("aten::mm", 0, 10),
        drawn.op("c10d::allreduce_", 10, 5),
        drawn.annotation("gloo:all_reduce", 20, 30, tid=2),
        drawn.op("aten::relu", 40, 20),
        drawn.annotation("gloo:all_reduce", 70, 30, tid=2),
    )
    assert did(frame) == [
        {"computation": 10, "host_work": 5, "idle": 5},
        {"computation": 20, "communication": 20, "idle": 10},
    ]
    assert covered(frame) == [[(20, 30)], []]


def test_collectives_come_in_the_order_of_their_launches(tmp_path: Path) -> None:
    """The second one launched begins first: its stream is free. A rank has come to it when it came to the first."""
    frame = found(
        tmp_path,
        drawn.launch(0, 1, 1),
        drawn.launch(2, 1, 2),
        drawn.kernel("gemm", 5, 35, 3),
        meeting(40, 50, 1),
        meeting(10, 20, 2, stream=10),
    )
    assert frame["start"].to_list() == [40, 10]
    assert frame["place"].to_list() == [0, 1]
    assert [sum(row.values()) for row in did(frame)] == [40, 0]


@pytest.mark.parametrize("file", everywhere())
def test_nothing_is_lost_on_real_traces(file: Path) -> None:
    trace: Trace = job_of(file).trace()
    frame = before_collectives(trace)
    came = np.maximum.accumulate(frame["start"].to_numpy() - trace.base)
    charged = frame.select(pl.sum_horizontal(ACTIVITIES)).to_series().sum()
    assert charged == (came[-1] - min(origin_of_time(trace), came[0]) if len(came) else 0)
    assert frame.select(pl.min_horizontal(ACTIVITIES).min()).item() in (None, 0) or charged
