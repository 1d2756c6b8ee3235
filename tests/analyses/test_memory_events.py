from __future__ import annotations

from pathlib import Path
from typing import Any

from kinetoscope import Selection, memory_events
from kinetoscope.reading import read
from tests.drawn import Event, annotation, job, memory, op, python
from tests.snapshots.process import Process
from tests.snapshots.stacks import python as python_frame
from tests.snapshots.writing import write

MIB = 1 << 20


def events(folder: Path, *drawn: Event, select: Selection | None = None) -> list[dict[str, Any]]:
    return memory_events(job(folder, *drawn), select=select or Selection()).frame.drop("rank").to_dicts()


CALLS = [
    annotation("ProfilerStep#5", 1000, 100),
    python("nn.Module: Linear_0", 1005, 50),
    python("torch/nn/functional.py(9): linear", 1006, 45),
    op("aten::linear", 1010, 30),
    op("aten::empty.memory_format", 1020, 5),
]


def test_a_block_and_who_took_it(tmp_path: Path) -> None:
    instants = memory(1022, 64, device=1, Addr=8), memory(1150, -64, device=1, Addr=8, tid=2)
    assert events(tmp_path, *CALLS, *instants) == [
        {
            "device": "cuda:1",
            "operator": "aten::empty",
            "parent": "aten::linear",
            "size": 64,
            "allocated_at": 22,
            "freed_at": 150,
            "duration": 128,
            "step": 5,
            "thread": 1,
            "module": "Linear_0",
            "python": "torch/nn/functional.py(9): linear",
            "use": "temporary",
            "source": "trace",
        }
    ]


def test_halves_of_pairs_have_one_time(tmp_path: Path) -> None:
    drawn = [op("a", 0, 100), memory(5, 3, Addr=1), memory(6, -9, Addr=2), memory(200, 1, Addr=3)]
    names = ("operator", "size", "allocated_at", "freed_at", "duration", "step")
    assert [tuple(row[name] for name in names) for row in events(tmp_path, *drawn)] == [
        (None, 9, None, 6, None, None),
        ("a", 3, 5, None, None, 0),
        (None, 1, 200, None, None, None),
    ]


def test_equal_addresses_of_two_devices_are_two_blocks(tmp_path: Path) -> None:
    drawn = [memory(1, 3, Addr=1, device=0), memory(2, 4, Addr=1, device=1), memory(3, -3, Addr=1, device=0)]
    assert [(row["device"], row["duration"]) for row in events(tmp_path, *drawn)] == [("cuda:0", 2), ("cuda:1", None)]


def test_a_block_is_selected_by_when_it_was_taken(tmp_path: Path) -> None:
    drawn = [
        op("a", 0, 100),
        memory(5, 3, Addr=1),
        memory(50, -3, Addr=1),
        memory(60, 4, Addr=2),
        memory(61, -5, Addr=3),
    ]
    assert [row["size"] for row in events(tmp_path, *drawn, select=Selection(time=(0, 10)))] == [3]
    assert [row["size"] for row in events(tmp_path, *drawn, select=Selection(time=(10, 90)))] == [5, 4]


def test_it_says_what_is_missing(tmp_path: Path) -> None:
    assert memory_events(job(tmp_path, op("a", 0, 9))).notes == (
        "Memory was not recorded (profile_memory=True records it).",
    )
    old = memory_events(job(tmp_path, memory(1, 5), memory(2, -5)))
    assert len(old) == 0
    assert old.notes[0].code == "MEMORY_UNPAIRED"
    step = annotation("ProfilerStep#1", 0, 9)
    assert memory_events(job(tmp_path, step, memory(1, 5, Addr=1), memory(2, -5))).notes == (
        "1 of 2 records of memory have no address and are in no row.",
        "Python calls were not recorded (with_stack=True records them): module and python are empty.",
    )


def test_blocks_of_a_snapshot(tmp_path: Path) -> None:
    process = Process(total=1 << 30, other=0)
    early = process.alloc("aten::mm", 3 * MIB)
    process.record()
    with process.at(python_frame("forward", "model.py", 61)):
        block = process.alloc("mm", 5 * MIB)
        process.alloc("aten::relu", 1 * MIB)
    process.free(block, early)
    snapshots = read(write(tmp_path / "taken.pickle", process.snapshot()), jobs=1)
    frame = memory_events(snapshots).frame
    assert frame.get_column("size").to_list() == [5 * MIB, 3 * MIB, MIB]
    first, before, last = frame.to_dicts()
    assert (first["operator"], first["python"], first["source"]) == ("aten::mm", "model.py:61", "snapshot")
    assert first["duration"] == first["freed_at"] - first["allocated_at"] > 0
    assert (before["allocated_at"], before["operator"], last["freed_at"]) == (None, None, None)
    thin = memory_events(snapshots, largest=2)
    assert thin.frame.rows() == frame[:2].rows()
    assert thin.notes[-1] == "Of cuda:0 the 2 largest of 3 blocks; --largest 0 shows all."
    assert memory_events(snapshots, select=Selection(time=(0, 1))).frame.height <= 1
