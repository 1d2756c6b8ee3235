"""The replica of the allocator: against the plain one of the generator, and against real addresses."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope.algorithms.caching_allocator import LARGE_SEGMENT_BYTES
from kinetoscope.model.snapshot.allocator import ReplayedAllocator, Trust, device_limit, replayed, trust_of
from kinetoscope.model.snapshot.replay import SnapshotHistory, history_of, level_of
from kinetoscope.model.snapshot.segment_history import segment_history_of
from kinetoscope.model.snapshot.settings import AllocatorSettings, changed, recorded_settings
from kinetoscope.model.snapshot.snapshot import OUT_OF_MEMORY, SEGMENT_ALLOC, SEGMENT_MAP, Snapshot
from kinetoscope.readers.snapshot import load
from tests.conftest import SHARED
from tests.snapshots.allocator import UNLIMITED, Allocator, Block, OutOfMemory, Settings
from tests.snapshots.process import SIDE_STREAM, Process
from tests.snapshots.training import Model, Training
from tests.snapshots.writing import content

MIB = 1 << 20
TOTAL = 1 << 30
POOL = (1, 0)
SAMPLES = sorted((SHARED.parent / "samples" / "memory").glob("*.pickle"))


class Upwards(Allocator):
    """Segments at ever higher addresses, so that two programs with the same segments have them at the same ones."""

    def _find_address(self, size: int) -> int:
        self.next_address = getattr(self, "next_address", 0x7F00_0000_0000)
        self.next_address += size
        return int(self.next_address - size)


def read(process: Process) -> Snapshot:
    return load("test.pickle", [content(process.snapshot())])


def replica_of(process: Process, device: int = 0) -> tuple[Snapshot, SnapshotHistory, Any]:
    snapshot = read(process)
    past = history_of(snapshot, device)
    assert past is not None
    return snapshot, past, segment_history_of(snapshot, past)


# --- programs


class Step(NamedTuple):
    """What a program does: `malloc` of so many bytes on a stream, `free` of one of the live blocks, and so on."""

    does: str
    size: int
    stream: int
    which: int


sizes = st.one_of(
    st.integers(1, 2 * MIB),
    st.integers(MIB - 600, 12 * MIB),
    st.integers(8 * MIB, 90 * MIB),
    st.sampled_from([512, MIB, 3 * MIB, 20 * MIB, 33 * MIB]),
)
steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(["malloc"] * 6 + ["free"] * 5 + ["use", "complete", "empty_cache"]),
        sizes,
        st.sampled_from([0, 0, 0, SIDE_STREAM]),
        st.integers(0, 1 << 16),
    ),
    min_size=1,
    max_size=120,
)
settings_ = st.builds(
    Settings,
    max_split_size=st.sampled_from([UNLIMITED, UNLIMITED, 21 * MIB, 40 * MIB]),
    expandable_segments=st.booleans(),
    roundup_power2_divisions=st.sampled_from([(0,) * 16, (4,) * 16, (2, 8) * 8]),
)


def run(
    settings: Settings,
    program: list[Step],
    *,
    total: int = TOTAL,
    begin: int = 0,
    waits: bool = True,
    fraction: float | None = None,
) -> Process:
    """A process that ran a program, recorded from step `begin` on."""
    process = Process(settings, total=total, other=0, fraction=fraction)
    process.allocators[0] = Upwards(settings, total, 0, 0, fraction, process._tick, level=None)
    allocator = process.allocators[0]
    live: list[Block] = []
    for place, step in enumerate([Step("malloc", 1, 0, 0), *program]):
        if place == begin:
            process.record()
        if step.does == "malloc":
            try:
                live.append(process.alloc("empty", step.size, step.stream))
            except OutOfMemory:
                process.free(*live)
                live.clear()
        elif step.does == "empty_cache":
            process.empty_cache()
        elif step.does == "complete" and waits:
            allocator.complete()
        elif live:
            block = live[step.which % len(live)]
            if step.does == "use" and waits:
                allocator.record_stream(block, SIDE_STREAM + 1)
            elif step.does == "free":
                live.remove(block)
                process.free(block)
    return process


def of(settings: Settings) -> AllocatorSettings:
    """The same settings as the replica has them."""
    divisions = {str(1 << place): count for place, count in enumerate(settings.roundup_power2_divisions)}
    limited = settings.max_split_size < UNLIMITED
    return AllocatorSettings(
        max_split_size=settings.max_split_size if limited else None,
        roundup_power2_divisions=divisions,
        garbage_collection_threshold=settings.garbage_collection_threshold,
        expandable_segments=settings.expandable_segments,
    )


def emptied(snapshot: Snapshot, past: SnapshotHistory) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Events of `empty_cache` by their stacks."""
    code = {snapshot.strings.label(int(name)): row for row, name in enumerate(snapshot.frames.name)}.get("empty_cache")
    stacks = [row for row in range(len(snapshot.stacks)) if code in snapshot.stacks.of(row).tolist()]
    shrinks = np.isin(past.events.action, (SEGMENT_ALLOC + 1, SEGMENT_MAP + 1))
    return np.flatnonzero(shrinks & np.isin(past.events.stack, stacks))


