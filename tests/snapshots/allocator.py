"""The caching allocator of one device, block by block: what torch does, in the order in which it does it.

After c10/cuda/CUDACachingAllocator.cpp of PyTorch, whose names the methods bear. It keeps no statistics: a snapshot and
its history are all that comes out of it. Plain and slow on purpose: compiled replicas are compared with it.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

MIN_BLOCK = 512
SMALL_SIZE = 1 << 20
SMALL_BUFFER = 2 << 20
MIN_LARGE = 10 << 20
ROUND_LARGE = 2 << 20
UNLIMITED = 1 << 62
DEFAULT_POOL = (0, 0)
FIRST_ADDRESS = 0x7F00_0000_0000
FIRST_EXPANDABLE = 0x7F80_0000_0000
FIRST_HOST_ADDRESS = 0x7E00_0000_0000

Pool = tuple[int, int]


@dataclass(frozen=True)
class Settings:
    """`PYTORCH_CUDA_ALLOC_CONF`, in bytes. Divisions by interval: 1 MiB (and below), 2 MiB, 4 MiB … 32 GiB."""

    max_split_size: int = UNLIMITED
    garbage_collection_threshold: float = 0.0
    expandable_segments: bool = False
    roundup_power2_divisions: tuple[int, ...] = (0,) * 16
    large_segment_size: int = 20 << 20
    max_non_split_rounding_size: int = 20 << 20

    def round_size(self, size: int) -> int:
        """The size of the block that a request gets, before what is left of a found one is added to it."""
        if size < MIN_BLOCK:
            return MIN_BLOCK
        interval = min(max(size.bit_length() - 1 - 20, 0), 15)
        divisions = self.roundup_power2_divisions[interval]
        if divisions > 1 and size > MIN_BLOCK * divisions:
            if size & (size - 1) == 0:
                return size
            floor = 1 << (size.bit_length() - 1)
            step = floor >> (divisions.bit_length() - 1)
            return floor << 1 if step == 0 else -(-size // step) * step
        return -(-size // MIN_BLOCK) * MIN_BLOCK

    def segment_size(self, size: int) -> int:
        """What is asked of the device for a rounded size that no cached block fits."""
        if size <= SMALL_SIZE:
            return SMALL_BUFFER
        if size < MIN_LARGE:
            return self.large_segment_size
        return -(-size // ROUND_LARGE) * ROUND_LARGE


class Entry(NamedTuple):
    """One event of the history."""

    action: str
    addr: int
    size: int
    stream: int
    time_us: int
    context: object
    pool: Pool
    note: Note


class Note(NamedTuple):
    """What torch keeps with an event besides its stack."""

    compile_context: str = "N/A"
    user_metadata: str = ""
    forward_frames: tuple[str, ...] = ()
    internal_metadata: str = ""


@dataclass(eq=False)
class Range:
    """Addresses that expandable segments are mapped into."""

    address: int
    size: int
    granule: int
    stream: int


@dataclass(eq=False)
class BlockPool:
    """Free blocks of one kind: by (stream, size, address); unmapped ones by (stream, address)."""

    is_small: bool
    owner: Pool = DEFAULT_POOL
    blocks: list[Block] = field(default_factory=list)
    unmapped: list[Block] = field(default_factory=list)
    searches: int = 0

    def add(self, block: Block) -> None:
        block.age_base = self.searches
        bisect.insort(self.blocks, block, key=Block.fit)

    def lower_bound(self, stream: int, size: int) -> int:
        return bisect.bisect_left(self.blocks, (stream, size, 0), key=Block.fit)


@dataclass(eq=False)
class Block:
    """A piece of a segment; its neighbours are `before` and `after`."""

    pool: BlockPool
    stream: int
    address: int
    size: int
    requested: int = 0
    before: Block | None = None
    after: Block | None = None
    allocated: bool = False
    mapped: bool = True
    within: Range | None = None
    uses: set[int] = field(default_factory=set)
    pending: int = 0
    age_base: int = 0
    context: object = None
    segment_context: object = None

    def fit(self) -> tuple[int, int, int]:
        return self.stream, self.size, self.address

    def place(self) -> tuple[int, int]:
        return self.stream, self.address

    @property
    def is_split(self) -> bool:
        return self.before is not None or self.after is not None

    @property
    def in_use(self) -> bool:
        return self.allocated or self.pending > 0 or bool(self.uses)

    def insert(self, before: Block | None, after: Block | None) -> None:
        self.before, self.after = before, after
        if before is not None:
            before.after = self
        if after is not None:
            after.before = self


@dataclass
class PrivatePool:
    """The pools of a CUDA graph or a `MemPool`."""

    small: BlockPool
    large: BlockPool
    users: int = 1
    segments: int = 0


@dataclass
class OutOfMemory(Exception):  # noqa: N818 - as torch calls it
    """What torch's OutOfMemoryError says."""

    device: int
    asked: int
    total: int
    free: int
    allocated: int
    private: int
    reserved: int
    allowed: int | None

    def __str__(self) -> str:
        return (
            f"CUDA out of memory. Tried to allocate {readable(self.asked)}. GPU {self.device} has a total capacity "
            f"of {readable(self.total)} of which {readable(self.free)} is free. Including non-PyTorch memory, this "
            f"process has {readable(self.total - self.free)} memory in use. "
            + (f"{readable(self.allowed)} allowed; " if self.allowed is not None else "")
            + f"Of the allocated memory {readable(self.allocated + self.private)} is allocated by PyTorch, "
            + (
                f"with {readable(self.private)} allocated in private pools (e.g., CUDA Graphs), "
                if self.private
                else "and "
            )
            + f"{readable(self.reserved - self.allocated - self.private)} is reserved by PyTorch but unallocated. "
            "If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
            "to avoid fragmentation.  See documentation for Memory Management  "
            "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
        )


