"""A Python process that takes and frees memory of its devices, while torch records its history."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.snapshots import stacks
from tests.snapshots.allocator import UNLIMITED, Allocator, Block, Note, PinnedAllocator, Pool, Settings
from tests.snapshots.stacks import Frame, Stack, python

START_US = 1_783_874_495_000_000
SIDE_STREAM = 0x5581_2340_AB10
WORKSPACE_BYTES = 8_519_680

Snapshot = dict[str, Any]


class Gathered:
    """The stack that one call gathered: events that share it share one list of frames in the file."""

    __slots__ = ("frames",)

    def __init__(self, frames: Stack) -> None:
        self.frames = frames


@dataclass
class Process:
    """A process with its devices.

    Attributes:
        stacks: "all", "python" or "cpp": which frames torch gathers.
        event_us: time that passes at each event of the allocators.
        now: the time, µs since 1970; programs may move it on.
        main: the frame of the script's entry point.
    """

    settings: Settings = field(default_factory=Settings)
    total: int = 80 << 30
    other: int = 600 << 20
    devices: int = 1
    stacks: str = "all"
    fraction: float | None = None
    event_us: int = 2
    now: int = START_US
    main: Frame = field(default_factory=lambda: python("<module>", "train.py", 120))
    annotations: list[dict[str, object]] = field(default_factory=list)
    note: Note = field(default_factory=Note)
    allocators: list[Allocator] = field(default_factory=list)
    pinned: PinnedAllocator | None = None
    _python: list[Frame] = field(default_factory=list)
    _thread: Stack | None = None
    _workspaces: set[tuple[int, int]] = field(default_factory=set)
    _memory: dict[tuple[int, ...], Stack] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._python.append(self.main)
        for device in range(self.devices):
            self.allocators.append(
                Allocator(
                    self.settings,
                    self.total,
                    self.other,
                    device,
                    self.fraction,
                    self._tick,
                    level=None,
                )
            )

    def _tick(self) -> int:
        self.now += self.event_us
        return self.now

    # --- recording ------------------------------------------------------------------------------------------------

    def record(self, context: str = "all", max_entries: int | None = None, skip: tuple[str, ...] = ()) -> None:
        """`_record_memory_history`: what came before leaves no events, and its blocks have no stacks."""
        for allocator in self.allocators:
            allocator.level = context
            allocator.history = deque(maxlen=1 if context == "state" else max_entries)
            allocator.skipped_actions = skip

    @contextlib.contextmanager
    def annotation(self, name: str, device: int = 0) -> Iterator[None]:
        """A `record_function` range."""
        self.annotations.append({"stage": "START", "name": name, "device": device, "time_us": self._tick()})
        yield
        self.annotations.append({"stage": "END", "name": name, "device": device, "time_us": self._tick()})

    def remark(self, **values: Any) -> None:
        """What torch keeps with each event from here on: fields of `Note`."""
        self.note = self.note._replace(**values)
        for allocator in self.allocators:
            allocator.note = self.note

    # --- where the program is -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def at(self, *frames: Frame) -> Iterator[None]:
        """Inside calls, the outermost first."""
        self._python.extend(frames)
        yield
        del self._python[len(self._python) - len(frames) :]

    @contextlib.contextmanager
    def line(self, number: int) -> Iterator[None]:
        """At another line of the innermost call."""
        before = self._python[-1]
        self._python[-1] = stacks.frame(str(before["name"]), str(before["filename"]), number)
        yield
        self._python[-1] = before

    def module(self, file: str, line: int) -> contextlib.AbstractContextManager[None]:
        """Inside the forward of a module: the frames of `nn.Module.__call__` and its own."""
        return self.at(
            python("_wrapped_call_impl", "torch/nn/modules/module.py", 1779),
            python("_call_impl", "torch/nn/modules/module.py", 1790),
            python("forward", file, line),
        )

    @contextlib.contextmanager
    def backward(self, node: str) -> Iterator[None]:
        """On autograd's thread, in a node: no frame of Python is there."""
        thread, frames = self._thread, self._python
        self._thread, self._python = stacks.node(node), []
        yield
        self._thread, self._python = thread, frames

    # --- memory ---------------------------------------------------------------------------------------------------

    def alloc(self, operator: str, size: int, stream: int = 0, device: int = 0) -> Block:
        """The memory that an operator takes for its output. Raises OutOfMemory."""
        return self.allocators[device].malloc(size, stream, self._gather((*stacks.MALLOC, *stacks.operator(operator))))

    def free(self, *blocks: Block, device: int = 0) -> None:
        """The last reference to each goes, in this order."""
        for block in blocks:
            self.allocators[device].free(block, self._gather(stacks.FREE, of_free=True))

    def drop(self, *blocks: Block, device: int = 0) -> None:
        """The graph that saved these goes, and no backward pass has run it."""
        for block in blocks:
            self.allocators[device].free(block, self._gather((*stacks.FREE, *stacks.RELEASE), of_free=True))

    def matmul(self, operator: str, size: int, stream: int = 0, device: int = 0) -> Block:
        """As `alloc`; the first such operator on a stream also allocates the workspace of cuBLAS."""
        block = self.alloc(operator, size, stream, device)
        if (device, stream) not in self._workspaces:
            self._workspaces.add((device, stream))
            self.alloc("workspace", WORKSPACE_BYTES, stream, device)
        return block

    def pin(self, size: int) -> Block:
        """Pinned host memory; the history has it from the first one on, as with `record_pinned_host_memory`."""
        if self.pinned is None:
            self.pinned = PinnedAllocator(self._tick)
        return self.pinned.malloc(size, self._gather(stacks.operator("empty")))

    def unpin(self, block: Block) -> None:
        assert self.pinned is not None
        self.pinned.free(block, self._gather(stacks.FREE, of_free=True))

    def annotate(self, block: Block, text: str, device: int = 0) -> None:
        """`torch.cuda.memory._annotate_tensor`."""
        self.allocators[device].annotate(block, text, self._gather(()))

    def empty_cache(self, device: int = 0) -> None:
        with self.at(python("empty_cache", "torch/cuda/memory.py", 218)):
            self.allocators[device].empty_cache(self._gather(stacks.EMPTY_CACHE))

    def other_memory(self, size: int) -> None:
        """From here on others hold so much of each device."""
        self.other = size
        for allocator in self.allocators:
            allocator.other = size

    @contextlib.contextmanager
    def capture(self, pool: Pool, device: int = 0, streams: frozenset[int] | None = None) -> Iterator[None]:
        """The capture of a CUDA graph."""
        self.allocators[device].begin_capture(pool, streams)
        yield
        self.allocators[device].end_capture(pool)

    def _gather(self, inner: Stack, *, of_free: bool = False) -> Gathered | None:
        level = self.allocators[0].level
        if level is None or (of_free and level != "all"):
            return None
        with_cpp = self.stacks != "python"
        key = (*map(id, inner), id(self._thread), *map(id, self._python))
        if key not in self._memory:
            frames: Stack = tuple(reversed(self._python)) if self.stacks != "cpp" else ()
            native = (*stacks.GATHER, *inner, *(self._thread or ())) if with_cpp else ()
            self._memory[key] = (*native, *stacks.interpreted(frames, with_cpp=with_cpp))
        return Gathered(self._memory[key])

    # --- the file -------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """`torch.cuda.memory._snapshot()` of the newest torch."""
        lists: dict[int, list[Frame]] = {}

        def frames(context: object) -> list[Frame]:
            if not isinstance(context, Gathered):
                return lists.setdefault(0, [])
            return lists.setdefault(id(context), list(context.frames))

        traces = [[_event(entry, frames) for entry in allocator.history] for allocator in self.allocators]
        segments = [
            _segment(head, allocator.device, frames) for allocator in self.allocators for head in allocator.heads()
        ]
        for allocator in self.allocators:
            allocator.mark_snapshot()
        answer: Snapshot = {
            "segments": segments,
            "device_traces": traces,
            "allocator_settings": _settings(self.settings),
            "external_annotations": list(self.annotations),
        }
        if self.pinned is not None:
            answer["host_segments"] = [_segment(block, -1, frames) for block in self.pinned.blocks]
            answer["host_traces"] = [_event(entry, frames) for entry in self.pinned.history]
        return answer


