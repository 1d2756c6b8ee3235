"""The generator of snapshots: its allocator against real addresses, its files against each other."""

from __future__ import annotations

import bisect
import gzip
import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, first_quick
from tests.snapshots.allocator import Allocator, Block, OutOfMemory, Settings
from tests.snapshots.large import steady, write_large
from tests.snapshots.process import SIDE_STREAM, Process, Snapshot
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import torch_pickle, write, written_by

MIB = 1 << 20
SAMPLES = ROOT.parent / "shared" / "samples" / "memory"
SMALL = Model(layers=2, width=256, batch=2, tokens=128, vocabulary=1000)


def trained(settings: Settings | None = None, steps: int = 3, **facts: Any) -> Process:
    process = Process(settings or Settings(), **facts)
    process.record()
    training = Training(process, SMALL, metadata=True)
    training.build()
    training.run(steps)
    return process


def actions(process: Process) -> list[str]:
    return [entry.action for entry in process.allocators[0].history]


@pytest.mark.parametrize("name", first_quick(["medium_128_inference", "medium_128_training"]))
def test_addresses_of_a_real_device(name: str) -> None:
    path = SAMPLES / f"{name}.pickle"
    if not path.exists():
        pytest.skip("needs ../shared/samples/memory")
    snapshot = pickle.loads(path.read_bytes())
    trace = snapshot["device_traces"][0]
    allocator, blocks = begun(snapshot)
    for event in trace:
        if event["action"] == "alloc":
            blocks[event["addr"]] = allocator.malloc(event["size"])
            assert blocks[event["addr"]].address == event["addr"]
        elif event["action"] == "free_completed":
            allocator.free(blocks.pop(event["addr"]))


def begun(snapshot: Snapshot) -> tuple[Allocator, dict[int, Block]]:
    """An allocator as it was before the history, and the blocks that were in use, by address."""
    segments, trace = snapshot["segments"], snapshot["device_traces"][0]
    live = {b["address"]: b["requested_size"] for s in segments for b in s["blocks"] if b["state"] != "inactive"}
    starts = {b["address"] for s in segments for b in s["blocks"]}
    for event in reversed(trace):
        if event["action"] == "alloc":
            del live[event["addr"]]
            starts.add(event["addr"])
        elif event["action"] == "free_completed":
            live[event["addr"]] = event["size"]
    ordered = sorted(starts)
    allocator, blocks = Allocator(), dict[int, Block]()
    for segment in segments:
        pool = allocator.small if segment["segment_type"] == "small" else allocator.large
        at, stop = segment["address"], segment["address"] + segment["total_size"]
        allocator.segments[at] = segment["total_size"]
        allocator.reserved += segment["total_size"]
        last: Block | None = None
        used = sorted(address for address in live if at <= address < stop)
        for index, address in enumerate([*used, stop]):
            if address > at:
                last = append(last, Block(pool, 0, at, address - at))
                pool.add(last)
            if address == stop:
                break
            following = used[index + 1] if index + 1 < len(used) else stop
            at = end_of(address, allocator.settings.round_size(live[address]), following, ordered, pool.is_small)
            last = append(last, Block(pool, 0, address, at - address, live[address], allocated=True))
            blocks[address] = allocator.active[address] = last
    return allocator, blocks


def append(last: Block | None, block: Block) -> Block:
    block.insert(last, None)
    return block


def end_of(address: int, size: int, following: int, starts: list[int], is_small: bool) -> int:
    """Where a block ends that may have kept up to 1 MiB more than it was asked for: at the next known start."""
    end = address + size
    if is_small:
        return end
    near = starts[bisect.bisect_left(starts, end) :]
    if near and near[0] <= min(end + MIB, following):
        return near[0]
    return following if following - end <= MIB else end


@pytest.mark.parametrize("expandable", [False, True])
def test_undoing_the_history_leaves_nothing(expandable: bool) -> None:
    snapshot = trained(Settings(expandable_segments=expandable)).snapshot()
    live = {
        block["address"]: block["requested_size"]
        for segment in snapshot["segments"]
        for block in segment["blocks"]
        if block["state"] != "inactive"
    }
    for event in reversed(snapshot["device_traces"][0]):
        if event["action"] == "alloc":
            assert live.pop(event["addr"]) == event["size"]
        elif event["action"] == "free_completed":
            assert event["addr"] not in live
            live[event["addr"]] = event["size"]
    assert live == {}


def test_segments_are_what_their_blocks_say() -> None:
    for segment in trained().snapshot()["segments"]:
        sizes = Counter[str]()
        address = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == address
            address += block["size"]
            sizes[block["state"]] += block["size"]
        assert (sum(sizes.values()), sizes["active_allocated"]) == (segment["total_size"], segment["allocated_size"])


def test_a_steady_step_leaves_the_allocator_as_it_was() -> None:
    process = Process()
    training = Training(process, SMALL)
    training.build()
    training.run(3)
    before = process.allocators[0].state()
    training.train_step()
    assert process.allocators[0].state() == before


def test_a_block_used_on_another_stream_waits_for_it() -> None:
    process = Process()
    process.record()
    allocator = process.allocators[0]
    block = process.alloc("empty", MIB)
    address = block.address
    allocator.record_stream(block, SIDE_STREAM)
    process.free(block)
    assert actions(process)[-1] == "free_requested"
    states = [block["state"] for segment in process.snapshot()["segments"] for block in segment["blocks"]]
    assert states == ["active_pending_free", "inactive"]
    allocator.complete(SIDE_STREAM)
    other = process.alloc("empty", MIB)
    assert actions(process)[-2:] == ["free_completed", "alloc"]
    assert other.address == address


