from __future__ import annotations

from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinetoscope import Trace
from kinetoscope.model.memory.allocator import DEVICE_TYPES, device_name, innermost_calls, memory_instants
from kinetoscope.model.memory.blocks import memory_blocks
from kinetoscope.model.memory.levels import is_mapped, with_mapped
from tests.drawn import Event, job, memory, op


def said(time: int, size: int, total: int | None, *, address: int | None = None, device: int | None = None) -> Event:
    """An instant at which the allocator says what is in use, and where."""
    more = {"Total Allocated": total, "Addr": address}
    return memory(time, size, device=device, **{key: value for key, value in more.items() if value is not None})


def trace_of(folder: Path, *events: Event) -> Trace:
    return job(folder, *events).trace()


@pytest.mark.parametrize(
    ("device_type", "number", "name"),
    [(0, -1, "cpu"), (1, 3, "cuda:3"), (6, 0, "hip:0"), (12, 1, "xpu:1"), (19, 0, "mtia:0"), (99, 0, "type 99:0")],
)
def test_devices_have_torchs_names(device_type: int, number: int, name: str) -> None:
    assert device_name(device_type, number) == name


def test_no_two_types_of_device_have_one_name() -> None:
    assert len(set(DEVICE_TYPES)) == len(DEVICE_TYPES)


def test_what_is_in_use_is_what_the_allocator_said_and_counted_on_where_it_did_not(tmp_path: Path) -> None:
    sizes, totals = [5, 10, -3, 7, 1], [None, 100, None, None, 50]
    instants = [said(time, *what) for time, what in enumerate(zip(sizes, totals, strict=True))]
    found = memory_instants(trace_of(tmp_path, *instants))
    assert found.allocated.tolist() == [90, 100, 97, 104, 50]
    assert (found.before(0), found.counted.tolist(), found.notes()) == (85, [False], [])


def test_where_it_never_said_anything_it_counts_from_nothing_for_each_device(tmp_path: Path) -> None:
    instants = [memory(1, 5), memory(2, 8, device=0), memory(3, -2), memory(4, 1, device=0), memory(5, 1, device=1)]
    found = memory_instants(trace_of(tmp_path, *instants))
    assert [found.device_name(device) for device in range(3)] == ["cuda:0", "cuda:1", "cpu"]
    assert found.allocated.tolist() == [5, 8, 3, 9, 1]
    assert found.notes() == [
        "The file does not say how much was in use (cuda:0, cuda:1, cpu): it counts from 0 at the beginning."
    ]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3), st.integers(1, 9))))
def test_mapped_memory_is_in_use_too(changes: list[tuple[bool, int, int]]) -> None:
    """Of mapped memory the file says that 0 is in use, on the host: two allocators report there."""
    in_use: dict[int, int] = {}
    ours, level, reserved = [], 0, []
    truth = []
    for of_map, place, amount in changes:
        address = place + 10 * of_map
        change = -in_use.pop(address) if address in in_use else amount + 1000 * of_map
        if change > 0:
            in_use[address] = change
        level += 0 if of_map else change
        ours.append((change, 0 if of_map else level, of_map))
        reserved.append(change if of_map and change > 0 else 0)
        truth.append(sum(in_use.values()))
    size, total, is_of_map = (np.array([row[part] for row in ours], np.int64) for part in range(3))
    mapped = is_mapped(size, total, np.array(reserved, np.int64))
    assert mapped.tolist() == is_of_map.tolist()
    addresses = np.arange(len(ours), dtype=np.int32)
    known = np.ones(len(ours), np.bool_)
    assert with_mapped(size, total, known, mapped, np.full_like(addresses, -1)).tolist() == truth


