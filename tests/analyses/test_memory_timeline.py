from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from kinetoscope import Job, Selection, memory_curve, memory_peak, memory_timeline, read
from kinetoscope.errors import UsageError
from kinetoscope.views.terminal import screen
from tests.drawn import Event, annotation, job, memory, op
from tests.snapshots.allocator import Settings
from tests.snapshots.process import Process
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import write, written_by


def trained(folder: Path) -> Job:
    process = Process(Settings())
    process.record()
    training = Training(process, Model(layers=2, width=256, batch=2, tokens=128, vocabulary=1000), metadata=True)
    training.build()
    training.run(3)
    return read(write(folder / "taken.pickle", process.snapshot()), jobs=1)


@pytest.mark.parametrize("points", [1, 7, 240])
def test_the_highest_instant_is_that_of_the_peak(tmp_path: Path, points: int) -> None:
    job = trained(tmp_path)
    frame = memory_timeline(job, points=points).frame
    peak = memory_peak(job, group_by="use").frame
    instants = frame.group_by("time", maintain_order=True).agg(pl.col("size").sum())
    assert instants.height <= points + 1
    assert instants.get_column("size").max() == peak.get_column("size").sum()
    highest = frame.filter(pl.col("time") == peak.get_column("time")[0], pl.col("size") > 0)
    assert dict(highest.select("use", "size").rows()) == dict(peak.select("name", "size").rows())
    assert set(frame.get_column("source")) == {"snapshot"}


def test_a_snapshot_without_times_is_cut_by_events(tmp_path: Path) -> None:
    process = Process(Settings())
    process.record()
    training = Training(process, Model(layers=1, width=64, batch=1, tokens=32, vocabulary=100))
    training.build()
    training.run(2)
    old = read(write(tmp_path / "old.pickle", written_by(process.snapshot(), (2, 1))), jobs=1)
    timed = read(write(tmp_path / "new.pickle", process.snapshot()), jobs=1)
    frame, peak = memory_timeline(old, points=50).frame, memory_peak(old, group_by="use").frame
    assert frame.get_column("time").null_count() == frame.height > 50
    assert peak.get_column("time").null_count() == peak.height
    assert peak.get_column("size").sum() == memory_peak(timed, group_by="use").frame.get_column("size").sum()
    kinds = frame.get_column("use").n_unique()
    levels = frame.get_column("size").to_numpy().reshape(-1, kinds).sum(axis=1)
    assert levels.max() == peak.get_column("size").sum()
    assert list(screen.lines(memory_timeline(old), width=100, limit=5))


def test_steps_of_a_snapshot(tmp_path: Path) -> None:
    frame = memory_timeline(trained(tmp_path), select=Selection(steps=(1,))).frame
    assert set(frame.get_column("step").drop_nulls()) == {1}


def test_from_the_events_of_a_trace(tmp_path: Path) -> None:
    def took(time: int, size: int, address: int, total: int) -> Event:
        return memory(time, size, device=0, **{"Addr": address, "Total Allocated": total})

    drawn = job(
        tmp_path,
        op("aten::linear", 0, 20),
        took(10, 64, 1, 1064),
        annotation("Optimizer.step#SGD.step", 30, 20),
        took(40, 100, 2, 1164),
        took(60, -64, 1, 1100),
    )
    frame = memory_timeline(drawn).frame
    rows = frame.pivot("use", index="time", values="size").select("time", "optimizer state", "temporary", "unknown")
    assert rows.rows() == [(10, 0, 64, 1000), (40, 100, 64, 1000), (60, 100, 0, 1000)]
    levels = memory_curve(drawn).frame.get_column("allocated").to_list()
    assert frame.group_by("time", maintain_order=True).agg(pl.col("size").sum())["size"].to_list() == levels


def test_no_points(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="points is 0"):
        memory_timeline(job(tmp_path, op("aten::linear", 0, 20)), points=0)
