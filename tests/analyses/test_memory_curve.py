from __future__ import annotations

from pathlib import Path
from typing import Any

from kinetoscope import Selection, memory_curve
from kinetoscope.reading import read
from tests.drawn import Event, annotation, job, memory, op
from tests.snapshots.process import Process
from tests.snapshots.writing import write

MIB = 1 << 20


def curve(folder: Path, *events: Event, select: Selection | None = None) -> list[tuple[Any, ...]]:
    result = memory_curve(job(folder, *events), select=select or Selection())
    assert set(result.frame.get_column("source")) <= {"trace"}
    return [row[1:6] for row in result.frame.rows()]


DEVICE = {"Total Allocated": 1100, "Total Reserved": 4096, "Addr": 64}
DRAWN = [op("a", 1000, 100), memory(1010, 100, device=0, **DEVICE), memory(1005, 7), memory(1020, -7)]


def test_a_row_for_each_instant_by_device_and_time(tmp_path: Path) -> None:
    assert curve(tmp_path, *DRAWN) == [
        ("cuda:0", 10, 1100, 4096, 100),
        ("cpu", 5, 7, None, 7),
        ("cpu", 20, 0, None, -7),
    ]


def test_devices_of_rocms_own_type_have_a_curve(tmp_path: Path) -> None:
    """The TensorBoard plugin fails on them: it knows types 0 and 1."""
    event = memory(10, 5, device=2)
    event["args"]["Device Type"] = 6
    assert curve(tmp_path, event) == [("hip:2", 0, 5, None, 5)]


def test_what_is_in_use_does_not_depend_on_what_is_selected(tmp_path: Path) -> None:
    assert curve(tmp_path, *DRAWN, select=Selection(time=(15, 30))) == [("cpu", 20, 0, None, -7)]
    steps = [annotation("ProfilerStep#1", 1000, 8), annotation("ProfilerStep#2", 1008, 100)]
    assert curve(tmp_path, *DRAWN, *steps, select=Selection(steps=(1,))) == [("cpu", 5, 7, None, 7)]
    assert [row[0] for row in curve(tmp_path, *DRAWN, select=Selection(threads=(1,)))] == ["cuda:0", "cpu", "cpu"]


def test_it_says_what_is_missing(tmp_path: Path) -> None:
    nothing = memory_curve(job(tmp_path, op("a", 0, 9)))
    assert (len(nothing), nothing.notes) == (0, ("Memory was not recorded (profile_memory=True records it).",))
    unselected = memory_curve(job(tmp_path, *DRAWN), select=Selection(time=(50, 60)))
    assert (len(unselected), unselected.notes) == (0, ("Nothing that the allocators did is selected.",))
    full = DRAWN[1] | {"name": "[OutOfMemory]"}
    assert memory_curve(job(tmp_path, *DRAWN[:2], full)).notes == ("An allocator ran out of memory (1 times).",)


def test_numbers_that_no_memory_has_do_no_harm(tmp_path: Path) -> None:
    huge = [memory(time, size, Addr=-(2**63)) for time, size in enumerate([2**63 - 1, 2**63 - 1, -(2**63)])]
    odd = memory(9, 1)
    odd["args"] = {"Bytes": "x", "Device Id": 1.5, "Device Type": None, "Addr": [1]}
    assert len(curve(tmp_path, *huge, odd)) == 4


def test_of_a_snapshot_the_peak_is_among_the_instants_that_stand_for_all(tmp_path: Path) -> None:
    process = Process(total=1 << 30, other=0)
    process.record()
    for size in (1, 2, 50, 3, 4) * 30:
        process.free(process.alloc("aten::mm", size * MIB - 100))
    kept = process.alloc("aten::mm", 7 * MIB)
    taken = process.snapshot()
    snapshots = read(write(tmp_path / "taken.pickle", taken), jobs=1)
    whole, thin = (memory_curve(snapshots, points=points).frame for points in (0, 40))
    assert whole.height == len(taken["device_traces"][0])
    assert thin.height == 40
    assert thin.get_column("requested").max() == whole.get_column("requested").max() == 50 * MIB - 100
    last = whole.row(-1, named=True)
    assert (last["allocated"], last["requested"], last["change"]) == (kept.size, 7 * MIB, kept.size)
    assert whole.get_column("change").sum() == kept.size
    assert last["source"] == "snapshot"
    times = whole.get_column("time")
    later = memory_curve(snapshots, select=Selection(time=(times[100], times[103]))).frame
    assert later.rows() == whole[100:103].rows()
