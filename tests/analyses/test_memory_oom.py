"""Why memory ran out: the request, the parts of the memory, who held what was missing, what would have helped."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from kinetoscope import memory_oom
from kinetoscope.errors import UsageError
from kinetoscope.model.job import Job
from kinetoscope.model.steps.selection import Selection
from kinetoscope.reading import read
from tests import drawn
from tests.model.memory.test_failed_requests import FULL, GRAPHS
from tests.notes import codes
from tests.snapshots.allocator import OutOfMemory, Settings
from tests.snapshots.process import Process
from tests.snapshots.stacks import python
from tests.snapshots.writing import write

MIB = 1 << 20


def process_of(total: int, settings: Settings | None = None, **facts: int) -> Process:
    process = Process(settings or Settings(), total=total, other=0, **facts)  # type: ignore[arg-type]
    process.record()
    return process


def failing(process: Process, size: int) -> OutOfMemory:
    """A request that fails, of a line of its own."""
    with pytest.raises(OutOfMemory) as error, process.at(python("forward", "model.py", 61)):
        process.alloc("aten::mm", size)
    return error.value


def job_of(folder: Path, process: Process) -> Job:
    return read(write(folder / "taken.pickle", process.snapshot()), jobs=1)


def in_pieces(process: Process) -> None:
    """Ten segments of 40 MiB, in each of which 4 MiB stay in use, of a line of their own."""
    large = [process.alloc("aten::mm", 40 * MIB) for _ in range(10)]
    for block in large:
        process.free(block)
        with process.at(python("append", "bank.py", 7)):
            process.alloc("aten::clone", 4 * MIB)
        # The rest of the segment is taken, so that the next 4 MiB go elsewhere.
        process.alloc("aten::empty", 36 * MIB)
    for block in list(process.allocators[0].active.values()):
        if block.requested == 36 * MIB:
            process.free(block)


def test_fragmentation_names_the_fewest_bytes_in_the_way(tmp_path: Path) -> None:
    process = process_of(410 * MIB)
    in_pieces(process)
    error = failing(process, 100 * MIB)
    result = memory_oom(job_of(tmp_path, process), error=str(error))
    request = result.frame.row(0, named=True)
    assert (request["kind"], request["verdict"], request["confidence"]) == ("request", "fragmentation", "high")
    assert (request["size"], request["name"]) == (100 * MIB, "model.py:61")
    assert "expandable_segments:True" in request["remedy"]
    # 10 MiB are free on the device; three segments without their 4 MiB would give back 120 MiB.
    holder = result.frame.filter(kind="holder").row(0, named=True)
    assert (holder["name"], holder["blocks"], holder["size"]) == ("bank.py:7", 3, 12 * MIB)
    assert "Without 3 allocations" in request["remedy"]
    parts = dict(result.frame.filter(kind="part").select("name", "size").iter_rows())
    assert sum(parts.values()) == 410 * MIB
    assert parts["fragmentation"] == 360 * MIB


def test_live_data_is_certain_only_where_the_device_is_known(tmp_path: Path) -> None:
    process = process_of(4 << 30)
    for _ in range(15):
        process.alloc("aten::mm", 256 * MIB)
    error = failing(process, 512 * MIB)
    job = job_of(tmp_path, process)
    alone = memory_oom(job)
    assert alone.frame.row(0, named=True)["confidence"] == "medium"
    assert "GIVE_ERROR" in codes(alone.notes)
    told = memory_oom(job, error=f"Traceback …\n{error}").frame
    assert told.select("verdict", "confidence").row(0) == ("live data", "high")
    assert told.filter(kind="request").height == 1  # the text is of the same request


def test_what_the_recorder_noted_of_the_device_counts(tmp_path: Path) -> None:
    process = process_of(4 << 30)
    process.allocators[0].other = 3 << 30
    process.alloc("aten::mm", 900 * MIB)
    failing(process, 200 * MIB)
    file = tmp_path / "noted.pickle"
    note = json.dumps({"device": 0, "total": 4 << 30})
    snapshot = process.snapshot()
    snapshot["external_annotations"] = [
        {"name": f"out of memory {note}", "stage": "START", "device": 0, "time_us": process.now}
    ]
    row = memory_oom(read(write(file, snapshot), jobs=1)).frame.row(0, named=True)
    assert (row["verdict"], row["confidence"]) == ("outside of the allocator", "high")


def test_a_text_alone(tmp_path: Path) -> None:
    job = drawn.job(tmp_path, drawn.op("aten::mm", 0, 10))
    rows = memory_oom(job, error=GRAPHS).frame
    assert rows.select("device", "time", "verdict", "source").row(0) == ("cuda:0", None, "graph pool", "text")
    assert rows.filter(kind="part").get_column("size").sum() == 8 << 30
    with pytest.raises(UsageError, match="OutOfMemoryError"):
        memory_oom(job, error="CUDA error: an illegal memory access was encountered")


def test_nothing_failed(tmp_path: Path) -> None:
    process = process_of(410 * MIB)
    process.alloc("aten::mm", 40 * MIB)
    result = memory_oom(job_of(tmp_path, process))
    assert (len(result), result.notes) == (0, ("No request for memory failed in what was recorded.",))


def test_kinetos_record_of_a_failure(tmp_path: Path) -> None:
    event = drawn.memory(5_000, 100, device=0, **{"Total Allocated": 700, "Total Reserved": 900})
    job = drawn.job(tmp_path, drawn.op("aten::mm", 0, 10_000), {**event, "name": "[OutOfMemory]"})
    row = memory_oom(job).frame.row(0, named=True)
    assert (row["device"], row["time"], row["size"]) == ("cuda:0", 5_000, 100)
    assert (row["verdict"], row["confidence"], row["source"]) == ("fragmentation", "medium", "trace")


def test_time_and_devices_choose_requests(tmp_path: Path) -> None:
    process = process_of(410 * MIB)
    failing(process, 1000 * MIB)
    block = process.alloc("aten::mm", 40 * MIB)
    failing(process, 900 * MIB)
    process.free(block)
    job = job_of(tmp_path, process)
    times = memory_oom(job).frame.filter(kind="request").get_column("time")
    assert len(times) == 2
    later = memory_oom(job, select=Selection(time=(times[1], times[1] + 1))).frame
    assert later.filter(pl.col("kind") == "request").get_column("size").to_list() == [900 * MIB]
    assert len(memory_oom(job, select=Selection(devices=(1,)))) == 0


def test_a_full_device_of_the_text_is_said_in_one_sentence(tmp_path: Path) -> None:
    notes = memory_oom(drawn.job(tmp_path, drawn.op("aten::mm", 0, 10)), error=FULL).notes
    assert (
        notes[0]
        .replace("\xa0", " ")
        .startswith("cuda:0 had no 268 MB for the request: live data. 50.7 GB were reserved")
    )


REAL = Path(__file__).parents[1] / "snapshots/real"


@pytest.mark.parametrize(
    ("name", "verdict", "confidence", "line"),
    [
        ("fragmentation_2.15.0", "fragmentation", "high", "programs.py:84"),
        ("too_much_2.13.0", "live data", "medium", None),
    ],
)
def test_failures_of_torchs_own_allocator(name: str, verdict: str, confidence: str, line: str | None) -> None:
    """As planted: 100 MiB fail with 200 MiB in holes of 20 MiB; batches that grow until what is live does not fit."""
    frame = memory_oom(read(REAL / f"{name}.pickle.gz", jobs=1)).frame
    assert frame.select("verdict", "confidence").row(0) == (verdict, confidence)
    if line is not None:
        assert frame.filter(kind="holder").select("name", "blocks").row(0) == (line, 2)