def test_out_of_memory_comes_after_all_that_can_be_released() -> None:
    process = Process(total=100 * MIB, other=0)
    process.record()
    process.free(process.alloc("empty", 40 * MIB))
    kept = process.alloc("empty", 30 * MIB)
    with pytest.raises(OutOfMemory, match=r"Tried to allocate 80.00 MiB. GPU 0 has a total capacity of 100.00 MiB"):
        process.alloc("empty", 80 * MIB)
    assert actions(process)[-2:] == ["alloc", "oom"]
    process.free(kept)
    with pytest.raises(OutOfMemory):
        process.alloc("empty", 101 * MIB)
    assert actions(process)[-2:] == ["segment_free", "oom"]
    oom = process.snapshot()["device_traces"][0][-1]
    assert (oom["device_free"], oom["size"]) == (100 * MIB, 101 * MIB)


def test_a_graph_keeps_its_pool() -> None:
    process = Process()
    process.record()
    allocator = process.allocators[0]
    with process.capture((1, 0)):
        process.free(process.alloc("mm", 30 * MIB))
    process.empty_cache()
    assert [segment["segment_pool_id"] for segment in process.snapshot()["segments"]] == [(1, 0)]
    allocator.release_pool((1, 0))
    process.empty_cache()
    assert process.snapshot()["segments"] == []


def test_expandable_segments_grow_and_shrink() -> None:
    process = Process(Settings(expandable_segments=True))
    process.record()
    first, second = process.alloc("empty", 15 * MIB), process.alloc("empty", 15 * MIB)
    assert second.address == first.address + first.size
    process.free(first)
    process.empty_cache()
    assert [each for each in actions(process) if each.startswith("segment")] == ["segment_map"] * 2
    process.free(second)
    process.empty_cache()
    assert actions(process)[-1] == "segment_unmap"
    assert process.snapshot()["segments"] == []


def test_rounding_by_divisions() -> None:
    settings = Settings(roundup_power2_divisions=(4,) * 16)
    assert [settings.round_size(size) for size in (1, 1200, 2048, 2100, 5 * MIB + 1)] == [
        512,
        1536,
        2048,
        2560,
        6 * MIB,
    ]


def test_a_ring_keeps_the_newest() -> None:
    process = Process()
    process.record(max_entries=5)
    for _ in range(3):
        process.free(process.alloc("empty", MIB))
    assert actions(process) == ["free_requested", "free_completed", "alloc", "free_requested", "free_completed"]


@pytest.mark.parametrize("protocol", first_quick([4, 2, 5]))
def test_pickles_hold_the_snapshot(tmp_path: Path, protocol: int) -> None:
    snapshot = trained().snapshot()
    path = write(tmp_path / "snapshot.pickle.gz", snapshot, protocol=protocol)
    assert pickle.loads(gzip.decompress(path.read_bytes())) == snapshot
    assert json.loads(write(tmp_path / "snapshot.json", snapshot, "json").read_bytes())["device_traces"]


def test_torchs_own_pickler_writes_what_python_reads() -> None:
    snapshot = written_by(trained().snapshot(), (2, 9), "c++")
    assert pickle.loads(torch_pickle(snapshot)) == snapshot
    assert "pool_id" not in snapshot["device_traces"][0][0]


def test_old_versions_write_fewer_keys() -> None:
    snapshot = trained().snapshot()
    first = written_by(snapshot, (2, 1))["device_traces"][0][0]
    assert sorted(first) == ["action", "addr", "frames", "size", "stream"]
    assert "history" in str(written_by(snapshot, (2, 0))["segments"][0]["blocks"][0])


@pytest.mark.parametrize("protocol", first_quick([4, 5]))
def test_a_large_file_is_what_a_long_run_writes(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "large.pickle"
    events = write_large(path, 6000, protocol, steady(layers=2))
    training = steady(layers=2)
    while len(training.process.allocators[0].history) < events:
        training.train_step()
    assert pickle.loads(path.read_bytes()) == training.process.snapshot()


def test_a_repeated_step_is_many(tmp_path: Path) -> None:
    assert write_large(tmp_path / "large.pickle", 20_000, training=steady(layers=2)) >= 20_000


def test_settings_change_what_fits() -> None:
    def reserved(settings: Settings) -> int:
        allocator = Allocator(settings)
        blocks = [allocator.malloc(60 * MIB) for _ in range(4)]
        for block in blocks[:2]:
            allocator.free(block)
        allocator.malloc(120 * MIB)
        return allocator.reserved

    assert reserved(Settings()) == 360 * MIB
    assert reserved(Settings(expandable_segments=True)) == 240 * MIB


def test_annotations_and_pinned_memory() -> None:
    process = Process(devices=2)
    process.record()
    block = process.alloc("empty", MIB, device=1)
    process.annotate(block, "my tensor", device=1)
    process.unpin(process.pin(3000))
    process.pin(4000)
    snapshot = process.snapshot()
    event = snapshot["device_traces"][1][-1]
    assert (event["action"], event["user_metadata"], event["size"]) == ("annotate", "my tensor", MIB)
    host = [each["action"] for each in snapshot["host_traces"]]
    assert host == ["segment_alloc", "alloc", "free_requested", "free_completed", "alloc"]
    assert [segment["total_size"] for segment in snapshot["host_segments"]] == [4096]
    assert "host_traces" not in written_by(snapshot, (2, 13))
