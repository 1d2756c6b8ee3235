"""A replica of torch's caching allocator: which block a request gets, and what it allocates on the device for it.

It follows `DeviceCachingAllocator` (c10/cuda/CUDACachingAllocator.cpp), whose methods are named in brackets. A block is
a row of `blocks`; those of a segment are linked in order of address. A queue is a pool of one stream and size class. It
has two skip lists: free blocks by size and address, and ranges of expandable segments that are not mapped, by address.

The same code runs in two ways. Where it follows a record, segments come and go as recorded, each request is compared
with the recorded address, and goes there whatever was predicted. Else it allocates and frees segments by itself.
"""

# mypy: disable-error-code="no-any-return"
# Numbers that come out of arrays are of any type for mypy.

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinetoscope.algorithms.arrays import Int8s, Int32s, Int64s
from kinetoscope.algorithms.compiled import compiled, frozen, inlined

ALLOC, TRY_ALLOC, FREE_REQUESTED, FREE_COMPLETED, EMPTY_CACHE, RESERVE = range(6)
"""What an operation does with its row, as torch names it. ALLOC: requests its bytes. TRY_ALLOC: requests them, and
frees them at once. FREE_REQUESTED: its free waits for another stream. FREE_COMPLETED: it is free. EMPTY_CACHE: frees
unused segments. RESERVE: so many bytes are reserved besides; negative, if no longer."""

SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP, DEVICE_MALLOC, PRELOAD = range(6, 12)
"""The operations of a record that is followed: segments that come and go; DEVICE_MALLOC: they went so that the device
has memory for the next request, which is served from there; PRELOAD: what was there when the record began."""

MAX_SPLIT, MAX_ROUNDING, EXPANDABLE, SPAN, LIMIT, COLLECT_ABOVE, FOLLOWS, OPTION_COUNT = range(8)
"""Places in `options`: bytes from which on blocks are not split; how many bytes larger than requested those may be;
whether segments are expandable, and how many addresses each of those has; bytes that the device has; bytes reserved
from which on unused segments are collected, 0 for never; whether a record is followed."""

UNLIMITED: Final = 1 << 62
LONGEST_SPAN: Final = 1 << 46
"""For SPAN, if it is not known: more addresses than any device has bytes."""

MIN_BLOCK_BYTES: Final = 512
"""kMinBlockSize: sizes are multiples of it."""

SMALL_BYTES: Final = 1 << 20
"""Rounded requests up to this are served from segments of the small pool (kSmallSize)."""

SMALL_SEGMENT_BYTES: Final = 2 << 20
LARGE_SEGMENT_BYTES: Final = 20 << 20
"""Segments for small requests, and for those below OWN_SEGMENT_BYTES; expandable ones grow by as much."""

OWN_SEGMENT_BYTES: Final = 10 << 20
SEGMENT_ROUNDING_BYTES: Final = 2 << 20
"""A larger request gets a segment of its own, of a multiple of this (kMinLargeAlloc, kRoundLarge)."""

RESERVED, PEAK, PEAK_OPERATION, IN_USE, MOST_IN_USE = range(5)
"""Places in the state: bytes reserved, the most of them and after which operation; bytes of blocks in use, the most."""

SEGMENT_ALLOCS, SEGMENT_FREES, RETRIES, FAILURES, FAILED_OPERATION = range(5, 10)
"""Places in the state: how often memory of the device was allocated and freed; how often the cache was emptied because
there was none; how often that did not help, and at which operation that ended all (−1)."""

_IN_USE_ROWS, _UNUSED_ROW, _FRESH_ROW, _LAST_REST, _NEXT_ADDRESS, _SEED = range(10, 16)
_FIRST_WAITING, _SMALL_SEARCHES, _LARGE_SEARCHES, _NEW_SEGMENT, _IS_MALLOC, _STATE_SIZE = range(16, 22)

_ADDRESS, _SIZE, _KEY, _BEFORE, _AFTER, _QUEUE, _STATUS, _IS_EXPANDABLE, _AGE, _OWNER = range(10)
_WAITS_BEFORE, _WAITS_AFTER, _FIELD_COUNT = range(10, 13)
_FREE, _ALLOCATED, _WAITING, _UNMAPPED = range(4)

