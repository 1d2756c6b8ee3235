"""The plain allocator repeats recordings of torch's own: the same events at the same addresses."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import first_quick
from tests.snapshots.allocator import DEFAULT_POOL, UNLIMITED, Allocator, OutOfMemory, Settings

FILES = sorted((Path(__file__).parent / "real").glob("*.pickle.gz"))
OTHER_STREAM = -1

Event = dict[str, Any]


@pytest.mark.parametrize("file", first_quick(FILES), ids=lambda file: file.name.split(".pickle")[0])
def test_events_are_those_of_torch(file: Path) -> None:
    snapshot = pickle.loads(gzip.decompress(file.read_bytes()))
    for device, trace in enumerate(snapshot["device_traces"]):
        trace = [event for event in trace if event["action"] not in ("snapshot", "annotate")]
        played = Played(snapshot["allocator_settings"], trace).run()
        assert played == [compared(event) for event in trace], device


def compared(event: Event) -> tuple[str, int, int, int]:
    """The compared part of an event, without the free memory of the device, which depends on others."""
    free = event["action"] == "oom"
    return event["action"], 0 if free else event["addr"], event["size"], event["stream"]


class Played:
    """The requests of a history, made again. Only addresses of new segments are given; all others must follow."""

    def __init__(self, settings: dict[str, Any], trace: list[Event]) -> None:
        split = settings["max_split_size"]
        self.trace = trace
        self.allocator = RecordedDevice(
            Settings(
                max_split_size=split if 0 <= split < 1 << 60 else UNLIMITED,
                garbage_collection_threshold=settings["garbage_collection_threshold"],
                expandable_segments=settings["expandable_segments"],
                roundup_power2_divisions=tuple(settings["roundup_power2_divisions"].values()),
            ),
            total=sum(event["size"] for event in trace if event["action"].startswith("segment_")) or 1,
        )
        self.allocator.addresses = [event["addr"] for event in trace if event["action"] == "segment_alloc"][::-1]

    def run(self) -> list[tuple[str, int, int, int]]:
        allocator, trace, blocks = self.allocator, self.trace, dict[int, Any]()
        while (at := len(allocator.history)) < len(trace):
            event = trace[at]
            if event["action"] == "free_requested":
                block = blocks.pop(event["addr"])
                following = trace[at + 1] if at + 1 < len(trace) else {}
                if (following.get("action"), following.get("addr")) != ("free_completed", event["addr"]):
                    allocator.record_stream(block, OTHER_STREAM)
                allocator.free(block)
                continue
            request = next((each for each in trace[at:] if each["action"] in ("alloc", "oom")), None)
            if request is None or self._empties(at):
                allocator.empty_cache()
            else:
                self._prepare(at, request)
                try:
                    block = allocator.malloc(request["size"], request["stream"])
                    blocks[block.address] = block
                except OutOfMemory:
                    pass
            assert len(allocator.history) > at
        return [(each.action, 0 if each.action == "oom" else each.addr, *each[2:4]) for each in allocator.history]

    def _empties(self, at: int) -> bool:
        """Whether `empty_cache` returns the next segments."""
        names = {str(frame["name"]) for frame in self.trace[at].get("frames", ())}
        return self.trace[at]["action"] in ("segment_free", "segment_unmap") and "empty_cache" in names

    def _prepare(self, at: int, request: Event) -> None:
        """The state of the device at a request: events that it passed, its free memory, a capture."""
        allocator = self.allocator
        until = self.trace.index(request, at)
        before = self.trace[at:until]
        completed = {each["addr"] for each in before if each["action"] == "free_completed"}
        for block, done in (each for queue in allocator.events.values() for each in queue):
            done[0] = block.address in completed
        new = [each for each in before if each["action"] == "segment_map"]
        if new and not any(each.address <= new[0]["addr"] < each.address + each.size for each in allocator.ranges):
            allocator.next_range = new[0]["addr"]
        # Where cached memory was freed, or nothing helped, the device was full.
        full = request["action"] == "oom" or any(each["action"].startswith("segment_free") for each in before)
        grown = sum(each["size"] for each in before if each["action"] in ("segment_alloc", "segment_map"))
        shrunk = sum(each["size"] for each in before if each["action"] in ("segment_free", "segment_unmap"))
        allocator.other = allocator.total - allocator.reserved - (max(grown - shrunk, 0) if full or shrunk else grown)
        pool = tuple(request.get("pool_id", DEFAULT_POOL))
        allocator.captures.clear()
        if pool != DEFAULT_POOL:
            allocator.begin_capture(pool)


class RecordedDevice(Allocator):
    """A device that places segments at their recorded addresses."""

    addresses: list[int]

    def _find_address(self, size: int) -> int:  # noqa: ARG002 - what was recorded says where
        return self.addresses.pop()