def facts(answer: ReplayedAllocator) -> tuple[int, int, int]:
    return answer.reserved, answer.device_allocations, answer.device_frees


def recorded_facts(snapshot: Snapshot, past: SnapshotHistory) -> tuple[int, int, int]:
    action = past.events.action
    counts = [int(np.isin(action, (SEGMENT_ALLOC + more, SEGMENT_MAP + more)).sum()) for more in (0, 1)]
    return int(level_of(snapshot, past, "reserved").max()), counts[0], counts[1]


# --- against the generator's allocator


@given(settings_, steps)
def test_every_address_of_a_whole_history_is_predicted(settings: Settings, program: list[Step]) -> None:
    snapshot, past, lives = replica_of(run(settings, program))
    trust = trust_of(snapshot, past, lives, memory=TOTAL)
    assert trust == (trust.requests, trust.requests, 0)
    assert trust.requests == int((past.events.action == 0).sum())


@given(settings_, steps, st.sampled_from([TOTAL, 256 * MIB]))
def test_the_recorded_settings_hold_what_was_held(settings: Settings, program: list[Step], total: int) -> None:
    process = run(settings, program, total=total, waits=False)
    snapshot, past, lives = replica_of(process)
    answer = replayed(snapshot, past, lives, of(settings), memory=total, limit=total, emptied=emptied(snapshot, past))
    assert answer.failed is None
    assert facts(answer) == recorded_facts(snapshot, past)
    assert answer.failures == int((past.events.action == OUT_OF_MEMORY).sum())
    np.testing.assert_array_equal(answer.levels.max(initial=0), level_of(snapshot, past, "reserved").max())


@given(settings_, settings_, steps)
def test_other_settings_hold_what_the_program_holds_under_them(
    recorded: Settings, other: Settings, program: list[Step]
) -> None:
    total = 64 << 30
    program = [step for step in program if step.does != "empty_cache"]
    snapshot, past, lives = replica_of(run(recorded, program, total=total))
    truth, true_past, _ = replica_of(run(other, program, total=total))
    answer = replayed(snapshot, past, lives, of(other), memory=total)
    assert facts(answer) == recorded_facts(truth, true_past)


@given(steps)
def test_garbage_collection_gives_back_what_was_unused_for_longest(program: list[Step]) -> None:
    settings = Settings(garbage_collection_threshold=0.5)
    process = run(settings, program, total=512 * MIB, waits=False, fraction=1.0)
    snapshot, past, lives = replica_of(process)
    answer = replayed(
        snapshot, past, lives, of(settings), memory=512 * MIB, limit=512 * MIB, emptied=emptied(snapshot, past)
    )
    assert facts(answer) == recorded_facts(snapshot, past)


# --- trainings


def training(settings: Settings, **facts: Any) -> Process:
    process = Process(settings, **facts)
    job = Training(process, Model(layers=3, width=512, batch=4, tokens=256, vocabulary=4000))
    job.build()
    job.run(1)
    process.record()
    job.run(3)
    return process


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(expandable_segments=True),
        Settings(max_split_size=24 * MIB),
        Settings(roundup_power2_divisions=(4,) * 16),
    ],
)
def test_a_history_that_begins_amid_a_training_is_predicted(settings: Settings) -> None:
    snapshot, past, lives = replica_of(training(settings))
    trust = trust_of(snapshot, past, lives)
    assert trust.requests > 400
    assert trust.share == 1.0