_LEVELS: Final = 10
_NO_BLOCK: Final = -1
_FIRST_ROWS: Final = 4096
_SPARE_ROWS: Final = 64
_SEED_VALUE: Final = 88172645463325252


class AllocatorOperations(NamedTuple):
    """Operations in order, and the rows that they are done with.

    Attributes:
        does, row: int8 and int32 [operations], what, and with which row.
        size: int64 [rows], bytes as rounded, or of the segment.
        address: int64 [rows], where it was; read only where a record is followed.
        queue: int32 [rows], twice a number of its pool and stream, and 1 more for the small pool.
    """

    does: Int8s
    row: Int32s
    size: Int64s
    address: Int64s
    queue: Int32s


class _AllocatorState(NamedTuple):
    """All that changes: heads of lists are the first rows of `links`; `block_of` is the block of each row."""

    options: Int64s
    state: Int64s
    blocks: NDArray[np.int64]
    links: NDArray[np.int32]
    path: Int32s
    block_of: Int32s
    hits: Int64s
    reserved: Int64s
    queues: int


def play(operations: AllocatorOperations, queues: int, options: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Play requests and frees on an empty allocator.

    Args:
        operations: an ALLOC or RESERVE that fails is the last that is played.
        queues: how many there are.
        options: int64 [OPTION_COUNT].

    Returns:
        int64, the state at the end. int64 [queues, 2], of a record: requests of each queue, and those of them whose
        address was predicted. int64 [operations], bytes reserved after each.
    """
    heads = 2 * queues
    frozen_operations = AllocatorOperations(
        frozen(operations.does, np.int8),
        frozen(operations.row, np.int32),
        frozen(operations.size, np.int64),
        frozen(operations.address, np.int64),
        frozen(operations.queue, np.int32),
    )
    heap = _AllocatorState(
        options=frozen(options, np.int64),
        state=np.zeros(_STATE_SIZE, np.int64),
        blocks=np.zeros((heads + _FIRST_ROWS, _FIELD_COUNT), np.int64),
        links=np.full((heads + _FIRST_ROWS, _LEVELS), _NO_BLOCK, np.int32),
        path=np.zeros(_LEVELS, np.int32),
        block_of=np.full(len(operations.size), _NO_BLOCK, np.int32),
        hits=np.zeros(2 * queues, np.int64),
        reserved=np.zeros(len(operations.does), np.int64),
        queues=queues,
    )
    heap.state[[FAILED_OPERATION, _UNUSED_ROW, _LAST_REST, _FIRST_WAITING, _NEW_SEGMENT]] = _NO_BLOCK
    heap.state[[_FRESH_ROW, _NEXT_ADDRESS, _SEED]] = heads, LARGE_SEGMENT_BYTES, _SEED_VALUE
    done = 0
    while True:
        done = _play(frozen_operations, done, heap)
        if done >= len(operations.does) or heap.state[FAILED_OPERATION] >= 0:
            return heap.state, heap.hits.reshape(-1, 2), heap.reserved
        heap = heap._replace(
            blocks=np.concatenate([heap.blocks, np.zeros_like(heap.blocks)]),
            links=np.concatenate([heap.links, np.full_like(heap.links, _NO_BLOCK)]),
        )


@compiled
def _play(operations: AllocatorOperations, done: int, heap: _AllocatorState) -> int:  # noqa: C901, PLR0912 - one arm each
    """Play on from operation `done`: the operation before which rows run out, or that fails; else their number."""
    for place in range(done, len(operations.does)):
        if 3 * heap.state[_IN_USE_ROWS] + _SPARE_ROWS > len(heap.blocks) - 2 * heap.queues:
            return place
        does, row = operations.does[place], operations.row[place]
        size, address, queue = operations.size[row], operations.address[row], operations.queue[row]
        if does == ALLOC or does == TRY_ALLOC:
            block = _allocate(size, address, queue, heap)
            if block >= 0:
                _assign(block, size, _splits(block, size, queue, heap), row, heap)
                if does == TRY_ALLOC:
                    _free_block(row, heap)
            elif not heap.options[FOLLOWS]:
                heap.state[FAILURES] += 1
                heap.state[FAILED_OPERATION] = place if does == ALLOC else _NO_BLOCK
        elif does == FREE_COMPLETED:
            if heap.block_of[row] >= 0:
                _free_block(row, heap)
        elif does == FREE_REQUESTED:
            _wait(heap.block_of[row], heap)
        elif does == EMPTY_CACHE:
            _release_cached(heap)
        elif does == RESERVE:
            if heap.state[RESERVED] + size > heap.options[LIMIT]:
                _release_cached(heap)
            heap.state[RESERVED] += size
            if size > 0 and heap.state[RESERVED] > heap.options[LIMIT]:
                heap.state[FAILURES] += 1
                heap.state[FAILED_OPERATION] = place
        else:
            _follow(does, size, address, queue, row, heap)
        if does != SEGMENT_ALLOC and does != SEGMENT_MAP and does != DEVICE_MALLOC:
            heap.state[_NEW_SEGMENT], heap.state[_IS_MALLOC] = _NO_BLOCK, 0
        if heap.state[RESERVED] > heap.state[PEAK]:
            heap.state[PEAK], heap.state[PEAK_OPERATION] = heap.state[RESERVED], place
        heap.state[MOST_IN_USE] = max(heap.state[MOST_IN_USE], heap.state[IN_USE])
        heap.reserved[place] = heap.state[RESERVED]
        if heap.state[FAILED_OPERATION] >= 0:
            return place
    return len(operations.does)


@compiled
def _follow(does: int, size: int, address: int, queue: int, row: int, heap: _AllocatorState) -> None:
    """Do what only a record does. What does not fit the state is left out: addresses will not be predicted then."""
    if does == SEGMENT_ALLOC:
        block = _segment(address, size, queue, heap)
        _insert(block, heap)
        heap.state[_LAST_REST] = heap.state[_NEW_SEGMENT] = block
        return
    if does == SEGMENT_MAP:
        _map_recorded(address, size, queue, heap)
        return
    if does == DEVICE_MALLOC:
        heap.state[_IS_MALLOC] = 1
        return
    block = _free_block_with(address, size, queue, heap)
    if block < 0:
        return
    if does == SEGMENT_UNMAP:
        _unmap(block, address, address + size, heap)
    elif does == PRELOAD:
        block = _without_front(block, address, heap)
        _remove(block, heap)
        _assign(block, size, heap.blocks[block, _SIZE] > size, row, heap)
    elif heap.blocks[block, _SIZE] == size and heap.blocks[block, _BEFORE] < 0 and heap.blocks[block, _AFTER] < 0:
        _release_segment(block, heap)


@compiled
def _allocate(size: int, address: int, queue: int, heap: _AllocatorState) -> int:
    """A block, in no list, for a request; −1 where there is none (`malloc`)."""
    if heap.options[FOLLOWS]:
        return _allocate_recorded(size, address, queue, heap)
    block = _best_fit(size, queue, heap)
    if block < 0 and 0 < heap.options[COLLECT_ABOVE] < heap.state[RESERVED]:
        _collect_garbage(heap)
    if block < 0:
        block = _from_device(size, queue, heap)
    if block < 0 and _release_oversize(size, queue, heap):
        block = _from_device(size, queue, heap)
    if block < 0:
        _release_cached(heap)
        heap.state[RETRIES] += 1
        block = _from_device(size, queue, heap)
    return block


@compiled
def _allocate_recorded(size: int, address: int, queue: int, heap: _AllocatorState) -> int:
    """The block, in no list, at a recorded address, after comparing it with the one that is predicted; −1 for none."""
    new = heap.state[_NEW_SEGMENT]  # from the device, for this request: nothing else was to fit
    is_new = new >= 0 and heap.blocks[new, _QUEUE] == queue and heap.blocks[new, _SIZE] >= size
    if is_new:
        _remove(new, heap)
    block = _NO_BLOCK if heap.state[_IS_MALLOC] else _best_fit(size, queue, heap)
    if is_new and block < 0:
        block, is_new = new, False
    if block < 0 and heap.options[EXPANDABLE]:  # one that was rejected as too large is next in turn
        block = _room(size, queue, heap)
        if block >= 0 and (heap.blocks[block, _STATUS] != _FREE or heap.blocks[block, _SIZE] < size):
            block = _NO_BLOCK
        if block >= 0:
            _remove(block, heap)
    heap.hits[2 * queue] += 1
    if block >= 0 and heap.blocks[block, _ADDRESS] == address:
        heap.hits[2 * queue + 1] += 1
    else:
        if block >= 0:
            _insert(block, heap)
        block = _NO_BLOCK
    if is_new:
        _insert(new, heap)
    if block < 0:
        block = _free_block_with(address, size, queue, heap)
        if block >= 0:
            block = _without_front(block, address, heap)
            _remove(block, heap)
    return block


@inlined
def _splits(block: int, size: int, queue: int, heap: _AllocatorState) -> bool:
    """True if what a block has beyond the size becomes a block of its own (`should_split`)."""
    rest = heap.blocks[block, _SIZE] - size
    if queue & 1 or heap.options[EXPANDABLE]:
        return bool(rest >= MIN_BLOCK_BYTES)
    return bool(rest > SMALL_BYTES and size < heap.options[MAX_SPLIT])


@compiled
def _best_fit(size: int, queue: int, heap: _AllocatorState) -> int:
    """The free block that a request gets, taken out of its list; −1 for none (`get_free_block`)."""
    if heap.options[COLLECT_ABOVE]:
        heap.state[_SMALL_SEARCHES if queue & 1 else _LARGE_SEARCHES] += 1
    block = _walk(2 * queue, size, -1, -1, heap)
    if block < 0:
        return _NO_BLOCK
    if heap.blocks[block, _IS_EXPANDABLE]:
        following = heap.links[block, 0]
        if heap.options[EXPANDABLE]:  # by the size that a block can grow to
            while (
                following >= 0
                and heap.blocks[block, _IS_EXPANDABLE]
                and _size_to_grow_to(following, heap) < _size_to_grow_to(block, heap)
            ):
                block, following = following, heap.links[following, 0]
        else:  # switched off since
            block = following
            while block >= 0 and heap.blocks[block, _IS_EXPANDABLE]:
                block = heap.links[block, 0]
            if block < 0:
                return _NO_BLOCK
    if size < heap.options[MAX_SPLIT] and heap.blocks[block, _SIZE] >= heap.options[MAX_SPLIT]:
        return _NO_BLOCK
    if size >= heap.options[MAX_SPLIT] and heap.blocks[block, _SIZE] >= size + heap.options[MAX_ROUNDING]:
        return _NO_BLOCK
    _remove(block, heap)
    return block


@inlined
def _size_to_grow_to(block: int, heap: _AllocatorState) -> int:
    after = heap.blocks[block, _AFTER]
    grows = after >= 0 and heap.blocks[after, _STATUS] == _UNMAPPED
    return heap.blocks[block, _SIZE] + (heap.blocks[after, _SIZE] if grows else 0)


# --- memory of the device


@compiled
def _from_device(size: int, queue: int, heap: _AllocatorState) -> int:
    """A block of new memory of the device, in no list; −1 where it has none (`alloc_block`)."""
    if heap.options[EXPANDABLE]:
        return _expanded(size, queue, heap)
    if size <= SMALL_BYTES:
        segment = SMALL_SEGMENT_BYTES
    elif size < OWN_SEGMENT_BYTES:
        segment = LARGE_SEGMENT_BYTES
    else:
        segment = SEGMENT_ROUNDING_BYTES * ((size + SEGMENT_ROUNDING_BYTES - 1) // SEGMENT_ROUNDING_BYTES)
    if heap.state[RESERVED] + segment > heap.options[LIMIT]:
        return _NO_BLOCK
    address = heap.state[_NEXT_ADDRESS]
    heap.state[_NEXT_ADDRESS] += segment
    return _segment(address, segment, queue, heap)


@compiled
def _segment(address: int, size: int, queue: int, heap: _AllocatorState) -> int:
    """A new segment, in no list."""
    block = _new_block(address, size, queue, _FREE, 0, heap)
    heap.state[RESERVED] += size
    heap.state[SEGMENT_ALLOCS] += 1
    return block


@compiled
def _room(size: int, queue: int, heap: _AllocatorState) -> int:
    """The lowest block from which on so much is free or unmapped; −1 for none (`find_expandable_block`)."""
    block = heap.links[2 * queue + 1, 0]
    while block >= 0:
        before = heap.blocks[block, _BEFORE]
        first = before if before >= 0 and heap.blocks[before, _STATUS] == _FREE else block
        room, each = 0, first
        while room < size and each >= 0:
            if heap.blocks[each, _STATUS] != _FREE and heap.blocks[each, _STATUS] != _UNMAPPED:
                break
            room += heap.blocks[each, _SIZE]
            each = heap.blocks[each, _AFTER]
        if room >= size:
            return first
        block = heap.links[block, 0]
    return _NO_BLOCK


@compiled
def _expanded(size: int, queue: int, heap: _AllocatorState) -> int:
    """A block where an expandable segment has room, mapped; −1 for none (`try_allocate_expandable_block`)."""
    block = _room(size, queue, heap)
    granule = SMALL_SEGMENT_BYTES if queue & 1 else LARGE_SEGMENT_BYTES
    if block < 0:
        span = granule * ((heap.options[SPAN] + granule - 1) // granule)
        if span < size:
            return _NO_BLOCK
        block = _new_block(heap.state[_NEXT_ADDRESS], span, queue, _UNMAPPED, 1, heap)
        heap.state[_NEXT_ADDRESS] += LARGE_SEGMENT_BYTES * ((span + LARGE_SEGMENT_BYTES - 1) // LARGE_SEGMENT_BYTES)
        _insert(block, heap)
    have = 0 if heap.blocks[block, _STATUS] == _UNMAPPED else heap.blocks[block, _SIZE]
    while have < size:
        unmapped = block if have == 0 else heap.blocks[block, _AFTER]
        wanted = min(size - have, heap.blocks[unmapped, _SIZE])
        wanted = granule * ((wanted + granule - 1) // granule)
        if heap.state[RESERVED] + wanted > heap.options[LIMIT]:
            return _NO_BLOCK
        _map(unmapped, wanted, heap)
        block, have = unmapped, heap.blocks[unmapped, _SIZE]
    _remove(block, heap)
    return block


@compiled
def _map(block: int, size: int, heap: _AllocatorState) -> None:
    """Map the beginning of an unmapped range, and merge it with its free neighbours (`map_block`)."""
    _remove(block, heap)
    rest = heap.blocks[block, _SIZE] - size
    if rest > 0:
        heap.blocks[block, _SIZE] = size
        after = _split_off(block, heap.blocks[block, _ADDRESS] + size, rest, _UNMAPPED, heap)
        _insert(after, heap)
    heap.blocks[block, _STATUS] = _FREE
    heap.state[RESERVED] += size
    heap.state[SEGMENT_ALLOCS] += 1
    _merge(block, heap)
    _insert(block, heap)


@compiled
def _map_recorded(address: int, size: int, queue: int, heap: _AllocatorState) -> None:
    """Map a range where the record says so; of an expandable segment that begins there, if it is in no other."""
    block = heap.links[2 * queue + 1, 0]
    while block >= 0 and heap.blocks[block, _ADDRESS] + heap.blocks[block, _SIZE] < address + size:
        block = heap.links[block, 0]
    if block < 0 or heap.blocks[block, _ADDRESS] > address:
        granule = SMALL_SEGMENT_BYTES if queue & 1 else LARGE_SEGMENT_BYTES
        span = granule * ((max(heap.options[SPAN], size) + granule - 1) // granule)
        block = _new_block(address, span, queue, _UNMAPPED, 1, heap)
        _insert(block, heap)
    block = _without_front(block, address, heap)
    _map(block, size, heap)
    heap.state[_LAST_REST] = heap.state[_NEW_SEGMENT] = block


@compiled
def _unmap(block: int, begin: int, end: int, heap: _AllocatorState) -> None:
    """Unmap a range inside a free block (`unmap_block`)."""
    block = _without_front(block, begin, heap)
    _remove(block, heap)
    rest = heap.blocks[block, _ADDRESS] + heap.blocks[block, _SIZE] - end
    if rest > 0:
        heap.blocks[block, _SIZE] -= rest
        after = _split_off(block, end, rest, _FREE, heap)
        _insert(after, heap)
    heap.blocks[block, _STATUS] = _UNMAPPED
    heap.state[RESERVED] -= end - begin
    heap.state[SEGMENT_FREES] += 1
    _merge(block, heap)
    if heap.blocks[block, _BEFORE] < 0 and heap.blocks[block, _AFTER] < 0:  # nothing of its segment is left
        _forget(block, heap)
    else:
        _insert(block, heap)


@inlined
def _release_segment(block: int, heap: _AllocatorState) -> None:
    """Free a segment, which is one free block (`release_block`)."""
    _remove(block, heap)
    heap.state[RESERVED] -= heap.blocks[block, _SIZE]
    heap.state[SEGMENT_FREES] += 1
    _forget(block, heap)


@compiled
def _release_cached(heap: _AllocatorState) -> None:
    """Wait for what is being freed; free all unused segments (`release_cached_blocks`)."""
    while heap.state[_FIRST_WAITING] >= 0:
        _free_block(heap.blocks[heap.state[_FIRST_WAITING], _OWNER], heap)
    for queue in range(heap.queues):
        granule = SMALL_SEGMENT_BYTES if queue & 1 else LARGE_SEGMENT_BYTES
        block = heap.links[2 * queue, 0]
        while block >= 0:
            following = heap.links[block, 0]
            if heap.blocks[block, _IS_EXPANDABLE]:
                begin = granule * ((heap.blocks[block, _ADDRESS] + granule - 1) // granule)
                end = granule * ((heap.blocks[block, _ADDRESS] + heap.blocks[block, _SIZE]) // granule)
                if begin < end:
                    _unmap(block, begin, end, heap)
            elif heap.blocks[block, _BEFORE] < 0 and heap.blocks[block, _AFTER] < 0:
                _release_segment(block, heap)
            block = following


@compiled
def _release_oversize(size: int, queue: int, heap: _AllocatorState) -> bool:
    """Free segments that are too large to be split, until that is enough (`release_available_cached_blocks`)."""
    if heap.options[MAX_SPLIT] >= UNLIMITED:
        return False
    wanted = max(size, heap.options[MAX_SPLIT])
    block = _walk(2 * queue, wanted, -1, -1, heap)
    if block >= 0:
        if heap.blocks[block, _IS_EXPANDABLE]:
            return False
        _release_segment(block, heap)
        return True
    released = 0
    while released < wanted:
        _walk(2 * queue, UNLIMITED, -1, -1, heap)
        largest = heap.path[0]
        if (
            largest == 2 * queue
            or heap.blocks[largest, _SIZE] < heap.options[MAX_SPLIT]
            or heap.blocks[largest, _IS_EXPANDABLE]
        ):
            return False
        released += heap.blocks[largest, _SIZE]
        _release_segment(largest, heap)
    return True


@compiled
def _collect_garbage(heap: _AllocatorState) -> None:
    """Free large segments that were unused for longest, until enough is (`garbage_collect_cached_blocks`)."""
    target, collected = heap.state[RESERVED] - heap.options[COLLECT_ABOVE], 0
    ages, count = 0, 0
    for queue in range(0, heap.queues, 2):
        block = heap.links[2 * queue, 0]
        while block >= 0:
            if heap.blocks[block, _BEFORE] < 0 and heap.blocks[block, _AFTER] < 0:
                ages += heap.state[_LARGE_SEARCHES] - heap.blocks[block, _AGE]
                count += 1
            block = heap.links[block, 0]
    freed = True
    while collected < target and freed and count > 0:
        oldest = ages / count
        freed = False
        for queue in range(0, heap.queues, 2):
            block = heap.links[2 * queue, 0]
            while block >= 0:
                following = heap.links[block, 0]
                age = heap.state[_LARGE_SEARCHES] - heap.blocks[block, _AGE]
                if heap.blocks[block, _BEFORE] < 0 and heap.blocks[block, _AFTER] < 0 and age >= oldest:
                    freed = True
                    collected += heap.blocks[block, _SIZE]
                    ages -= age
                    count -= 1
                    _release_segment(block, heap)
                block = following


# --- blocks


@compiled
def _assign(block: int, size: int, splits: bool, row: int, heap: _AllocatorState) -> None:
    """Mark a block, which is in no list, as allocated; if it is split, what it has beyond the size becomes free."""
    if splits:
        rest = heap.blocks[block, _SIZE] - size
        heap.blocks[block, _SIZE] = size
        after = _split_off(block, heap.blocks[block, _ADDRESS] + size, rest, _FREE, heap)
        _insert(after, heap)
        heap.state[_LAST_REST] = after
    heap.blocks[block, _STATUS] = _ALLOCATED
    heap.blocks[block, _OWNER] = row
    heap.block_of[row] = block
    heap.state[IN_USE] += heap.blocks[block, _SIZE]


@compiled
def _free_block(row: int, heap: _AllocatorState) -> None:
    """Make the block of a row free, and one with its free neighbours (`free_block`)."""
    block = heap.block_of[row]
    heap.block_of[row] = _NO_BLOCK
    if heap.blocks[block, _STATUS] == _WAITING:
        before, after = heap.blocks[block, _WAITS_BEFORE], heap.blocks[block, _WAITS_AFTER]
        if before >= 0:
            heap.blocks[before, _WAITS_AFTER] = after
        else:
            heap.state[_FIRST_WAITING] = after
        if after >= 0:
            heap.blocks[after, _WAITS_BEFORE] = before
    heap.state[IN_USE] -= heap.blocks[block, _SIZE]
    heap.blocks[block, _STATUS] = _FREE
    _merge(block, heap)
    _insert(block, heap)


@inlined
def _wait(block: int, heap: _AllocatorState) -> None:
    """Put a block to those whose free waits."""
    if block >= 0 and heap.blocks[block, _STATUS] == _ALLOCATED:
        first = heap.state[_FIRST_WAITING]
        heap.blocks[block, _STATUS] = _WAITING
        heap.blocks[block, _WAITS_BEFORE], heap.blocks[block, _WAITS_AFTER] = _NO_BLOCK, first
        if first >= 0:
            heap.blocks[first, _WAITS_BEFORE] = block
        heap.state[_FIRST_WAITING] = block


@compiled
def _merge(block: int, heap: _AllocatorState) -> None:
    """Join a block, which is in no list, with the neighbours of its status (`try_merge_blocks`)."""
    before, after = heap.blocks[block, _BEFORE], heap.blocks[block, _AFTER]
    if before >= 0 and heap.blocks[before, _STATUS] == heap.blocks[block, _STATUS]:
        _remove(before, heap)
        heap.blocks[block, _ADDRESS] = heap.blocks[before, _ADDRESS]
        heap.blocks[block, _SIZE] += heap.blocks[before, _SIZE]
        heap.blocks[block, _BEFORE] = heap.blocks[before, _BEFORE]
        if heap.blocks[before, _BEFORE] >= 0:
            heap.blocks[heap.blocks[before, _BEFORE], _AFTER] = block
        _forget(before, heap)
    if after >= 0 and heap.blocks[after, _STATUS] == heap.blocks[block, _STATUS]:
        _remove(after, heap)
        heap.blocks[block, _SIZE] += heap.blocks[after, _SIZE]
        heap.blocks[block, _AFTER] = heap.blocks[after, _AFTER]
        if heap.blocks[after, _AFTER] >= 0:
            heap.blocks[heap.blocks[after, _AFTER], _BEFORE] = block
        _forget(after, heap)


@compiled
def _without_front(block: int, address: int, heap: _AllocatorState) -> int:
    """The part of a free or unmapped block from an address on, in its list; the part before it stays as it was."""
    front = address - heap.blocks[block, _ADDRESS]
    if front <= 0:
        return block
    _remove(block, heap)
    rest = heap.blocks[block, _SIZE] - front
    heap.blocks[block, _SIZE] = front
    after = _split_off(block, address, rest, heap.blocks[block, _STATUS], heap)
    _insert(block, heap)
    _insert(after, heap)
    return after


@compiled
def _split_off(block: int, address: int, size: int, status: int, heap: _AllocatorState) -> int:
    """A new block behind another one of its segment, in no list."""
    after = _new_block(address, size, heap.blocks[block, _QUEUE], status, heap.blocks[block, _IS_EXPANDABLE], heap)
    following = heap.blocks[block, _AFTER]
    heap.blocks[after, _BEFORE], heap.blocks[after, _AFTER] = block, following
    if following >= 0:
        heap.blocks[following, _BEFORE] = after
    heap.blocks[block, _AFTER] = after
    return after


@inlined
def _new_block(address: int, size: int, queue: int, status: int, is_expandable: int, heap: _AllocatorState) -> int:
    block = heap.state[_UNUSED_ROW]
    if block >= 0:
        heap.state[_UNUSED_ROW] = heap.blocks[block, _AFTER]
    else:
        block = heap.state[_FRESH_ROW]
        heap.state[_FRESH_ROW] += 1
    heap.state[_IN_USE_ROWS] += 1
    heap.blocks[block, _ADDRESS], heap.blocks[block, _SIZE], heap.blocks[block, _QUEUE] = address, size, queue
    heap.blocks[block, _STATUS], heap.blocks[block, _IS_EXPANDABLE] = status, is_expandable
    heap.blocks[block, _BEFORE], heap.blocks[block, _AFTER] = _NO_BLOCK, _NO_BLOCK
    return block


@inlined
def _forget(block: int, heap: _AllocatorState) -> None:
    heap.blocks[block, _AFTER] = heap.state[_UNUSED_ROW]
    heap.blocks[block, _STATUS] = _ALLOCATED
    heap.blocks[block, _SIZE] = 0
    heap.state[_UNUSED_ROW] = block
    heap.state[_IN_USE_ROWS] -= 1
    if heap.state[_LAST_REST] == block:
        heap.state[_LAST_REST] = _NO_BLOCK


@compiled
def _free_block_with(address: int, size: int, queue: int, heap: _AllocatorState) -> int:
    """The free block of a queue that has all of a range; −1 for none."""
    last = heap.state[_LAST_REST]
    if last >= 0 and heap.blocks[last, _QUEUE] == queue and heap.blocks[last, _STATUS] == _FREE:
        if _has(last, address, size, heap):
            return last
    block = heap.links[2 * queue, 0]
    while block >= 0 and not _has(block, address, size, heap):
        block = heap.links[block, 0]
    return block


@inlined
def _has(block: int, address: int, size: int, heap: _AllocatorState) -> bool:
    begin = heap.blocks[block, _ADDRESS]
    return bool(begin <= address and address + size <= begin + heap.blocks[block, _SIZE])


# --- lists


@compiled
def _insert(block: int, heap: _AllocatorState) -> None:
    """Put a block into the list of its queue and status."""
    queue = heap.blocks[block, _QUEUE]
    is_unmapped = heap.blocks[block, _STATUS] == _UNMAPPED
    heap.blocks[block, _KEY] = 0 if is_unmapped else heap.blocks[block, _SIZE]
    heap.blocks[block, _AGE] = heap.state[_SMALL_SEARCHES if queue & 1 else _LARGE_SEARCHES]
    _walk(2 * queue + is_unmapped, heap.blocks[block, _KEY], heap.blocks[block, _ADDRESS], block, heap)
    seed = heap.state[_SEED]  # xorshift
    seed ^= seed << 13
    seed ^= (seed >> 7) & 0x1FFFFFFFFFFFFFF
    seed ^= seed << 17
    heap.state[_SEED] = seed
    for level in range(_LEVELS):
        heap.links[block, level] = heap.links[heap.path[level], level]
        heap.links[heap.path[level], level] = block
        if seed & 3:
            break
        seed >>= 2


@compiled
def _remove(block: int, heap: _AllocatorState) -> None:
    """Take a block out of its list, by the key that it was put in with."""
    is_unmapped = heap.blocks[block, _STATUS] == _UNMAPPED
    head = 2 * heap.blocks[block, _QUEUE] + is_unmapped
    _walk(head, heap.blocks[block, _KEY], heap.blocks[block, _ADDRESS], block, heap)
    for level in range(_LEVELS):
        if heap.links[heap.path[level], level] != block:
            break
        heap.links[heap.path[level], level] = heap.links[block, level]


@compiled
def _walk(head: int, key: int, address: int, row: int, heap: _AllocatorState) -> int:
    """The first block of a list from a key, address and row on, −1 for none; `path` gets those before it.

    The row tells blocks apart that a damaged file has at one address.
    """
    block = head
    for level in range(_LEVELS - 1, -1, -1):
        following = heap.links[block, level]
        while following >= 0 and _is_before(following, key, address, row, heap):
            block, following = following, heap.links[following, level]
        heap.path[level] = block
    return heap.links[block, 0]


@inlined
def _is_before(block: int, key: int, address: int, row: int, heap: _AllocatorState) -> bool:
    if heap.blocks[block, _KEY] != key:
        return bool(heap.blocks[block, _KEY] < key)
    if heap.blocks[block, _ADDRESS] != address:
        return bool(heap.blocks[block, _ADDRESS] < address)
    return block < row
