"""A snapshot and a trace of one run: which allocation is which record of the profiler."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kinetoscope import memory_peak, read
from kinetoscope.model.memory.allocator import memory_instants
from kinetoscope.model.snapshot.joined import joined_instants
from kinetoscope.model.snapshot.replay import history
from tests import drawn
from tests.drawn import memory, op, python
from tests.snapshots.allocator import Settings
from tests.snapshots.process import Process
from tests.snapshots.writing import write

MIB = 1 << 20
BASE_NS = 1_783_874_495_000_000_000
CLOCK_ERROR_NS = 700


def test_allocations_are_those_of_the_trace(tmp_path: Path) -> None:
    process = Process(Settings(), stacks="python")
    process.record()
    for size in (5 * MIB, 7 * MIB, 900):
        process.free(process.alloc("empty", size))
    process.alloc("empty", 5 * MIB - 100)
    process.alloc("empty", 3 * MIB)
    snapshot = process.snapshot()
    taken = [event for event in snapshot["device_traces"][0] if event["action"] == "alloc"]
    events = [python("nn.Module: Linear_0", 0, 10_000_000), op("aten::linear", 1, 9_999_000)]
    for event in taken[:-1]:  # the profiler ended before the last
        time = event["time_us"] * 1000 - BASE_NS + CLOCK_ERROR_NS
        size = (event["size"] + 511) // 512 * 512
        events.append(memory(time, size, device=0, **{"Addr": event["addr"], "Total Allocated": size}))
    folder = tmp_path / "run"
    folder.mkdir()
    drawn.job(folder, *events, baseTimeNanoseconds=BASE_NS)
    [path] = folder.iterdir()
    job = read(path, jobs=1, snapshot=str(write(tmp_path / "taken.pickle", snapshot)))
    trace = job.trace(job.ranks[0])
    past, instants = history(trace, 0), memory_instants(trace)
    assert past is not None
    joined = joined_instants(trace, 0)
    assert (joined >= 0).tolist() == [True] * 4 + [False]
    sizes = instants.size[joined[joined >= 0]]
    assert np.array_equal(sizes, past.size[joined >= 0])
    rows = memory_peak(job, group_by="call").frame.filter(source="snapshot").select("module", "size").rows()
    assert rows == [("Linear_0", 5 * MIB - 100), (None, 3 * MIB)]