def test_memory_that_was_mapped_before_the_recording(tmp_path: Path) -> None:
    def mapped(time: int, size: int, address: int) -> Event:
        return memory(time, size, **{"Total Allocated": 0, "Total Reserved": max(size, 0), "Addr": address})

    own = said(3, 8, 8, address=64)
    drawn = [mapped(1, 2048, 1), mapped(2, -1000, 2), own, mapped(4, -2048, 1)]
    assert memory_instants(trace_of(tmp_path, *drawn)).allocated.tolist() == [3048, 2048, 2056, 8]


Instant = tuple[int, int | None, int]


def pairs_by_plugin(instants: list[Instant]) -> set[tuple[int | None, int | None, int]]:
    """The TensorBoard plugin's way: taken, remembered by address; given back, looked up and forgotten."""
    open_at: dict[tuple[int, int], int] = {}
    found: set[tuple[int | None, int | None, int]] = set()
    for place, (device, address, size) in enumerate(instants):
        if address is None or size == 0:
            continue
        if size > 0:
            if (device, address) in open_at:
                lost = open_at[device, address]
                found.add((lost, None, instants[lost][2]))
            open_at[device, address] = place
        elif (device, address) in open_at:
            taken = open_at.pop((device, address))
            found.add((taken, place, instants[taken][2]))
        else:
            found.add((None, place, -size))
    return found | {(place, None, instants[place][2]) for place in open_at.values()}


@given(st.lists(st.tuples(st.integers(0, 1), st.none() | st.integers(0, 2), st.integers(-3, 3)), min_size=1))
def test_blocks_equal_pairs_found_one_by_one(instants: list[Instant]) -> None:
    drawn = [said(place, size, None, address=at, device=device) for place, (device, at, size) in enumerate(instants)]
    with TemporaryDirectory() as folder:
        trace = trace_of(Path(folder), *drawn)
        blocks = memory_blocks(trace)
    taken, released = (
        [None if place < 0 else place for place in part.tolist()] for part in (blocks.allocated_at, blocks.freed_at)
    )
    assert set(zip(taken, released, blocks.size.tolist(), strict=True)) == pairs_by_plugin(instants)
    assert len(blocks) == len(pairs_by_plugin(instants))
    assert blocks.addressless == sum(address is None and size != 0 for _, address, size in instants)
    assert blocks.shown_at.tolist() == sorted(blocks.shown_at.tolist())


@given(st.lists(st.tuples(st.just(0), st.integers(0, 3), st.integers(1, 3)), min_size=1))
def test_known_blocks_account_for_what_is_in_use_at_each_instant(takes: list[Instant]) -> None:
    """An allocator that takes a free address and gives back one in use: nothing was there before."""
    in_use: dict[int, int] = {}
    changes: list[tuple[int, int]] = []
    for _, address, size in takes:
        assert address is not None
        changes.append((address, -in_use.pop(address) if address in in_use else size))
        if changes[-1][1] > 0:
            in_use[address] = size
    drawn = [said(time, size, None, address=address) for time, (address, size) in enumerate(changes)]
    with TemporaryDirectory() as folder:
        trace = trace_of(Path(folder), *drawn)
        blocks = memory_blocks(trace)
    alive = [int(blocks.size[blocks.active_after(place)].sum()) for place in range(len(changes))]
    assert alive == list(accumulate(size for _, size in changes))


def test_an_address_given_out_again_ends_the_block_but_was_not_given_back(tmp_path: Path) -> None:
    blocks = memory_blocks(trace_of(tmp_path, said(1, 5, None, address=64), said(2, 7, None, address=64)))
    assert (blocks.freed_at.tolist(), blocks.ended_at.tolist()) == ([-1, -1], [1, -1])
    assert blocks.active_after(0).tolist() == [True, False]
    assert blocks.active_after(1).tolist() == [False, True]


def test_files_of_2021_spell_the_thread_of_calls_as_a_text(tmp_path: Path) -> None:
    call = op("aten::empty", 5, 10) | {"tid": "1"}
    trace = trace_of(tmp_path, call, memory(7, 1), memory(7, 1, tid=2))
    assert sorted(innermost_calls(trace).tolist()) == [-1, 0]
