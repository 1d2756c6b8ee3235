"""What the allocator holds and nobody uses: levels that torch's own numbers fix, and what keeps each segment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kinetoscope import memory_fragmentation
from kinetoscope.errors import UsageError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.reading import read
from tests import drawn
from tests.snapshots.process import Process
from tests.snapshots.stacks import python
from tests.snapshots.writing import write

MIB = 1 << 20
REAL = Path(__file__).parents[2] / "../shared/samples/memory"

GOLDEN = {  # reserved, allocated, inactive blocks
    "medium_128_inference": (1_763_704_832, 1_703_276_544, 7),
    "medium_128_training": (7_235_174_400, 6_816_891_392, 33),
}


def pinned(folder: Path) -> Job:
    """Two segments of 40 MiB: of the first 4 MiB stay to the end, and 8 MiB for a while; the second is unused."""
    process = Process(total=1 << 30, other=0)
    process.record()
    process.free(process.alloc("aten::mm", 40 * MIB))
    with process.at(python("append", "bank.py", 7)):
        process.alloc("aten::clone", 4 * MIB)
    short = process.alloc("aten::relu", 8 * MIB)
    other = process.alloc("aten::mm", 40 * MIB)
    process.free(other)
    process.free(short)
    with process.capture((1, 0)):
        process.free(process.alloc("aten::mm", 24 * MIB))
    return read(write(folder / "taken.pickle", process.snapshot()), jobs=1)


def rows(job: Job, **params: Any) -> list[dict[str, Any]]:
    return memory_fragmentation(job, **params).frame.to_dicts()


def test_by_pool(tmp_path: Path) -> None:
    default, graph = rows(pinned(tmp_path))
    assert (default["pool"], default["reserved"], default["requested"]) == ("default", 80 * MIB, 4 * MIB)
    assert (default["inactive_split"], default["releasable"], default["largest_free"]) == (36 * MIB, 40 * MIB, 40 * MIB)
    assert (graph["pool"], graph["private"], graph["releasable"]) == ("1,0", 24 * MIB, 0)


def test_by_segment_the_one_in_the_way_comes_with_its_line(tmp_path: Path) -> None:
    job = pinned(tmp_path)
    segments = rows(job, by="segment")
    pinned_one = next(row for row in segments if row["blocks"])
    assert (pinned_one["pin"], pinned_one["pin_size"], pinned_one["holes"]) == ("bank.py:7", 4 * MIB, 1)
    # Before the 8 MiB were returned they are in the segment, too, and still the 4 MiB stay longest.
    times = memory_fragmentation(job, by="time").frame.get_column("time").unique().sort()
    early = [row for row in rows(job, by="segment", at=int(times[-6])) if row["blocks"]]
    assert early[0]["pin"] == "bank.py:7"


def test_over_time_the_levels_sum_to_what_is_reserved(tmp_path: Path) -> None:
    levels = memory_fragmentation(pinned(tmp_path), by="time").frame
    parts = ("requested", "internal_loss", "pending", "inactive_split", "releasable", "private")
    assert (levels.select(parts).sum_horizontal() == levels.get_column("reserved")).all()
    assert levels.get_column("private")[-1] == 24 * MIB


def test_a_selection_chooses_the_instant(tmp_path: Path) -> None:
    job = pinned(tmp_path)
    first = memory_fragmentation(job, select=Selection(time=(0, 1))).frame
    assert first.height <= 1
    with pytest.raises(UsageError, match="at is -1"):
        memory_fragmentation(job, at=-1)
    assert memory_fragmentation(job, select=Selection(devices=(3,))).frame.height == 0


def test_kinetos_records_have_two_levels(tmp_path: Path) -> None:
    event = drawn.memory(5_000, 100, device=0, **{"Total Allocated": 700, "Total Reserved": 900, "Addr": 7})
    [row] = rows(drawn.job(tmp_path, drawn.op("aten::mm", 0, 10_000), event))
    assert (row["reserved"], row["allocated"], row["releasable"], row["source"]) == (900, 700, None, "trace")


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_values_of_real_files(name: str) -> None:
    file = REAL / f"{name}.pickle"
    if not file.exists():
        pytest.skip("no real snapshots beside the checkout")
    frame = memory_fragmentation(read(file, jobs=1)).frame
    whole = frame.select("reserved", "allocated", "holes").sum().row(0)
    assert whole == GOLDEN[name]
    parts = ("requested", "internal_loss", "pending", "inactive_split", "releasable", "private")
    assert frame.select(parts).sum().sum_horizontal()[0] == whole[0]
