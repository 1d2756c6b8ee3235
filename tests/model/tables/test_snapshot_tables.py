"""Tables of memory snapshots hold what the files hold."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from kinetoscope import Job, convert, read
from tests.drawn import job, op
from tests.snapshots.process import Process, Snapshot
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import write

TINY = Model(layers=1, width=64, batch=1, tokens=32, vocabulary=100)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Snapshot, Job]:
    process = Process(stacks="python")
    process.alloc("zeros", 5000)  # before the history
    process.record()
    training = Training(process, TINY, metadata=True)
    training.build()
    training.run(2)
    path = tmp_path_factory.mktemp("snapshot") / "snapshot.pickle"
    snapshot = process.snapshot()
    write(path, snapshot)
    return snapshot, read(path, jobs=1)


def test_segments_and_blocks(trained: tuple[Snapshot, Job]) -> None:
    snapshot, of = trained
    segments = of.sql("SELECT address, size, requested, is_small, pool FROM segments").frame.rows()
    assert segments == [
        (each["address"], each["total_size"], each["requested_size"], each["segment_type"] == "small", "(0, 0)")
        for each in snapshot["segments"]
    ]
    query = """
        SELECT b.address, b.size, b.state, s.address AS segment FROM blocks b JOIN segments s ON b.segment = s.segment
        ORDER BY b.address
    """
    assert of.sql(query).frame.rows() == [
        (block["address"], block["size"], block["state"], each["address"])
        for each in snapshot["segments"]
        for block in each["blocks"]
    ]


def test_events_and_allocations(trained: tuple[Snapshot, Job]) -> None:
    snapshot, of = trained
    [trace] = snapshot["device_traces"]
    events = of.sql("SELECT action, address, size, metadata, line FROM allocator_events").frame
    assert events.drop("line").rows() == [
        (each["action"], each["addr"], each["size"], each["user_metadata"] or None) for each in trace
    ]
    assert {"train.py:43", "model.py:37"} < set(events["line"])
    allocations = of.trace(0).table("allocations")
    taken = allocations.filter(pl.col("allocated_at").is_not_null())
    assert taken["requested"].to_list() == [each["size"] for each in trace if each["action"] == "alloc"]
    assert allocations.filter(pl.col("allocated_at").is_null())["requested"].to_list() == [5000]
    assert allocations["freed_at"].is_not_null().sum() == sum(each["action"] == "free_completed" for each in trace)
    assert set(allocations["category"].to_list()) >= {"parameter", "optimizer state", "activation"}
    span = (taken["allocated_at"].max() - taken["allocated_at"].min()) // 1000  # type: ignore[operator]
    times = [each["time_us"] for each in trace if each["action"] == "alloc"]
    assert span == times[-1] - times[0]


def test_they_are_files_of_parquet_and_empty_without_a_snapshot(trained: tuple[Snapshot, Job], tmp_path: Path) -> None:
    convert(trained[1], tmp_path / "out", to="parquet")
    assert pl.read_parquet(tmp_path / "out" / "blocks.parquet").height == sum(
        len(each["blocks"]) for each in trained[0]["segments"]
    )
    without = job(tmp_path, op("aten::mm", 0, 9))
    assert [without.sql(f"SELECT * FROM {name}").frame.height for name in ("segments", "allocations")] == [0, 0]
