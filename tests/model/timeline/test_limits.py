"""The limit of an event is that of `roofline`, shared by the kernels of a call and summed over calls inside another."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinetoscope import roofline
from kinetoscope.model.job import Job
from kinetoscope.model.timeline.event import event_details
from tests import drawn
from tests.analyses.test_roofline import A100, call, product


def traced(folder: Path, *events: drawn.Event) -> Job:
    return drawn.job(folder, *events, deviceProperties=[A100])


def rows_of(job: Job, name: str) -> list[int]:
    trace = job.trace()
    return [row for row in range(len(trace)) if trace.strings.label(int(trace.name[row])).startswith(name)]


def test_an_operator_has_the_limit_of_its_row(tmp_path: Path) -> None:
    job = traced(tmp_path, *product(100, 4096, 1_000_000))
    [wanted] = roofline(job).frame.to_dicts()
    for name in ("aten::mm", "ampere"):
        [row] = rows_of(job, name)
        limit = event_details(job.trace(), row).limit
        assert limit is not None
        assert (limit.floor, limit.bound) == (wanted["floor"], "compute")
        assert limit.efficiency == pytest.approx(wanted["efficiency"], rel=1e-5)


def test_kernels_of_a_call_share_its_floor(tmp_path: Path) -> None:
    job = traced(tmp_path, *call("aten::mul", 100, [[64 << 20], [64 << 20]], 300_000, 100_000))
    whole = event_details(job.trace(), rows_of(job, "aten::mul")[0]).limit
    parts = [event_details(job.trace(), row).limit for row in rows_of(job, "void")]
    floors = [part.floor for part in parts if part and part.floor]
    assert whole is not None
    assert whole.floor is not None
    assert sum(floors) == pytest.approx(whole.floor, abs=1)
    assert floors[0] == pytest.approx(3 * floors[1], abs=3)


def test_a_call_around_two_has_their_sum(tmp_path: Path) -> None:
    inside = [*product(100, 4096, 1_000_000), *product(300, 2048, 300_000)]
    job = traced(tmp_path, drawn.op("my::layer", 90, 400), *inside)
    limits = [event_details(job.trace(), row).limit for row in (*rows_of(job, "my::layer"), *rows_of(job, "aten::mm"))]
    outer, *inner = [limit.floor or 0 for limit in limits if limit]
    assert outer == pytest.approx(sum(inner), abs=1)


def test_what_has_no_device_work_has_no_limit(tmp_path: Path) -> None:
    job = traced(tmp_path, drawn.op("aten::mm", 0, 28), *call("my::op", 100, [[8]], 5_000))
    host, unknown = (event_details(job.trace(), rows_of(job, name)[0]).limit for name in ("aten::mm", "my::op"))
    assert host is None
    assert unknown is not None
    assert (unknown.floor, unknown.bound) == (None, None)