def readable(size: int) -> str:
    """`format_size` of the allocator."""
    if size <= 1024:
        return f"{size} bytes"
    for unit, power in (("KiB", 10), ("MiB", 20)):
        if size <= 1 << (power + 10):
            return f"{size / (1 << power):.2f} {unit}"
    return f"{size / (1 << 30):.2f} GiB"


@dataclass(eq=False)
class Allocator:
    """The allocator of a device.

    Attributes:
        total, other: bytes of the device; those that others than the allocator hold, which may change at any time.
        fraction: of `set_per_process_memory_fraction`; None where nobody called it.
        clock: gives the time of an event, µs.
        history: the events, oldest first; its `maxlen` is `max_entries`.
        level: of `context`: None (do not record), "state", "alloc" or "all".
    """

    settings: Settings = field(default_factory=Settings)
    total: int = 80 << 30
    other: int = 0
    device: int = 0
    fraction: float | None = None
    clock: Callable[[], int] = lambda: 0
    history: deque[Entry] = field(default_factory=deque)
    level: str | None = "all"
    skipped_actions: tuple[str, ...] = ()
    note: Note = field(default_factory=Note)
    reserved: int = 0
    small: BlockPool = field(default_factory=lambda: BlockPool(is_small=True))
    large: BlockPool = field(default_factory=lambda: BlockPool(is_small=False))
    active: dict[int, Block] = field(default_factory=dict)
    private: dict[Pool, PrivatePool] = field(default_factory=dict)
    captures: dict[Pool, frozenset[int] | None] = field(default_factory=dict)
    freeable: set[Pool] = field(default_factory=set)
    events: dict[int, deque[tuple[Block, list[bool]]]] = field(default_factory=dict)
    deferred: list[Block] = field(default_factory=list)
    capture_uses: dict[int, set[int]] = field(default_factory=dict)
    ranges: list[Range] = field(default_factory=list)
    segments: dict[int, int] = field(default_factory=dict)
    next_range: int = FIRST_EXPANDABLE

    # --- what programs call ---------------------------------------------------------------------------------------

    def malloc(self, size: int, stream: int = 0, context: object = None) -> Block:
        """A block for a request. Raises OutOfMemory when nothing helps."""
        if not self.captures:
            self._process_events(context)
        rounded = self.settings.round_size(size)
        pool = self._get_pool(rounded, stream)
        asked = self.settings.segment_size(rounded)
        block = self._get_free_block(pool, stream, rounded)
        if block is None:
            if self.fraction is not None and self.settings.garbage_collection_threshold > 0:
                self._garbage_collect(context)
            block = self._alloc_block(pool, stream, rounded, asked, context)
            if block is None and self._release_available(pool, stream, rounded, context):
                block = self._alloc_block(pool, stream, rounded, asked, context)
            if block is None and not self.captures:
                self.release_cached_blocks(context)
                block = self._alloc_block(pool, stream, rounded, asked, context)
        if block is None:
            raise self._out_of_memory(rounded, asked, stream, context)
        if self._should_split(block, rounded):
            rest = block
            block = Block(pool, stream, rest.address, rounded, within=rest.within)
            block.segment_context, rest.segment_context = rest.segment_context, None
            block.insert(rest.before, rest)
            rest.address += rounded
            rest.size -= rounded
            pool.add(rest)
        block.allocated, block.requested, block.context = True, size, context
        self._record("alloc", block.address, size, stream, context, pool.owner)
        self.active[block.address] = block
        return block

    def free(self, block: Block, context: object = None) -> None:
        """Gives a block back; it is pending while other streams use it."""
        assert block.allocated, "freed twice"
        block.allocated = False
        context = context if self.level == "all" else None
        own = context or block.context
        self._record("free_requested", block.address, block.requested, block.stream, own, block.pool.owner)
        if not block.uses:
            self._free_block(block, context)
        elif self.captures:
            self.deferred.append(block)
        else:
            self._insert_events(block)

    def record_stream(self, block: Block, stream: int) -> None:
        """Says that another stream uses a block."""
        if stream != block.stream:
            block.uses.add(stream)
            if self.captures:
                self.capture_uses.setdefault(block.address, set()).add(stream)

    def complete(self, stream: int | None = None) -> None:
        """The device passes all events recorded so far, of one stream or of all; the next malloc notices it."""
        for each in self.events if stream is None else (stream,):
            for _, done in self.events.get(each, ()):
                done[0] = True

    def empty_cache(self, context: object = None) -> None:
        self.release_cached_blocks(context if self.level == "all" else None)

    def begin_capture(self, pool: Pool, streams: frozenset[int] | None = None) -> None:
        """From here on requests of these streams (None: all) go to a private pool."""
        known = self.private.get(pool)
        if known is None:
            self.private[pool] = PrivatePool(BlockPool(True, pool), BlockPool(False, pool))
        else:
            known.users += 1
        self.captures[pool] = streams

    def end_capture(self, pool: Pool) -> None:
        del self.captures[pool]

    def release_pool(self, pool: Pool) -> None:
        """A user of a private pool goes; the last one makes its memory releasable."""
        self.private[pool].users -= 1
        if self.private[pool].users == 0:
            self.freeable.add(pool)

    def annotate(self, block: Block, text: str, context: object = None) -> None:
        """`_annotate_tensor`: a text about a block that is in use."""
        before, self.note = self.note, self.note._replace(user_metadata=text)
        self._record("annotate", block.address, block.requested, block.stream, context, block.pool.owner)
        self.note = before

    def mark_snapshot(self) -> None:
        active = sum(block.size for block in self.active.values())
        self._record("snapshot", 0, active, 0, None, DEFAULT_POOL)

    # --- what can be looked at ------------------------------------------------------------------------------------

    def heads(self) -> Iterator[Block]:
        """The first block of each segment (of each mapped range of an expandable one), in order of address."""
        free = (block for pool in self._pools() for block in pool.blocks)
        blocks = sorted((*free, *self.active.values()), key=lambda block: block.address)
        return (block for block in blocks if block.before is None or not block.before.mapped)

    def state(self) -> tuple[object, ...]:
        """What the future depends on, besides pending events: two allocators with one state go on alike."""
        chains = []
        for head in self.heads():
            block: Block | None = head
            while block is not None and block.mapped:
                asked = block.requested if block.in_use else 0
                chains.append((block.address, block.size, block.stream, asked))
                block = block.after
        return self.reserved, tuple(chains)

    @property
    def allocated(self) -> int:
        return sum(block.size for block in self.active.values() if block.allocated)

    # --- the algorithm --------------------------------------------------------------------------------------------

    def _pools(self) -> list[BlockPool]:
        return [self.small, self.large, *(each for own in self.private.values() for each in (own.small, own.large))]

    def _get_pool(self, size: int, stream: int) -> BlockPool:
        for pool, streams in self.captures.items():
            if streams is None or stream in streams:
                return self.private[pool].small if size <= SMALL_SIZE else self.private[pool].large
        return self.small if size <= SMALL_SIZE else self.large

    def _should_split(self, block: Block, size: int) -> bool:
        rest = block.size - size
        if block.pool.is_small or self.settings.expandable_segments:
            return rest >= MIN_BLOCK
        return size < self.settings.max_split_size and rest > SMALL_SIZE

    def _get_free_block(self, pool: BlockPool, stream: int, size: int) -> Block | None:
        if self.fraction is not None and self.settings.garbage_collection_threshold > 0:
            pool.searches += 1
        blocks, limit = pool.blocks, self.settings.max_split_size
        at = pool.lower_bound(stream, size)
        if at == len(blocks) or blocks[at].stream != stream:
            return None
        if blocks[at].within is not None:

            def room(block: Block) -> int:
                after = block.after
                return block.size + (after.size if after is not None and not after.mapped else 0)

            while (
                blocks[at].within is not None
                and at + 1 < len(blocks)
                and blocks[at + 1].stream == stream
                and room(blocks[at + 1]) < room(blocks[at])
            ):
                at += 1
        found = blocks[at]
        if size < limit <= found.size:
            return None
        if size >= limit and found.size >= size + self.settings.max_non_split_rounding_size:
            return None
        return blocks.pop(at)

    def _alloc_block(self, pool: BlockPool, stream: int, size: int, asked: int, context: object) -> Block | None:
        if self.fraction is not None and self.reserved + asked > int(self.fraction * self.total):
            return None
        own = self.private.get(pool.owner)
        if self.settings.expandable_segments:
            block = self._try_allocate_expandable(pool, stream, size, context)
            if block is not None and own is not None:
                own.segments += 1
            return block
        if self.reserved + asked > self.total - self.other:
            return None
        address = self._find_address(asked)
        self.segments[address] = asked
        self.reserved += asked
        if own is not None:
            own.segments += 1
        self._record("segment_alloc", address, asked, stream, context, pool.owner)
        return Block(pool, stream, address, asked, segment_context=context)

    def _find_address(self, size: int) -> int:
        """The lowest gap that fits: how drivers place is not known, and no answer may depend on it."""
        address = FIRST_ADDRESS
        for start in sorted(self.segments):
            if start - address >= size:
                break
            address = start + -(-self.segments[start] // ROUND_LARGE) * ROUND_LARGE
        return address

    def _garbage_collect(self, context: object) -> None:
        threshold = int(self.settings.garbage_collection_threshold * int((self.fraction or 1) * self.total))
        if self.reserved <= threshold:
            return
        target, reclaimed = self.reserved - threshold, 0
        pool = self.large
        ages = [pool.searches - block.age_base for block in pool.blocks if not block.is_split]
        total, count, went = sum(ages), len(ages), True
        while reclaimed < target and went and count > 0:
            limit, went = total / count, False
            for block in list(pool.blocks):
                age = pool.searches - block.age_base
                if not block.is_split and age >= limit:
                    went = True
                    reclaimed += block.size
                    total -= age
                    count -= 1
                    self._release_block(block, context)

    def _release_available(self, pool: BlockPool, stream: int, size: int, context: object) -> bool:
        limit = self.settings.max_split_size
        if limit >= UNLIMITED:
            return False
        wanted = max(size, limit)
        at = pool.lower_bound(stream, wanted)
        if at < len(pool.blocks) and pool.blocks[at].stream == stream:
            self._release_block(pool.blocks[at], context)
            return True
        released = 0
        for block in reversed(pool.blocks[:at]):
            if released >= wanted or block.size < limit or block.stream != stream:
                break
            released += block.size
            self._release_block(block, context)
        return released >= wanted

    def release_cached_blocks(self, context: object) -> None:
        self._insert_deferred(context)
        for queue in list(self.events.values()):
            for block, _ in queue:
                block.pending -= 1
                if block.pending == 0:
                    self._free_block(block, context)
        self.events.clear()
        self._release_blocks(self.large, context)
        self._release_blocks(self.small, context)
        for pool in sorted(self.freeable):
            own = self.private[pool]
            self._release_blocks(own.small, context)
            self._release_blocks(own.large, context)
            if own.segments == 0:
                self.freeable.discard(pool)
                del self.private[pool]

    def _release_blocks(self, pool: BlockPool, context: object) -> None:
        to_unmap = []
        for block in list(pool.blocks):
            if block.within is not None:
                to_unmap.append(block)
            elif not block.is_split:
                self._release_block(block, context)
        for block in to_unmap:
            self._unmap_block(block, context)

    def _release_block(self, block: Block, context: object) -> None:
        owner = block.pool.owner
        self._record("segment_free", block.address, block.size, block.stream, context or block.segment_context, owner)
        self.reserved -= block.size
        del self.segments[block.address]
        if owner in self.private:
            self.private[owner].segments -= 1
        block.pool.blocks.remove(block)

    def _free_block(self, block: Block, context: object) -> None:
        own = context or block.context
        self._record("free_completed", block.address, block.requested, block.stream, own, block.pool.owner)
        del self.active[block.address]
        block.context = None  # what was requested stays, as in torch
        for neighbour in (block.before, block.after):
            self._try_merge(block, neighbour)
        block.pool.add(block)

    def _try_merge(self, block: Block, other: Block | None) -> None:
        if other is None or other.in_use or other.mapped != block.mapped:
            return
        (block.pool.blocks if other.mapped else block.pool.unmapped).remove(other)
        if other is block.before:
            block.address = other.address
            block.insert(other.before, block.after)
            block.segment_context = other.segment_context
        else:
            block.insert(block.before, other.after)
        block.size += other.size

    # --- streams --------------------------------------------------------------------------------------------------

    def _insert_events(self, block: Block) -> None:
        streams, block.uses = block.uses, set()
        for stream in sorted(streams):
            block.pending += 1
            self.events.setdefault(stream, deque()).append((block, [False]))

    def _insert_deferred(self, context: object) -> None:
        for block in self.deferred:
            block.uses -= self.capture_uses.pop(block.address, set())
            self._insert_events(block)
            if block.pending == 0:
                self._free_block(block, context)
        self.deferred.clear()

    def _process_events(self, context: object) -> None:
        self._insert_deferred(context)
        for stream, queue in list(self.events.items()):
            while queue and queue[0][1][0]:
                block, _ = queue.popleft()
                block.pending -= 1
                if block.pending == 0:
                    self._free_block(block, context)
            if not queue:
                del self.events[stream]

    # --- expandable segments --------------------------------------------------------------------------------------

    def _find_expandable(self, pool: BlockPool, stream: int, size: int) -> Block:
        for block in pool.unmapped:
            if block.stream != stream:
                continue
            start = block.before if block.before is not None and not block.before.in_use else block
            room = 0
            each: Block | None = start
            while room < size and each is not None and not each.in_use:
                room += each.size
                each = each.after
            if room >= size:
                return start
        granule = SMALL_BUFFER if pool.is_small else self.settings.large_segment_size
        space = -(-(self.total + self.total // 8) // granule) * granule
        within = Range(self.next_range, space, granule, stream)
        self.next_range += space + (-space) % (1 << 30)
        self.ranges.append(within)
        block = Block(pool, stream, within.address, space, mapped=False, within=within)
        bisect.insort(pool.unmapped, block, key=Block.place)
        return block

    def _try_allocate_expandable(self, pool: BlockPool, stream: int, size: int, context: object) -> Block | None:
        block = self._find_expandable(pool, stream, size)
        if not block.mapped and not self._map_block(block, min(block.size, size), context):
            return None
        while block.size < size:
            following = block.after
            assert following is not None
            if not self._map_block(following, min(size - block.size, following.size), context):
                return None
            block = following
        pool.blocks.remove(block)
        return block

    def _map_block(self, block: Block, size: int, context: object) -> bool:
        within, pool = block.within, block.pool
        assert within is not None
        assert (block.address - within.address) % within.granule == 0
        size = -(-size // within.granule) * within.granule
        if self.reserved + size > self.total - self.other:
            return False
        pool.unmapped.remove(block)
        block.mapped = True
        start = block.address
        if size < block.size:
            rest = Block(pool, block.stream, start + size, block.size - size, mapped=False, within=within)
            rest.insert(block, block.after)
            bisect.insort(pool.unmapped, rest, key=Block.place)
            block.size = size
        self._try_merge(block, block.before)
        self._try_merge(block, block.after)
        pool.add(block)
        self.reserved += size
        self._record("segment_map", start, size, block.stream, context, pool.owner)
        if block.before is None and block.segment_context is None:
            block.segment_context = context
        return True

    def _unmap_block(self, block: Block, context: object) -> None:
        within, pool = block.within, block.pool
        assert within is not None
        offset = block.address - within.address
        start = within.address + -(-offset // within.granule) * within.granule
        end = within.address + (offset + block.size) // within.granule * within.granule
        if start >= end:
            return
        pool.blocks.remove(block)
        if start > block.address:
            left = Block(pool, block.stream, block.address, start - block.address, within=within)
            left.insert(block.before, block)
            pool.add(left)
        if end < block.address + block.size:
            right = Block(pool, block.stream, end, block.address + block.size - end, within=within)
            right.insert(block, block.after)
            pool.add(right)
        block.address, block.size, block.mapped = start, end - start, False
        self._try_merge(block, block.before)
        self._try_merge(block, block.after)
        bisect.insort(pool.unmapped, block, key=Block.place)
        self.reserved -= end - start
        if pool.owner in self.private:
            self.private[pool.owner].segments -= 1
        self._record("segment_unmap", start, end - start, block.stream, context or block.segment_context, pool.owner)
        if not block.is_split:
            self.ranges.remove(within)
            pool.unmapped.remove(block)

    # --- the record -----------------------------------------------------------------------------------------------

    def _out_of_memory(self, size: int, asked: int, stream: int, context: object) -> OutOfMemory:
        allowed = None if self.fraction is None else int(self.fraction * self.total)
        free = self.total - self.other - self.reserved
        pool = self._get_pool(size, stream).owner
        self._record("oom", free, size, stream, context, pool)
        private = sum(
            block.size for own in self.private.values() for pool in (own.small, own.large) for block in pool.blocks
        )
        return OutOfMemory(self.device, asked, self.total, free, self.allocated, private, self.reserved, allowed)

    def _record(self, action: str, addr: int, size: int, stream: int, context: object, pool: Pool) -> None:
        if self.level is None or action in self.skipped_actions:
            return
        kept = context if self.level in ("alloc", "all") else None
        self.history.append(Entry(action, addr, size, stream, self.clock(), kept, pool, self.note))


@dataclass(eq=False)
class PinnedAllocator:
    """torch's allocator of pinned host memory: sizes are powers of two, and a segment is one block."""

    clock: Callable[[], int]
    history: deque[Entry] = field(default_factory=deque)
    blocks: list[Block] = field(default_factory=list)
    pool: BlockPool = field(default_factory=lambda: BlockPool(is_small=True))

    def malloc(self, size: int, context: object) -> Block:
        rounded = 1 << max(size - 1, 0).bit_length()
        block = next((each for each in self.blocks if not each.allocated and each.size == rounded), None)
        if block is None:
            end = max((each.address + each.size for each in self.blocks), default=FIRST_HOST_ADDRESS)
            block = Block(self.pool, 0, end, rounded, rounded)
            self.blocks.append(block)
            self._record("segment_alloc", block, context)
        block.allocated, block.context = True, context
        self._record("alloc", block, context)
        return block

    def free(self, block: Block, context: object) -> None:
        block.allocated, block.context = False, None
        self._record("free_requested", block, context)
        self._record("free_completed", block, context)

    def _record(self, action: str, block: Block, context: object) -> None:
        note = Note(compile_context="")
        self.history.append(Entry(action, block.address, block.size, 0, self.clock(), context, DEFAULT_POOL, note))
