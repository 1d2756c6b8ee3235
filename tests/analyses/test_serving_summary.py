"""Steps of a serving engine by kind and batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinetoscope import serving_summary
from kinetoscope.model.serving.batches import bounds_of, bucket
from kinetoscope.reading import read
from tests.drawn import Event, annotation, job, kernel, launch, written


def steps(batches: list[int], lengths: list[int], together: int = 0) -> list[Event]:
    """Decode steps one after the other; each launches in 10 ns, and begins to run 20 ns after its start.

    At its end it is for some ns in a collective.
    """
    events, at = [], 0
    for k, (batch, length) in enumerate(zip(batches, lengths, strict=True)):
        events += [annotation(f"step[DECODE bs={batch}]", at, length), launch(at, 10, k + 1)]
        events.append(kernel("gemm", at + 20, length - 20 - together, k + 1))
        events += [kernel("ncclDevKernel_AllReduce", at + length - together, together, k + 1)] if together else []
        at += length
    return events


def test_medians_and_tails_by_batch(tmp_path: Path) -> None:
    frame = serving_summary(job(tmp_path, *steps([1, 3, 4, 4, 9], [40, 100, 110, 190, 500]))).frame
    columns = ("bucket", "steps", "batch", "duration_median", "duration_p90", "duration_p99", "gap_median", "gap_cause")
    assert frame.select(columns).rows() == [
        ("1", 1, 1.0, 40, 40, 40, 20, "launch"),
        ("3-4", 3, 11 / 3, 110, 190, 190, 20, "launch"),
        ("9-16", 1, 9.0, 500, 500, 500, 20, "launch"),
    ]
    assert frame["tokens"].to_list() == [1, 11, 9]
    assert frame["tokens_per_second"].to_list() == [1e9 / 40, 11e9 / 400, 9e9 / 500]
    assert frame["device_busy"].to_list() == [20, 340, 480]


def test_the_slowest_rank_and_how_long_the_others_wait(tmp_path: Path) -> None:
    for rank, lengths in enumerate([[100, 100, 130], [110, 140, 130]]):
        written(
            tmp_path / f"rank{rank}.json",
            *steps([4, 4, 4], lengths, 5),
            distributedInfo={"rank": rank, "world_size": 2},
        )
    columns = ("rank", "steps", "imbalance_median", "imbalance_p99", "slowest")
    found = serving_summary(read(str(tmp_path), jobs=1)).frame.select(columns).rows()
    assert found == [(0, 3, 10, 40, 1), (1, 3, 0, 0, 3)]


def test_steps_without_names_are_one_group(tmp_path: Path) -> None:
    events = [event for each in steps([2, 2], [50, 70]) for event in [each]]
    for event in events:
        event["name"] = event["name"].replace("step[DECODE bs=2]", "step[PREBUILT of=none]")
    (row,) = serving_summary(job(tmp_path, *events)).frame.to_dicts()
    known: dict[str, Any] = {name: row[name] for name in ("kind", "bucket", "batch", "tokens", "tokens_per_second")}
    assert known == dict.fromkeys(known)
    assert (row["steps"], row["duration"]) == (2, 120)


@pytest.mark.parametrize(
    ("batch", "low", "high"), [(0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 3, 4), (4, 3, 4), (5, 5, 8), (33, 33, 64)]
)
def test_buckets(batch: int, low: int, high: int) -> None:
    bounds = bounds_of(bucket(np.array([batch])))
    assert [each.tolist() for each in bounds] == [[low], [high]]