def test_requests_of_a_private_pool_count_in_no_trust_and_hold_what_they_held() -> None:
    process = Process()
    process.record()
    kept = process.alloc("empty", 30 * MIB)
    with process.capture(POOL):
        inside = process.alloc("empty", 40 * MIB)
        process.free(inside)
    process.free(kept)
    snapshot, past, lives = replica_of(process)
    assert trust_of(snapshot, past, lives) == Trust(requests=1, predicted=1, private=1)
    answer = replayed(snapshot, past, lives, AllocatorSettings(expandable_segments=True))
    assert answer.reserved == 40 * MIB + 2 * LARGE_SEGMENT_BYTES


def test_a_request_fails_where_the_device_is_smaller() -> None:
    process = Process()
    process.record()
    blocks = [process.alloc("empty", 30 * MIB) for _ in range(3)]
    process.free(*blocks)
    snapshot, past, lives = replica_of(process)
    answer = replayed(snapshot, past, lives, AllocatorSettings(), memory=80 * MIB, limit=80 * MIB)
    third = int(np.flatnonzero(past.events.action == 0)[2])
    assert (answer.failed, answer.failures, answer.retries, answer.reserved) == (third, 1, 1, 60 * MIB)


def test_what_is_made_smaller_takes_less() -> None:
    process = Process()
    process.record()
    for _ in range(3):
        process.alloc("empty", 40 * MIB)
    snapshot, past, lives = replica_of(process)
    answer = replayed(snapshot, past, lives, AllocatorSettings(), requested=past.requested // 2)
    assert answer.reserved == 60 * MIB


@pytest.mark.skipif(not SAMPLES, reason="the samples are not beside this checkout")
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_address_of_a_real_history_is_predicted(path: Path) -> None:
    snapshot = load(str(path), [path.read_bytes()])
    past = history_of(snapshot, 0)
    assert past is not None
    lives = segment_history_of(snapshot, past)
    trust = trust_of(snapshot, past, lives)
    assert trust.predicted == trust.requests == int((past.events.action == 0).sum())
    again = replayed(snapshot, past, lives, recorded_settings(snapshot.settings))
    assert again.reserved == pytest.approx(int(level_of(snapshot, past, "reserved").max()), rel=0.005)


# --- files of torch's own allocator

REAL = sorted((Path(__file__).parents[2] / "snapshots" / "real").glob("*.pickle.gz"))


def real(name: str) -> tuple[Snapshot, SnapshotHistory, Any]:
    [path] = [path for path in REAL if path.name.startswith(name)]
    snapshot = load(str(path), [gzip.decompress(path.read_bytes())])
    past = history_of(snapshot, 0)
    assert past is not None
    return snapshot, past, segment_history_of(snapshot, past)


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name.removesuffix(".pickle.gz"))
def test_every_address_of_torch_is_predicted_and_replayed(path: Path) -> None:
    snapshot = load(str(path), [gzip.decompress(path.read_bytes())])
    for device in snapshot.devices:
        past = history_of(snapshot, device)
        assert past is not None
        lives, reserved = segment_history_of(snapshot, past), level_of(snapshot, past, "reserved")
        limit = device_limit(past, reserved)
        trust = trust_of(snapshot, past, lives, memory=limit)
        assert trust.predicted == trust.requests > 0
        again = replayed(snapshot, past, lives, recorded_settings(snapshot.settings), memory=limit, limit=limit)
        assert again.reserved == reserved.max()
        assert again.failures == int((past.events.action == OUT_OF_MEMORY).sum())


@pytest.mark.parametrize("version", ["2.13.0", "2.15.0"])
@pytest.mark.parametrize(
    ("recorded", "other", "conf"),
    [
        ("training", "training_expandable", "expandable_segments:True"),
        ("training_expandable", "training", "expandable_segments:False"),
    ],
)
def test_the_same_program_holds_what_was_predicted(recorded: str, other: str, conf: str, version: str) -> None:
    snapshot, past, lives = real(f"{recorded}_{version}")
    truth, true_past, _ = real(f"{other}_{version}")
    answer = replayed(snapshot, past, lives, changed(recorded_settings(snapshot.settings), conf))
    assert facts(answer) == recorded_facts(truth, true_past)