def _event(entry: Any, frames: Any) -> dict[str, object]:
    event = {
        "action": entry.action,
        "device_free" if entry.action == "oom" else "addr": entry.addr,
        "size": entry.size,
        "stream": entry.stream,
        "time_us": entry.time_us,
        "compile_context": entry.note.compile_context,
        "user_metadata": entry.note.user_metadata,
        "pool_id": entry.pool,
    }
    if entry.note.internal_metadata:
        event["internal_metadata"] = entry.note.internal_metadata
    if entry.note.forward_frames:
        event["forward_frames"] = list(entry.note.forward_frames)
    if entry.context is not None:
        event["frames"] = frames(entry.context)
    return event


def _segment(head: Block, device: int, frames: Any) -> dict[str, object]:
    blocks: list[dict[str, object]] = []
    total = allocated = active = requested = 0
    block: Block | None = head
    while block is not None and block.mapped:
        total += block.size
        allocated += block.size if block.allocated else 0
        active += block.size if block.in_use else 0
        requested += block.requested if block.in_use else 0
        state = "active_allocated" if block.allocated else "active_pending_free" if block.in_use else "inactive"
        blocks.append(
            {
                "address": block.address,
                "size": block.size,
                "requested_size": block.requested,
                "state": state,
                "frames": frames(block.context),
            }
        )
        block = block.after
    return {
        "device": device,
        "address": head.address,
        "total_size": total,
        "allocated_size": allocated,
        "active_size": active,
        "requested_size": requested,
        "stream": head.stream,
        "segment_type": "small" if head.pool.is_small else "large",
        "segment_pool_id": head.pool.owner,
        "is_expandable": head.within is not None,
        "frames": frames(head.segment_context),
        "blocks": blocks,
    }


def _settings(settings: Settings) -> dict[str, object]:
    return {
        "PYTORCH_CUDA_ALLOC_CONF": _conf(settings),
        "max_split_size": -1 if settings.max_split_size >= UNLIMITED else settings.max_split_size,
        "garbage_collection_threshold": settings.garbage_collection_threshold,
        "expandable_segments": settings.expandable_segments,
        "pinned_num_register_threads": 1,
        "release_lock_on_cudamalloc": False,
        "pinned_use_cuda_host_register": False,
        "graph_capture_record_stream_reuse": False,
        "max_round_threshold": -1,
        "max_cached_size": -1,
        "roundup_power2_divisions": {
            str(1 << power): divisions for power, divisions in enumerate(settings.roundup_power2_divisions)
        },
    }


def _conf(settings: Settings) -> str:
    texts = []
    if settings.max_split_size < UNLIMITED:
        texts.append(f"max_split_size_mb:{settings.max_split_size >> 20}")
    if settings.garbage_collection_threshold:
        texts.append(f"garbage_collection_threshold:{settings.garbage_collection_threshold}")
    if settings.expandable_segments:
        texts.append("expandable_segments:True")
    if any(settings.roundup_power2_divisions):
        pairs = (f"{1 << power}:{n}" for power, n in enumerate(settings.roundup_power2_divisions) if n)
        texts.append(f"roundup_power2_divisions:[{','.join(pairs)}]")
    return ",".join(texts)
