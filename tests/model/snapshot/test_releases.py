"""Why segments went back to the device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kinetoscope.model.snapshot.releases import RELEASE_REASONS, Releases, releases_of
from kinetoscope.model.snapshot.replay import history_of
from kinetoscope.readers.snapshot import load
from tests.snapshots.allocator import OutOfMemory, Settings
from tests.snapshots.process import Process
from tests.snapshots.writing import content

MIB = 1 << 20


def process(*, stacks: bool, total: int = 1 << 30, settings: Settings | None = None, **facts: float) -> Process:
    made = Process(settings or Settings(), total=total, other=0, fraction=facts.get("fraction"))
    made.record(context="all" if stacks else "alloc")
    return made


def releases(of: Process) -> Releases:
    snapshot = load("test.pickle", [content(of.snapshot())])
    if of.allocators[0].level == "alloc":
        events = tuple(replace(each, stack=np.full(len(each), -1, np.int32)) for each in snapshot.events)
        snapshot = replace(snapshot, events=events)
    past = history_of(snapshot, 0)
    assert past is not None
    return releases_of(snapshot, past)


def reasons(of: Process) -> list[str]:
    return [RELEASE_REASONS[reason] for reason in releases(of).reason]


@pytest.mark.parametrize("stacks", [True, False])
def test_a_program_that_empties_the_cache(stacks: bool) -> None:
    emptying = process(stacks=stacks)
    for _ in range(2):
        emptying.free(emptying.alloc("empty", 30 * MIB))
        emptying.empty_cache()
    emptying.alloc("empty", 30 * MIB)
    went = releases(emptying)
    assert reasons(emptying) == ["emptied" if stacks else "unknown"] * 2
    assert (went.size.tolist(), went.count.tolist()) == ([30 * MIB, 30 * MIB], [1, 1])


@pytest.mark.parametrize("stacks", [True, False])
@pytest.mark.parametrize("grows", [True, False])
def test_a_device_that_has_no_more(stacks: bool, grows: bool) -> None:
    full = process(stacks=stacks, total=100 * MIB, settings=Settings(expandable_segments=grows))
    full.free(full.alloc("empty", 40 * MIB, stream=7), full.alloc("empty", 40 * MIB))
    full.alloc("empty", 70 * MIB)
    went = releases(full)
    assert reasons(full) == ["retry" if stacks else "unknown"] * len(went) != []
    assert went.serves.all()


@pytest.mark.parametrize("stacks", [True, False])
def test_a_request_that_fails_all_the_same(stacks: bool) -> None:
    full = process(stacks=stacks, total=100 * MIB)
    full.free(full.alloc("empty", 40 * MIB))
    with pytest.raises(OutOfMemory):
        full.alloc("empty", 120 * MIB)
    assert reasons(full) == ["retry"]
    assert not releases(full).serves.any()


def test_without_stacks_it_was_the_program_where_more_had_been_held() -> None:
    emptying = process(stacks=False)
    emptying.free(emptying.alloc("empty", 90 * MIB))
    emptying.empty_cache()
    emptying.free(emptying.alloc("empty", 30 * MIB))
    emptying.empty_cache()
    emptying.alloc("empty", 30 * MIB)
    assert reasons(emptying) == ["unknown", "emptied"]


def test_garbage_collection() -> None:
    settings = Settings(garbage_collection_threshold=0.5)
    collecting = process(stacks=True, total=100 * MIB, settings=settings, fraction=1.0)
    collecting.free(collecting.alloc("empty", 30 * MIB), collecting.alloc("empty", 34 * MIB))
    collecting.alloc("empty", 36 * MIB)
    assert reasons(collecting) == ["collection"]
